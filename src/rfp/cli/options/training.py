"""What ``rfp train``, ``rfp search`` and ``rfp table`` share: their options, and what is made of them.

What they need is imported when a verb runs: help loads nothing heavy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rfp.errors import ArgumentError, FileError, MissingExtraError, RFPError, is_out_of_memory

if TYPE_CHECKING:
    from rfp.train import RunConfig, Workspace


def _where(*names: str, **settings: Any) -> Any:
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
    list[int] | None, typer.Option("--split", help="Number of a split. May be given several times. Default: all.")
]
DataRoot = Annotated[Path | None, _where(help="Folder of raw data sets.", envvar="RFP_DATA", show_envvar=True)]
NumDevices = Annotated[int, _where(min=1, help="GPUs for one run.")]
Results = Annotated[Path, _where(help="Folder of result files.")]
Checkpoints = Annotated[Path, _where(help="Folder of checkpoints, logs and searches.")]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume/--no-resume", help="Keep finished and continue unfinished runs, or begin the result file anew."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout.")]


def read_target(target: str, sets: Sequence[str] | None) -> RunConfig:
    """The config that an argument and its ``--set`` name.

    Raises:
        typer.BadParameter: ``--set`` is malformed or has an unknown key, or the argument is neither file nor name.
    """
    config = _config_of(target)
    for text in sets or []:
        try:
            config = with_setting(config, text)
        except (ArgumentError, TypeError) as error:
            raise typer.BadParameter(f"--set {text}: {error}") from error
    return config


def _config_of(target: str) -> RunConfig:
    from rfp.data import DATASETS
    from rfp.reproduce.defaults import default_config
    from rfp.train import read_config

    if target in DATASETS:
        return default_config(target)
    path = Path(target)
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        return read_config(path)
    if path.exists():
        raise typer.BadParameter(
            f"{target!r} is not a config file; write one with 'data: {{path: {target}}}' in it and give that"
        )
    raise typer.BadParameter(f"{target!r} is neither a .yaml file nor a data set; data sets are {', '.join(DATASETS)}")


def with_setting(config: RunConfig, text: str) -> RunConfig:
    """The config with ``KEY=VALUE`` applied; ``search.KEY=[...]`` adds values to try.

    >>> from rfp.train import RunConfig
    >>> config = RunConfig.from_dict({"data": "texas"})
    >>> with_setting(config, "training.lr=1e-2").training.lr
    0.01
    >>> with_setting(config, "search.training.lr=[1e-3, 1e-2]").search
    {'training.lr': (0.001, 0.01)}
    """
    yaml_error, parse_yaml = _yaml()
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ArgumentError("expected KEY=VALUE, such as training.lr=0.01")
    try:
        parsed = parse_yaml(value)
    except yaml_error as error:
        raise ArgumentError(f"the value is not YAML: {' '.join(str(error).split())}") from error
    key = key.strip()
    if not key.startswith("search."):
        return config.with_values({key: parsed})
    if not isinstance(parsed, list):
        raise ArgumentError("a search needs a list of values, such as [0.001, 0.01]")
    return replace(config, search={**config.search, key.removeprefix("search."): tuple(parsed)})


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise MissingExtraError("pyyaml", "train", "reading a config") from error
    from rfp.train.plain_yaml import parse_yaml

    return yaml.YAMLError, parse_yaml


@contextmanager
def workspace(
    *,
    data_root: Path | None,
    results: Path | None,
    checkpoints: Path | None,
    device: str,
    num_devices: int = 1,
    quiet: bool = False,
) -> Iterator[Workspace]:
    """A :class:`~rfp.train.Workspace` whose progress is on stderr; running out of memory becomes a clear error."""
    from rfp.atomic import check_folder
    from rfp.cli.progress import Ticker
    from rfp.train import Workspace

    for folder in (results, checkpoints):
        if folder is not None:
            check_folder(folder)
    if data_root is not None and not data_root.is_dir():
        raise FileError(f"{data_root}: the data root is not a folder; see rfp train --help")

    def say(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    tick = Ticker(quiet=quiet)
    try:
        yield Workspace(
            data_root=data_root,
            results=results,
            checkpoints=checkpoints,
            device=device,
            num_devices=num_devices,
            say=say,
            progress=sys.stderr.isatty() and not quiet,
            tick=tick,
        )
    except (MemoryError, RuntimeError) as error:
        raise _explained(error) from error
    finally:
        tick.close()


def _explained(error: BaseException) -> BaseException:
    if isinstance(error, RFPError):  # which says what to do
        return error
    if is_out_of_memory(error):
        return ArgumentError(
            "out of memory while training; lower training.batch_size, model.hidden_channels or the encoding's "
            "num_channels with --set, or use another --device"
        )
    return error
