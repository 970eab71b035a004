r"""Correctness before speed: whether a backend computes what Eq. 1 says, step by step.

Whole trajectories of two backends drift apart, since iteration amplifies rounding. So each state is held against the
one before it: with :math:`y = S a^{(p-1)}` in float64, from the stored state, :math:`a^{(p)}` must be :math:`N(y)`.

Which columns must be zero, and which must not? By the rule of :mod:`rfp.normalization` those whose length
:math:`\lVert y_j \rVert` (l2), or whose part outside the span of those before, :math:`R_{jj}` (QR), is at most

.. math:: t_j = e_j \;\text{ (l2)}, \qquad t_j = \max(tol \max_i \lVert y_i \rVert, \; e \, \alpha_j(R)) \;\text{ (QR)}.

A backend applies it to its own product :math:`\hat y`, so what lies nearer to the limit than the rounding of that
product may be judged either way; what lies farther may not. "Nearer" has a bound. In a sum of d products in float32, in
any order, fused or not, each term is rounded at most d times, each time by half a unit in the last place:

.. math:: \lvert \hat y - y \rvert_{ij} \le \tfrac{1}{2} d_i \, \epsilon \, (\lvert S \rvert \lvert a \rvert)_{ij}.

The residual is taken here against the q that the backend stored. A projection makes no error longer, so that of
:math:`\hat y_j` enters :math:`R_{jj}` and :math:`R_{ij} = q_i^\top y_j` once, *not* amplified by the condition of the
columns; and rounding y and q to float32 adds :math:`\tfrac{1}{2} (1 + \sqrt k) \, \epsilon \lVert y_j \rVert`. With
:math:`b_j` the sum of both, and :math:`\alpha` growing in what is above the diagonal of R and falling in the diagonal,

.. math:: \lvert \hat R_{ij} - R_{ij} \rvert \le b_j, \qquad
    \alpha(\lvert R_{ij} \rvert - b_j, R_{jj} + b_j) \le \alpha(\hat R)
    \le \alpha(\lvert R_{ij} \rvert + b_j, R_{jj} - b_j).
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
from rfp.normalization import column_lengths, dependence_tolerance
from rfp.operator_norms import rounding_norm
from rfp.operators import MatrixOperator
from rfp.rounding import Rounding, amplification
from rfp.settings import Settings
from rfp.trajectory import Trajectory

# Bounds, in float32: of ‖QᵀQ - I‖; of the other errors, in units of the rounding of a sparse product.
ORTHOGONALITY = 1e-5
ROUNDINGS = 8.0
_EPS = torch.finfo(torch.float32).eps


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
        multiply = _Multiplication(operator, problem.ptr)
        lengths = column_lengths(storage[:, :, o, 0].transpose(0, 1), problem.ptr)
        norm = rounding_norm(operator, problem.ptr, problem.size_range[1])
        rounding = Rounding.start(norm, lengths, torch.float32)
        for p in range(1, problem.num_steps + 1):
            product = multiply(storage[:, :, o, p - 1])
            q = storage[:, :, o, p].double().transpose(0, 1)
            rounding = rounding.after(column_lengths(product.y, problem.ptr))
            normalized = p % problem.normalize_every == 0
            if problem.normalization == "qr" and normalized:
                all_errors.append(_qr_errors(q, product, rounding.noise, problem.ptr))
            elif problem.normalization == "l2" and normalized:
                all_errors.append(_l2_errors(q, product, rounding.noise, problem.ptr))
            else:
                all_errors.append(_plain_errors(q, product, problem.ptr))
            rounding = rounding.renewed() if normalized else rounding
    if not all_errors:
        return Errors(0.0, 0.0, 0)
    finite = 0 if bool(torch.isfinite(storage).all()) else 1
    return Errors(
        max(e.orthogonality for e in all_errors),
        max(e.rounding for e in all_errors),
        sum(e.wrong_columns for e in all_errors) + finite,
    )


@dataclass(frozen=True)
class _Product:
    """``S a`` in float64, and how far off it may be in float32.

    Args:
        y: ``[B, n, k]``.
        rounding: ``[G, B, 1]``, that of a sum of independent errors in the largest column: the unit of errors.
        bound: ``[G, B, k]``, :math:`b_j`.
    """

    y: Tensor
    rounding: Tensor
    bound: Tensor


class _Multiplication:
    """By one operator, graph by graph."""

    def __init__(self, operator: MatrixOperator, ptr: Tensor) -> None:
        self.csr = operator.csr.to(torch.float64)
        self.absolute = self.csr.with_value(self.csr.value.abs())
        self.ptr = ptr
        entries = self.csr.crow.diff().double()
        independent = (entries.sqrt() / 2).clamp_min(1.0)  # roundings of a sum of so many terms
        self.unit = _EPS * (float(independent.max()) if len(entries) else 1.0)
        # Errors of more than 64 terms would all have to be of one sign to come near their bound: no more than in the
        # other errors is allowed to them.
        self.row_bounds = _EPS * torch.minimum(entries / 2, ROUNDINGS * independent)[:, None, None]

    def __call__(self, state: Tensor) -> _Product:  # [n, B, k]
        a = state.double()
        y = (self.csr @ a.flatten(1)).view_as(a).float().double().transpose(0, 1)
        # A product's rounding is relative to its terms, which may be far larger than their sum.
        terms = (self.absolute @ a.abs().flatten(1)).view_as(a)
        unit = self.unit * self._lengths(terms).amax(-1, keepdim=True)
        stored = 0.5 * (1 + a.size(2) ** 0.5) * _EPS * column_lengths(y, self.ptr)
        return _Product(y, unit, self._lengths(self.row_bounds * terms) + stored)

    def _lengths(self, a: Tensor) -> Tensor:  # [n, B, k] -> [G, B, k]
        return column_lengths(a.transpose(0, 1), self.ptr)


def _plain_errors(q: Tensor, product: _Product, ptr: Tensor) -> Errors:
    """Against y."""
    difference = column_lengths(q - product.y, ptr) / product.rounding.clamp_min(1e-300)
    return Errors(0.0, float(difference.amax()) if difference.numel() else 0.0, 0)


def _l2_errors(q: Tensor, product: _Product, noise: Tensor, ptr: Tensor) -> Errors:
    """Against y with columns of length 1, or 0 where they are no longer than their noise ``[G, B, k]``."""
    length = column_lengths(product.y, ptr)
    zero = column_lengths(q, ptr) == 0
    inverse = torch.where(zero | (length == 0), 0.0, 1 / length)
    spread = torch.repeat_interleave(inverse, ptr.diff(), dim=0, output_size=q.size(1))
    difference = column_lengths(q - product.y * spread.transpose(0, 1), ptr)
    difference = difference / (product.rounding * inverse).clamp_min(_EPS)
    wrong = torch.where(zero, length > noise + product.bound, length < noise - product.bound)
    return Errors(0.0, float(difference.amax()) if difference.numel() else 0.0, int(wrong.sum()))


def _qr_errors(q: Tensor, product: _Product, noise: Tensor, ptr: Tensor) -> Errors:
    r"""Whether q is the Q of y by the rule of :func:`rfp.normalization.qr`, graph by graph.

    :math:`C = q^\top y` must be upper triangular with a positive diagonal, q orthonormal where not zero, and a column
    zero if, and only if, its part outside the span of those before it is below the limit.
    """
    y = product.y
    segments = Segments(ptr, q.size(0) * q.size(2))
    gram, c, own = segments.inner(q, q), segments.inner(q, y), segments.inner(y, y)  # [G, B, k, k]
    largest = own.diagonal(dim1=-2, dim2=-1).amax(-1, keepdim=True).sqrt()  # [G, B, 1]
    kept = gram.diagonal(dim1=-2, dim2=-1) > 0.5
    orthogonality = float((gram - torch.diag_embed(kept.double())).abs().amax()) if gram.numel() else 0.0
    # A dropped column has a part outside the span, up to the limit, which later columns may meet.
    below = (c.tril(-1) * kept[..., None, :]).abs() / product.rounding[..., None].clamp_min(1e-300)
    outside = column_lengths(y - segments.apply(q, c.triu()), ptr)
    before = column_lengths(y - segments.apply(q, c.triu(1)), ptr)
    small, margin = dependence_tolerance(torch.float32) * largest, ROUNDINGS * product.rounding
    noise, (least, most) = noise.amax(-1, keepdim=True), _amplification_bounds(c, kept, product.bound)
    too_small = before < torch.maximum(small - margin, noise * least - product.bound)
    too_large = before > torch.maximum(small + margin, noise * most + product.bound)
    wrong = torch.where(kept, too_small | (outside > margin) | (c.diagonal(dim1=-2, dim2=-1) <= 0), too_large)
    return Errors(orthogonality, float(below.amax()) if below.numel() else 0.0, int(wrong.sum()))


def _amplification_bounds(c: Tensor, kept: Tensor, bound: Tensor) -> tuple[Tensor, Tensor]:
    r"""The least and the largest :math:`\alpha` that a backend can have found where this R is found here.

    Args:
        c: ``[G, B, k, k]``, R, with rows of zeros for dropped columns, which amplify nothing.
        kept: ``[G, B, k]``.
        bound: ``[G, B, k]``, :math:`b_j`. A pivot no larger than that could have been anything: no upper bound.
    """
    size, pivots = c.abs().triu(1), c.diagonal(dim1=-2, dim2=-1)

    def alpha(above: Tensor, diagonal: Tensor) -> Tensor:
        rows = above.triu(1) * kept[..., None]
        return amplification(rows + torch.diag_embed(torch.where(kept, diagonal, 1.0)))

    column_bound = bound[..., None, :]
    least = alpha((size - column_bound).clamp_min(0.0), pivots + bound)
    # Of a kept column that is zero on paper, bound included, alpha must not be divided by zero.
    most = alpha(size + column_bound, (pivots - bound).clamp_min(1e-300))
    return least, torch.where(most.isfinite(), most, torch.inf)
