"""What a backend is asked to compute."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import torch
from torch import Tensor

from rfp.errors import ArgumentError, NumericalError
from rfp.normalization import Events, NormalizationChoice, column_lengths, named
from rfp.operators import Operator, factors, norm_of
from rfp.rounding import Rounding, rounding_unit


class Step(NamedTuple):
    """One step of the loop: the state ``[B, n, k]`` and what its normalisation had to do."""

    state: Tensor
    events: Events


@dataclass(frozen=True)
class Problem:
    """The arguments of Eq. 1-2, resolved: operators are objects, features are drawn.

    Args:
        operators: One trajectory is computed for each.
        features: r, ``[B, n, k]``, float32 or float64.
        ptr: ``[num_graphs + 1]`` on the device of the features.
        num_steps: P, at least 0.
        normalization: A name of :data:`rfp.normalization.NORMALIZATIONS` or a callable ``(a, ptr) -> a``.
        normalize_every: w, at least 1.
    """

    operators: tuple[Operator, ...]
    features: Tensor
    ptr: Tensor
    num_steps: int
    normalization: NormalizationChoice = "qr"
    normalize_every: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "normalization", named(self.normalization))
        if not self.operators:
            raise ArgumentError("at least one operator is needed, got none")
        if self.num_steps < 0:
            raise ArgumentError(
                f"num_steps must be at least 0 (0 keeps the random features alone), got {self.num_steps}"
            )
        if self.normalize_every < 1:
            raise ArgumentError(
                f"normalize_every must be at least 1, got {self.normalize_every}; "
                'to switch normalisation off use normalization="none"'
            )
        if self.features.dim() != 3:
            raise ArgumentError(f"features must have shape [B, n, k], got {list(self.features.shape)}")
        if self.features.dtype not in (torch.float32, torch.float64):
            raise ArgumentError(f"states are computed in float32 or float64, got {self.features.dtype}")
        for operator in self.operators:
            if operator.num_nodes != self.features.size(1):
                raise ArgumentError(
                    f"the operator has {operator.num_nodes} rows but the features have {self.features.size(1)} nodes"
                )

    @cached_property
    def size_range(self) -> tuple[int, int]:
        """Nodes of the smallest and of the largest graph; waits for a GPU once if there are several graphs."""
        if len(self.ptr) <= 2:
            return self.features.size(1), self.features.size(1)
        smallest, largest = torch.stack(torch.aminmax(self.ptr.diff())).tolist()
        return smallest, largest

    def rounding(self, operator: Operator) -> Rounding | None:
        """What the features' columns owe to rounding: nothing yet. ``None`` where no normalisation asks for it."""
        if self.normalization == "none" or not self.num_steps:
            return None
        lengths = column_lengths(self.features.detach(), self.ptr)
        return Rounding.start(norm_of(factors(operator)[0], self.ptr), lengths, self.features.dtype)

    def rounding_units(self) -> Tensor:
        """What rounding adds to a product, relative to its factor: of each operator and graph, ``[O, G]`` float64.

        For operators whose norm is known: matrices.
        """
        if self.normalization == "none" or not self.num_steps:
            return torch.zeros(len(self.operators), len(self.ptr) - 1, dtype=torch.float64, device=self.ptr.device)
        norms = [cast(Tensor, norm_of(operator, self.ptr)) for operator in self.operators]
        return torch.stack(norms) * rounding_unit(self.features.dtype)

    def gradients(self, operator: Operator) -> AbstractContextManager[object]:
        """Predefined operators run without autograd; a learned one is differentiated through."""
        return torch.set_grad_enabled(torch.is_grad_enabled() and operator.differentiable)


def check_finite(states: Tensor, first_step: int = 0) -> None:
    """Refuse states that are not finite, in whatever backend they arose: ``[..., P + 1, k]``, from that step on.

    One pass without a copy. Left out while a CUDA graph is captured, where nothing may wait for the device.
    """
    if not states.numel() or (states.is_cuda and torch.cuda.is_current_stream_capturing()):
        return
    low, high = torch.aminmax(states.detach())  # NaN where there is one
    if bool(torch.isfinite(low) & torch.isfinite(high)):
        return
    bad = ~torch.isfinite(states.detach()).all(-1)
    step = first_step + int(bad.flatten(0, -2).any(0).nonzero()[0])
    raise not_finite(states.dtype, f"the state of step {step} is")


def not_finite(dtype: torch.dtype, what: str = "the states are") -> NumericalError:
    """The error for states that left the range of their type."""
    return NumericalError(
        f"{what} not finite: {dtype} holds numbers up to {torch.finfo(dtype).max:.3g}; normalise more often "
        '(normalization="qr" or "l2", a smaller normalize_every), take fewer steps or an operator of norm at most 1 '
        "such as normalized_adjacency, or a wider type (dtype, storage_dtype)"
    )


def fold(a: Tensor) -> Tensor:
    """``[B, n, k] -> [n, B k]``: one sparse product serves all trajectories. Free when memory is node-first."""
    return a.transpose(0, 1).flatten(1)


def unfold(a: Tensor, like: Tensor) -> Tensor:
    """``[n, B k] -> [B, n, k]``, a view."""
    return a.view(like.size(1), like.size(0), like.size(2)).transpose(0, 1)
