r"""Correctness before speed: whether a backend computes what Eq. 1 says, step by step.

Whole trajectories of two backends drift apart, since iteration amplifies rounding. So each state is held against the
one before it: with :math:`y = S a^{(p-1)}` in float64, from the stored state, :math:`a^{(p)}` must be :math:`N(y)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import rfp
from rfp.backends.problem import Problem
from rfp.backends.sparse.segments import Segments
from rfp.features import random_features
from rfp.graph import Graph
from rfp.normalization import dependence_tolerance, segment_sum
from rfp.operators import MatrixOperator
from rfp.settings import Settings
from rfp.trajectory import Trajectory

# Bounds, in float32: of ‖QᵀQ - I‖; of the other errors, in units of the rounding of a sparse product.
ORTHOGONALITY = 1e-5
ROUNDINGS = 8.0


class GateError(rfp.RFPError):
    """The fast path is not right: no speed is reported."""


@dataclass(frozen=True)
class Errors:
    """The largest over all steps, graphs and trajectories.

    Args:
        orthogonality: Error of :math:`q^\\top q - I`, columns of zeros left out.
        rounding: What should vanish, over the rounding of the product: the part of R below its diagonal, or the
            difference to the normalised product.
        wrong_columns: Columns that are zero and should not be, the reverse, or of a negative diagonal of R.
    """

    orthogonality: float
    rounding: float
    wrong_columns: int

    def __str__(self) -> str:
        return (
            f"|QtQ - I| = {self.orthogonality:.1e}, other errors {self.rounding:.1f} roundings of a product, "
            f"{self.wrong_columns} wrong columns"
        )

    @property
    def acceptable(self) -> bool:
        return self.orthogonality <= ORTHOGONALITY and self.rounding <= ROUNDINGS and not self.wrong_columns


def gate(graph: Graph, **settings: Any) -> Errors:
    """Run what is to be timed on a problem small enough to be checked; raise if it is wrong."""
    fast = rfp.encode(graph, **settings)
    resolved = Settings(**{**settings, "operators": tuple(settings.get("operators", ("normalized_adjacency",)))})
    return check(fast, graph, resolved)


def check(fast: Trajectory, graph: Graph, settings: Settings) -> Errors:
    """Hold a trajectory against its definition."""
    drawn = random_features(
        graph.to("cpu"),
        num_channels=settings.num_channels,
        num_trajectories=settings.num_trajectories,
        seed=settings.seed,
    )
    name = fast.report.backend
    difference = float((fast.storage[:, :, 0, 0].transpose(0, 1).cpu() - drawn).abs().max())
    if not difference < 1e-5:
        raise GateError(f"backend {name}: the features differ by {difference:.2g}")
    errors = step_errors(fast.storage, Problem.of(settings, graph))
    if not errors.acceptable:
        raise GateError(f"backend {name} differs from the definition: {errors}")
    return errors


def step_errors(storage: Tensor, problem: Problem) -> Errors:
    """Check ``storage`` ``[n, B, O, P + 1, k]`` of a problem normalised by ``"qr"``, ``"l2"`` or not at all."""
    all_errors = []
    for o, operator in enumerate(problem.operators):
        if not isinstance(operator, MatrixOperator):
            raise GateError("only sparse matrices are checked")
        csr = operator.csr.to(torch.float64)
        absolute = csr.with_value(csr.value.abs())
        entries = float(csr.crow.diff().max()) if csr.num_rows else 0.0
        rounding = torch.finfo(torch.float32).eps * max(1.0, entries**0.5 / 2)  # of a sum of so many terms
        for p in range(1, problem.num_steps + 1):
            a = storage[:, :, o, p - 1].double()
            y = (csr @ a.flatten(1)).view_as(a).float().double().transpose(0, 1)
            # A product's rounding is relative to its terms, which may be far larger than their sum.
            terms = (absolute @ a.abs().flatten(1)).view_as(a).transpose(0, 1)
            noise = rounding * _lengths(terms, problem.ptr).amax(-1)[..., None]  # [G, B, 1]
            q = storage[:, :, o, p].double().transpose(0, 1)
            normalized = p % problem.normalize_every == 0
            if problem.normalization == "qr" and normalized:
                all_errors.append(_qr_errors(q, y, noise, problem.ptr))
            else:
                all_errors.append(_plain_errors(q, y, noise, problem, normalized))
    if not all_errors:
        return Errors(0.0, 0.0, 0)
    finite = 0 if bool(torch.isfinite(storage).all()) else 1
    return Errors(
        max(e.orthogonality for e in all_errors),
        max(e.rounding for e in all_errors),
        sum(e.wrong_columns for e in all_errors) + finite,
    )


def _lengths(a: Tensor, ptr: Tensor) -> Tensor:  # [B, n, k] -> [G, B, k]
    return segment_sum(a.transpose(0, 1).square(), ptr).sqrt()


def _plain_errors(q: Tensor, y: Tensor, noise: Tensor, problem: Problem, normalized: bool) -> Errors:
    """Against y, or y with columns of length 1."""
    if problem.normalization == "l2" and normalized:
        length = _lengths(y, problem.ptr)
        inverse = torch.where(length > 0, 1 / length, 0.0)
        noise = (noise * inverse).clamp_min(torch.finfo(torch.float32).eps)
        spread = torch.repeat_interleave(inverse, problem.ptr.diff(), dim=0, output_size=y.size(1))
        y = y * spread.transpose(0, 1)
    difference = _lengths(q - y, problem.ptr) / noise.clamp_min(1e-300)
    return Errors(0.0, float(difference.amax()) if difference.numel() else 0.0, 0)


def _qr_errors(q: Tensor, y: Tensor, noise: Tensor, ptr: Tensor) -> Errors:
    r"""Whether q is the Q of y by the rule of :func:`rfp.normalization.qr`, graph by graph.

    :math:`C = q^\top y` must be upper triangular with a positive diagonal, q orthonormal where not zero, and a column
    may be zero only if its part outside the span of those before it is below the tolerance.
    """
    segments = Segments(ptr, q.size(0) * q.size(2))
    gram, c, own = segments.inner(q, q), segments.inner(q, y), segments.inner(y, y)  # [G, B, k, k]
    largest = own.diagonal(dim1=-2, dim2=-1).amax(-1).sqrt()  # [G, B]
    kept = gram.diagonal(dim1=-2, dim2=-1) > 0.5
    orthogonality = float((gram - torch.diag_embed(kept.double())).abs().amax()) if gram.numel() else 0.0
    # A dropped column has a part outside the span, up to the tolerance, which later columns may meet.
    below = (c.tril(-1) * kept[..., None, :]).abs() / noise[..., None].clamp_min(1e-300)
    outside = _lengths(y - segments.apply(q, c.triu()), ptr)
    before = _lengths(y - segments.apply(q, c.triu(1)), ptr)
    threshold = (dependence_tolerance(torch.float32) * largest)[..., None]
    margin = ROUNDINGS * noise
    wrong = (kept & (before < threshold - margin)) | (~kept & (before > threshold + margin))
    wrong |= (kept & (outside > margin)) | (kept & (c.diagonal(dim1=-2, dim2=-1) <= 0))
    return Errors(orthogonality, float(below.amax()) if below.numel() else 0.0, int(wrong.sum()))
