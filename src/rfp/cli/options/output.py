"""Where results go, and how much is said."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from rfp.atomic import check_output
from rfp.cli.options.panels import panel
from rfp.errors import FileError, WriteError

_output = panel("Output")

Output = Annotated[
    str | None,
    _output(
        "-o",
        "--output",
        metavar="OUT",
        help="OUT.npy, .npz, .parquet or .pt. **-** writes .npy to standard output. A name without suffix is a folder "
        "of row blocks, for graphs that outgrow memory.",
    ),
]
Force = Annotated[bool, _output("--force", help="Replace OUT if it exists, and run what would be refused as endless.")]
Stream = Annotated[
    bool | None,
    _output(
        "--stream/--no-stream",
        help="Write step by step, without holding the result in memory (.npy). Default: if it would not fit.",
        show_default=False,
    ),
]
ShowOnly = Annotated[bool, _output("--show", help="Print how the file was read, with its first edges, and stop.")]
EstimateOnly = Annotated[bool, _output("--estimate", help="Print what the encoding would cost, and stop.")]
JsonReport = Annotated[bool, _output("--json", help="Print a report as JSON on standard output.")]
Quiet = Annotated[bool, _output("-q", "--quiet", help="Print nothing but errors.")]


def check_given(path: Path, inputs: Iterable[Path | str], *, force: bool) -> None:
    """:func:`~rfp.atomic.check_output` of a command line, on which a folder that is not there is no failed write."""
    try:
        check_output(path, inputs, force=force)
    except WriteError as error:
        raise FileError(str(error)) from None
