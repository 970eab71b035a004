"""The arguments of an encoding, in one frozen object: checked once, printed whole, hashed for caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from rfp.errors import ArgumentError, unknown_choice
from rfp.features import DISTRIBUTIONS, Distribution
from rfp.normalization import NORMALIZATIONS

# Half precision is for storage only: Gram matrices of half-precision states lose orthogonality within a few steps.
COMPUTE_DTYPES = (torch.float32, torch.float64)
# How the features begin, and the normalisation N0 that does it: a^(0) = N0(r).
STARTS = {"drawn": "none", "unit": "l2", "orthonormal": "qr"}


@dataclass(frozen=True)
class Settings:
    """What defines an encoding, in the paper's terms; see :func:`rfp.encode` for each field."""

    num_channels: int = 16
    num_steps: int = 16
    operators: tuple[Any, ...] = ("normalized_adjacency",)
    normalization: str | Callable[[Tensor, Tensor], Tensor] = "qr"
    normalize_every: int = 1
    num_trajectories: int = 1
    distribution: Distribution = "normal"
    start: str = "drawn"
    seed: int = 0
    dtype: torch.dtype = torch.float32
    storage_dtype: torch.dtype | None = None
    backend: str = "auto"
    strict: bool = False

    def __post_init__(self) -> None:
        for name, least in (("num_channels", 1), ("num_steps", 0), ("normalize_every", 1), ("num_trajectories", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ArgumentError(f"{name} must be an integer of at least {least}, got {value!r}")
        if not isinstance(self.operators, list | tuple) or not self.operators:
            raise ArgumentError(f'operators must be a non-empty list such as ["adjacency"], got {self.operators!r}')
        object.__setattr__(self, "operators", tuple(self.operators))
        if not isinstance(self.seed, int):
            raise ArgumentError(f"seed must be an integer, got {self.seed!r}")
        if isinstance(self.normalization, str) and self.normalization not in NORMALIZATIONS:
            raise unknown_choice("normalization", self.normalization, NORMALIZATIONS)
        if isinstance(self.distribution, str) and self.distribution not in DISTRIBUTIONS:
            raise unknown_choice("distribution", self.distribution, DISTRIBUTIONS)
        if self.start not in STARTS:
            raise unknown_choice("start", self.start, STARTS)
        if self.dtype not in COMPUTE_DTYPES:
            raise ArgumentError(
                f"dtype must be torch.float32 or torch.float64, got {self.dtype}; "
                "to keep the result in half precision set storage_dtype"
            )

    @property
    def width(self) -> int:
        """C = O (P + 1) k, the length of a node's encoding in one trajectory."""
        return len(self.operators) * (self.num_steps + 1) * self.num_channels

    def as_text(self) -> str:
        """All fields as ``name=value``, for a ``repr`` that tells two encodings apart."""
        return ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
