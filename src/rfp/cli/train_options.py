"""Options that ``rfp train``, ``rfp search`` and ``rfp table`` share. What they need is imported when a verb runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _place(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Where", **settings)


ConfigOrName = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG.yaml|DATASET", help="A config file, or a data set by name: zinc, cora, counting-generated, …"
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace a value of the config; the value is read as YAML."),
]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds: 0, 1, 2, …")]
Splits = Annotated[
    list[int] | None, typer.Option("--split", help="A split by number; may be given several times. Default: all.")
]
DataRoot = Annotated[Path | None, _place(help="Folder of raw data sets.", envvar="RFP_DATA", show_envvar=True)]
Device = Annotated[str, _place(metavar="auto|cpu|cuda", help="Where to train.")]
NumDevices = Annotated[int, _place(min=1, help="GPUs for one run.")]
Results = Annotated[Path, _place(help="Folder of result files.")]
Checkpoints = Annotated[Path, _place(help="Folder of checkpoints, logs and searches.")]
Resume = Annotated[bool, typer.Option("--resume/--no-resume", help="Take up finished and unfinished runs.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing on stderr.")]
