"""What defines an encoding."""

from __future__ import annotations

from typing import Annotated

import torch
import typer

from rfp.cli.options.choices import one_of, panel
from rfp.errors import ArgumentError
from rfp.features import DISTRIBUTIONS
from rfp.graph import Graph
from rfp.normalization import NORMALIZATIONS
from rfp.operators import OPERATORS, from_name
from rfp.settings import BACKEND_NAMES, STARTS

DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
_encoding = panel("The encoding")


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
Normalization = Annotated[str, _encoding(**one_of(NORMALIZATIONS))]
Distribution = Annotated[str, _encoding(**one_of(DISTRIBUTIONS))]
Start = Annotated[
    str, _encoding(help="How the features begin: as drawn, with unit columns, or orthonormal.", **one_of(STARTS))
]
Seed = Annotated[int, _encoding(help="Same seed and same graph, same encoding.")]
Dtype = Annotated[str, _encoding(help="Precision of the computation.", **one_of(["float32", "float64"]))]
StorageDtype = Annotated[str | None, _encoding(help="Precision of the output, if another.", **one_of(DTYPES))]
Backend = Annotated[str, _encoding(**one_of(BACKEND_NAMES))]
Device = Annotated[str, _encoding(callback=_device, help="cpu, cuda or cuda:N.")]
Strict = Annotated[bool, _encoding("--strict", help="Fail where a column is linearly dependent.")]
