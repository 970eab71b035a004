"""The options of ``rfp encode``: one line of help each, checked before anything is read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import torch
import typer

from rfp.backends import BACKENDS
from rfp.errors import ArgumentError
from rfp.features import DISTRIBUTIONS
from rfp.graph import Graph
from rfp.io import FORMATS
from rfp.normalization import NORMALIZATIONS
from rfp.operators import OPERATORS, from_name
from rfp.settings import STARTS

DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}


def _option(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


def _encoding(*names: str, **settings: Any) -> Any:
    return _option("The encoding", *names, **settings)


def _reading(*names: str, **settings: Any) -> Any:
    return _option("Reading the graph", *names, **settings)


def _output(*names: str, **settings: Any) -> Any:
    return _option("Output", *names, **settings)


def _one_of(choices: Iterable[str]) -> dict[str, Any]:
    names = tuple(choices)

    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}")
        return value

    return {"callback": check, "metavar": "|".join(names)}


def _operators(values: list[str]) -> list[str]:
    single = Graph(torch.zeros(2, 0, dtype=torch.long), num_nodes=1)
    for value in values:
        try:
            from_name(value, single)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from error
    return values


def _device(name: str) -> str:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise typer.BadParameter(f"{name!r} is not a device; expected cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise typer.BadParameter(f"expected cpu, cuda or cuda:N, got {name!r}")
    count = torch.cuda.device_count() if device.type == "cuda" else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        raise typer.BadParameter(f"{name}: torch sees {count} CUDA devices here; use --device cpu")
    return name


GraphFile = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="Edge list (.csv .tsv .txt, also .gz), .parquet, .npz (SciPy), .mtx, .graphml or .pt (PyG); "
        "**-** is an edge list on standard input.",
    ),
]

Channels = Annotated[int, _encoding("-k", "--channels", min=1, help="Channels.")]
Steps = Annotated[int, _encoding("-P", "--steps", min=0, help="Propagation steps; 0 gives random features.")]
NormalizeEvery = Annotated[int, _encoding("-w", "--normalize-every", min=1, help="Normalise every w steps.")]
Trajectories = Annotated[int, _encoding("-B", "--trajectories", min=1, help="Independent random starts.")]
Operators = Annotated[
    list[str],
    _encoding(
        "--operator",
        callback=_operators,
        metavar="NAME",
        help=f"May be given several times: {', '.join(OPERATORS)}; with suffixes .sym, .T, ^2.",
    ),
]
Normalization = Annotated[str, _encoding(**_one_of(NORMALIZATIONS))]
Distribution = Annotated[str, _encoding(**_one_of(DISTRIBUTIONS))]
Start = Annotated[
    str, _encoding(help="How the features begin: as drawn, with unit columns, or orthonormal.", **_one_of(STARTS))
]
Seed = Annotated[int, _encoding(help="Same seed and same graph, same encoding.")]
Dtype = Annotated[str, _encoding(help="Precision of the computation.", **_one_of(["float32", "float64"]))]
StorageDtype = Annotated[str | None, _encoding(help="Precision of the output, if another.", **_one_of(DTYPES))]
Backend = Annotated[str, _encoding(**_one_of(["auto", *BACKENDS]))]
Device = Annotated[str, _encoding(callback=_device, help="cpu, cuda or cuda:N.")]
Strict = Annotated[bool, _encoding("--strict", help="Fail where a column is linearly dependent.")]

Format = Annotated[str | None, _reading(help="If the suffix does not tell.", **_one_of(FORMATS))]
Directed = Annotated[
    bool | None,
    _reading(
        "--directed/--undirected",
        help="Default: undirected for edge lists and Parquet (each edge counts both ways, listed once or twice), "
        "as stored for matrices, GraphML and PyG.",
        show_default=False,
    ),
]
NumNodes = Annotated[
    int | None,
    _reading(
        min=1,
        help="The ids are 0 to N-1, and those that do not appear are isolated nodes. Default: the nodes are the ids "
        "that appear, numbers in ascending order, text in order of appearance.",
    ),
]
SourceColumn = Annotated[str | None, _reading(metavar="NAME|NUMBER", help="Column of the source ids.")]
TargetColumn = Annotated[str | None, _reading(metavar="NAME|NUMBER", help="Column of the target ids.")]
WeightColumn = Annotated[
    str | None, _reading(metavar="NAME|NUMBER", help="Column (GraphML: edge attribute) of the weights.")
]
Unweighted = Annotated[bool, _reading("--unweighted", help="Ignore weights.")]
Header = Annotated[
    bool | None,
    _reading(
        "--header/--no-header",
        help="Whether the first line names the columns. Default: seen from the first two lines.",
        show_default=False,
    ),
]
Delimiter = Annotated[str | None, _reading(metavar="CHAR", help="What separates the columns, if it is not seen.")]

Output = Annotated[
    str | None,
    _output(
        "-o",
        "--output",
        metavar="OUT",
        help="OUT.npy, .npz, .parquet or .pt; **-** writes .npy to standard output.",
    ),
]
Force = Annotated[bool, _output("--force", help="Replace OUT if it exists, and run what is refused as endless.")]
Stream = Annotated[
    bool | None,
    _output(
        "--stream/--no-stream",
        help="Write step by step, without holding the result (.npy). Default: when it would not fit memory.",
        show_default=False,
    ),
]
EstimateOnly = Annotated[bool, _output("--estimate", help="Print what it would cost, and stop.")]
JsonReport = Annotated[bool, _output("--json", help="Print a report as JSON on standard output.")]
Quiet = Annotated[bool, _output("-q", "--quiet", help="No progress bar and no summary.")]
