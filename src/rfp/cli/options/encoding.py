"""What defines an encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from rfp.cli.options.panels import one_of, panel
from rfp.features import DISTRIBUTIONS
from rfp.normalization import NORMALIZATIONS
from rfp.operators import BOTH_DIRECTIONS, OPERATORS
from rfp.settings import BACKEND_NAMES, STARTS, Settings

_encoding = panel("The encoding")
_DTYPES = ("float16", "float32", "float64")  # that .npy files know


@dataclass(frozen=True)
class EncodingOptions(Settings):
    """The fields of :class:`rfp.Settings`, with their defaults, as options."""

    num_channels: Annotated[int, _encoding("-k", "--channels", min=1, help="Number of channels.")]
    num_steps: Annotated[
        int, _encoding("-P", "--steps", min=0, help="Number of propagation steps; 0 gives random features.")
    ]
    operators: Annotated[
        list[str],
        _encoding(
            "--operator",
            metavar="NAME",
            help=f"Operator: {', '.join(OPERATORS)}; with suffixes .sym, .T, ^2. "
            f"{BOTH_DIRECTIONS}: along the edges of a directed graph and against them. May be given several times.",
        ),
    ]
    normalization: Annotated[str, _encoding(**one_of(NORMALIZATIONS))]
    normalize_every: Annotated[int, _encoding("-w", "--normalize-every", min=1, help="Normalise every w steps.")]
    num_trajectories: Annotated[
        int, _encoding("-B", "--trajectories", min=1, help="Number of independent random starts.")
    ]
    distribution: Annotated[str, _encoding(**one_of(DISTRIBUTIONS))]
    start: Annotated[
        str, _encoding(help="How the features begin: as drawn, with unit columns, or orthonormal.", **one_of(STARTS))
    ]
    seed: Annotated[int, _encoding(help="The same seed and graph give the same encoding.")]
    # Settings reads the names of types; from here on mypy wants the defaults repeated.
    dtype: Annotated[str, _encoding(help="Precision of the computation.", **one_of(_DTYPES[1:]))] = "float32"  # type: ignore[assignment]
    storage_dtype: Annotated[
        str | None, _encoding(help="Precision of the output, if different.", **one_of(_DTYPES))
    ] = None  # type: ignore[assignment]
    backend: Annotated[str, _encoding(**one_of(BACKEND_NAMES))] = Settings.backend
    strict: Annotated[bool, _encoding("--strict", help="Fail if a column is linearly dependent.")] = Settings.strict
    cache: Annotated[
        str | None,
        _encoding(metavar="FOLDER", help="Keep encodings here, and reuse those computed before."),
    ] = None
