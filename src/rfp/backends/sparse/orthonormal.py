r"""Fast orthonormalisation of tall-skinny blocks, one k x k problem for each graph and trajectory.

The same Q as :func:`rfp.normalization.qr`, from Gram matrices: :math:`a^\top a = R^\top R`, :math:`q = a R^{-1}`.
Cholesky squares the condition number, so the Gram matrices are summed in float64 and a ladder watches over them:

1. ``cholesky``: one pass, where :math:`\kappa(R)` is small enough for the working precision;
2. ``cholesky_twice``: a second pass on the result (CholeskyQR2) where it is not;
3. ``cholesky_dropping``: where a column depends on earlier ones (float32 input): a Cholesky factorisation that drops
   such columns, decided on the float64 Gram matrix, then the second pass;
4. ``gram_schmidt``: classical Gram-Schmidt run twice, on the columns themselves, where a Gram matrix cannot serve:
   float64 input that is ill-conditioned, and whatever the second pass finds to be further from orthonormal than
   :data:`SECOND_PASS_REACH`.

The last rung cannot fail: every column of the result has length 1 or is exactly zero. It is that of the reference, up
to rounding times :math:`\kappa`, by the same rule for dependent columns.

To choose a rung the host waits for the device. Copies of one graph (replicas of a learned operator, whose steps may be
recorded as a CUDA graph) take one path: ``cholesky_dropping`` with both passes in float64, :func:`orthonormal_blocks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from rfp.available import triton_available
from rfp.backends.finite import NotFiniteError
from rfp.backends.problem import Step
from rfp.backends.sparse.segments import Segments
from rfp.normalization import Events, column_lengths, dependence_tolerance
from rfp.rounding import Rounding, amplification

# One pass leaves an orthogonality error near (float64 rounding) κ² + (data rounding) κ. Above these bounds on κ a
# second pass is made; tests hold the result to 1e-5 (float32) on condition numbers up to 1e8.
SECOND_PASS_ABOVE = {torch.float32: 1e2, torch.float64: 1e1}
# Beyond this κ a float64 Gram matrix of float64 data has lost the smallest pivots.
GRAM_LIMIT = {torch.float32: float("inf"), torch.float64: 1e6}
# How far from the identity the Gram matrix of a first pass may be for a second to make it orthonormal to rounding.
SECOND_PASS_REACH = 0.1
# The widest matrix that a program of the Triton kernel holds; the host would need a thousand launches for one of 32.
_KERNEL_MAX_CHANNELS = 64
# Columns that the dropping factorisation takes at a time.
_PANEL = 64


def _inverse_of_upper(r: Tensor) -> Tensor:
    identity = torch.eye(r.size(-1), dtype=r.dtype, device=r.device).expand_as(r)
    inverse: Tensor = torch.linalg.solve_triangular(r, identity, upper=True)
    return inverse


def cholesky_dropping(
    g: Tensor, threshold: Tensor, noise: Tensor | None = None, amplified: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Inverse factor of Gram matrices with dependent columns.

    Column by column, as Gram-Schmidt on coefficients: :math:`w_j = e_j - \sum_{i<j} w_i R_{ij}`,
    :math:`R_{ij} = w_i^\top G e_j`, of length :math:`R_{jj} = \sqrt{w_j^\top G w_j}`; a column with :math:`R_{jj} \le`
    ``threshold`` or :math:`R_{jj} \le` ``noise`` :math:`\alpha_j` (:func:`rfp.rounding.amplification`) is dropped
    (:math:`w_j = 0`).

    Args:
        g: ``[..., k, k]`` float64.
        threshold: ``[...]``.
        noise: ``[...]``, zero by default.
        amplified: :math:`\alpha_j^2` before the first column, ``[..., k]``; ones by default.

    Returns:
        W ``[..., k, k]`` with :math:`q = a W`, upper triangular, zero columns for the dropped ones; the mask of kept
        columns ``[..., k]``; and :math:`z_j^2`, ``[..., k]``, zero for the dropped ones. O(k³) each.
    """
    k = g.size(-1)
    noise = torch.zeros_like(threshold) if noise is None else noise
    amplified = torch.ones_like(g[..., 0]) if amplified is None else amplified
    if g.is_cuda and k <= _KERNEL_MAX_CHANNELS and triton_available():
        from rfp.backends.sparse import triton_dropping

        return triton_dropping.launch_cholesky_dropping(g, threshold, noise, amplified)
    if k > _PANEL:
        return _dropping_by_panels(g, threshold, noise)
    weight, z_squared = torch.zeros_like(g), torch.zeros_like(g[..., 0])
    kept = torch.zeros(g.shape[:-1], dtype=torch.bool, device=g.device)
    for j in range(k):
        w = torch.zeros_like(g[..., 0])
        w[..., j] = 1
        r = torch.zeros_like(w)
        for _ in range(2):  # twice is enough
            coefficients = (weight.mT @ (g @ w[..., None]))[..., 0]
            w = w - (weight @ coefficients[..., None])[..., 0]
            r = r + coefficients
        squared = (w * (g @ w[..., None])[..., 0]).sum(-1)
        alpha_squared = amplified[..., j] + (r.square() * z_squared).sum(-1)
        keep = squared > torch.maximum(threshold.square(), noise.square() * alpha_squared)
        length = torch.where(keep, squared, 1.0).sqrt()
        weight[..., j] = torch.where(keep[..., None], w / length[..., None], 0.0)
        z_squared[..., j] = torch.where(keep, alpha_squared / length.square(), 0.0)
        kept[..., j] = keep
    return weight, kept, z_squared


def _dropping_by_panels(g: Tensor, threshold: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`cholesky_dropping` a panel of columns at a time, so that wide matrices (node features) are products.

    A panel in the basis of g, V, is freed of the columns before it; the factor of the small VᵀGV does the rest.
    """
    k = g.size(-1)
    weight, z_squared = torch.zeros_like(g), torch.zeros_like(g[..., 0])
    kept = torch.zeros(g.shape[:-1], dtype=torch.bool, device=g.device)
    for first in range(0, k, _PANEL):
        last = min(first + _PANEL, k)
        before = weight[..., :first, :first]  # the columns so far have coefficients in their own rows alone
        v = torch.zeros(*g.shape[:-2], last, last - first, dtype=g.dtype, device=g.device)
        v.diagonal(-first, dim1=-2, dim2=-1).fill_(1.0)
        # Once: a second time would start from the same G, whose rounding is what is left after the first.
        r = before.mT @ g[..., :first, first:last]
        v[..., :first, :] = -(before @ r)
        amplified = 1 + (r.square() * z_squared[..., :first, None]).sum(-2)
        small, own, z_own = cholesky_dropping(v.mT @ (g[..., :last, :last] @ v), threshold, noise, amplified)
        weight[..., :last, first:last] = v @ small
        kept[..., first:last], z_squared[..., first:last] = own, z_own
    return weight, kept, z_squared


def gram_schmidt(a: Tensor, threshold: float, noise: float = 0.0) -> tuple[Tensor, int]:  # [n, k] float64
    """Classical Gram-Schmidt run twice with dropping: accurate at any condition number, k passes over the data."""
    q = torch.zeros_like(a)
    z_squared = torch.zeros_like(a[0]) if len(a) else a.new_zeros(a.size(1))
    dropped = 0
    for j in range(a.size(1)):
        v, r = a[:, j], torch.zeros_like(z_squared[:j])
        for _ in range(2):
            along = q[:, :j].T @ v
            v, r = v - q[:, :j] @ along, r + along
        length = torch.linalg.vector_norm(v)
        alpha_squared = 1 + (r.square() * z_squared[:j]).sum()
        if length > max(threshold, noise * float(alpha_squared.sqrt())):
            q[:, j], z_squared[j] = v / length, alpha_squared / length.square()
        else:
            dropped += 1
    return q, dropped


class BlockProducts(Protocol):
    """What the ladder asks of the blocks: all that touches their n rows. A distributed engine hands in its own."""

    def gram(self, a: Tensor) -> Tensor:  # [B, n, k] -> [G, B, k, k] float64
        r""":math:`a^\top a` of each graph and trajectory."""
        ...

    def apply(self, a: Tensor, weight: Tensor) -> Tensor:  # [B, n, k], [G, B, k, k] -> [B, n, k]
        """``a @ weight``, upper triangular weights, with the weight of each node's graph."""
        ...

    def by_vectors(
        self, a: Tensor, q: Tensor, chosen: list[tuple[int, int]], exact: Callable[[Tensor, int, int], Tensor]
    ) -> Tensor:
        """``q`` with the columns of the chosen (graph, trajectory) replaced by those that ``exact`` makes of a's.

        ``exact(columns, graph, trajectory)`` takes them in float64, ``[n, k]`` or any that differ by a rotation.
        """
        ...


@dataclass(frozen=True)
class _Limits:
    """What decides whether a column depends on those before it.

    Args:
        scale: Length of the longest column of each graph and trajectory, ``[G, B]``.
        noise: What rounding has left in a column at most, ``[G, B]``.
    """

    scale: Tensor
    noise: Tensor

    @classmethod
    def of(cls, length: Tensor, rounding: Rounding | None) -> _Limits:
        """For columns of this length after a product, ``[G, B, k]``."""
        scale = length.amax(-1)
        return cls(scale, torch.zeros_like(scale) if rounding is None else rounding.after(length).noise.amax(-1))


class Orthonormalizer:
    """The ladder of this module.

    Args:
        products: What computes Gram matrices and applies factors.
    """

    def __init__(self, products: BlockProducts) -> None:
        self.products = products

    @classmethod
    def of(cls, ptr: Tensor, num_columns: int, sizes: tuple[int, int] | None = None) -> Orthonormalizer:
        """For graphs at these offsets ``[num_graphs + 1]`` and B k columns, all in this process.

        Args:
            ptr: ``[num_graphs + 1]``.
            num_columns: B k.
            sizes: Nodes of the smallest and of the largest graph, if they are known. Then graphs of equal size are
                orthonormalised without waiting for a GPU.
        """
        return cls(Segments(ptr, num_columns, sizes))

    def __call__(self, a: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
        """Orthonormalise ``a`` ``[B, n, k]``; the events are the rungs used and the dependent columns."""
        step = self.step(a, rounding)
        return step.state, step.events

    def step(self, a: Tensor, rounding: Rounding | None = None) -> Step:
        """The same, with the factor W, :math:`q = a W`, where every graph has one: not by Gram-Schmidt."""
        segments = self.products
        if isinstance(segments, Segments):
            if segments.are_known_copies and asks_for_no_rank(a.dtype, a.size(2)):
                return _step_without_waiting(segments, a, rounding)
            if 0 < segments.largest(a) < a.size(2):
                step = self._by_leading_columns(segments, a, rounding)
                if step is not None:
                    return step
        return self._ladder(a, lambda length: _Limits.of(length, rounding))[0]

    def _by_leading_columns(self, segments: Segments, a: Tensor, rounding: Rounding | None) -> Step | None:
        """Of more columns than a graph has nodes the leading ones alone, as many as the largest graph has nodes.

        Where they span all that is there, each later column depends on them and is zero: O(n k² + n³) in the place of
        O(k³). ``None`` where they do not, for then a later column may be independent.
        """
        k, leading = a.size(2), segments.largest(a)
        length = column_lengths(a, segments.ptr)
        limits = _Limits.of(length, rounding)
        head = a.transpose(0, 1)[..., :leading].contiguous().transpose(0, 1)
        found, dropped = self._ladder(head, lambda length: limits)
        out = torch.zeros(a.size(1), a.size(0), k, dtype=a.dtype, device=a.device).transpose(0, 1)
        out[..., :leading] = found.state
        threshold = dependence_tolerance(a.dtype) * limits.scale
        # Of a regular matrix they span the graph's nodes, and after one normalisation later columns are zero.
        spanned = leading - dropped == segments.ptr.diff()[:, None]
        spanned = spanned | (length[..., leading:].amax(-1) <= threshold)
        if not bool(spanned.all()):
            rest = a - segments.apply(out, segments.inner(out, a), upper=False)
            spanned = spanned | (column_lengths(rest, segments.ptr)[..., leading:].amax(-1) <= threshold)
            if not bool(spanned.all()):
                return None
        weight = None if found.factor is None else pad(found.factor, (0, k - leading, 0, k - leading))
        later = {"dependent_columns": dropped.numel() * (k - leading)}
        return Step(out, Counter(found.events) + Counter(later), weight)

    def _ladder(self, a: Tensor, limits_of: Callable[[Tensor], _Limits]) -> tuple[Step, Tensor]:
        """The step, and how many columns were dropped of each graph and trajectory, ``[G, B]``.

        Args:
            a: ``[B, n, k]``.
            limits_of: Below what a column of these is zero, from their lengths ``[G, B, k]``.
        """
        g = self.products.gram(a)
        length = g.diagonal(dim1=-2, dim2=-1).sqrt()  # [G, B, k] column norms
        limits = limits_of(length)
        scale, noise = limits.scale, limits.noise
        threshold = dependence_tolerance(a.dtype) * scale
        weight, full_rank, condition = _factorize(g, length, threshold, noise)
        needs_rank = ~full_rank
        by_vectors = full_rank & (condition > GRAM_LIMIT[a.dtype])
        twice = full_rank & ~by_vectors & (condition > SECOND_PASS_ABOVE[a.dtype])

        # The one synchronisation with a GPU where all columns are well-conditioned.
        counts = torch.stack([x.sum() for x in (needs_rank, by_vectors, twice, ~scale.isfinite())]).tolist()
        num_needs_rank, num_by_vectors, num_twice, num_infinite = counts
        if num_infinite:
            raise NotFiniteError(a.dtype)
        events = Counter(cholesky=scale.numel() - num_needs_rank - num_by_vectors - num_twice)
        dropped = torch.zeros_like(scale, dtype=torch.long)
        if num_needs_rank and a.dtype == torch.float64:
            by_vectors = by_vectors | needs_rank
        elif num_needs_rank:
            weight[needs_rank], kept, _ = cholesky_dropping(g[needs_rank], threshold[needs_rank], noise[needs_rank])
            dropped[needs_rank] = (~kept).sum(-1)
            twice = twice | needs_rank
        q = self.products.apply(a, weight)
        if bool(num_twice) or (num_needs_rank and a.dtype == torch.float32):
            q, weight, failed = self._again(q, weight, twice)
            by_vectors = by_vectors | failed
            events["cholesky_twice"] = int((twice & ~needs_rank & ~failed).sum())
            events["cholesky_dropping"] = int((twice & needs_rank & ~failed).sum())
        chosen = [(graph, b) for graph, b in by_vectors.nonzero().tolist()]
        if chosen:

            def exact(columns: Tensor, graph: int, b: int) -> Tensor:
                limits = float(threshold[graph, b]), float(noise[graph, b])
                found, dropped[graph, b] = gram_schmidt(columns, *limits)
                return found

            q = self.products.by_vectors(a, q, chosen, exact)
            events["gram_schmidt"] = len(chosen)
        events["dependent_columns"] = int(dropped.sum()) if num_needs_rank or events["gram_schmidt"] else 0
        return Step(q, +events, None if events["gram_schmidt"] else weight), dropped

    def _again(self, q: Tensor, weight: Tensor, which: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Orthonormalise a second time where ``which`` ``[G, B]`` says so; zero columns stay zero.

        Returns:
            ``[B, n, k]``, the factor of both passes, and where it could not be done, ``[G, B]``.
        """
        g = self.products.gram(q)
        identity = torch.eye(g.size(-1), dtype=g.dtype, device=g.device)
        g = g + torch.diag_embed((g.diagonal(dim1=-2, dim2=-1) == 0).to(g.dtype))
        lower, info = torch.linalg.cholesky_ex(torch.where(which[..., None, None], g, identity))
        near = (g - identity).square().sum((-2, -1)) <= SECOND_PASS_REACH**2
        failed = which & ~((info == 0) & near)
        lower = torch.where((which & ~failed)[..., None, None], lower, identity)  # of the failed nothing is kept
        second = _inverse_of_upper(lower.mT)
        return self.products.apply(q, second), weight @ second, failed


def asks_for_no_rank(dtype: torch.dtype, num_channels: int) -> bool:
    """Whether copies of one graph are orthonormalised on a GPU without asking which columns are dependent."""
    return dtype == torch.float32 and num_channels <= _KERNEL_MAX_CHANNELS and triton_available()


def _step_without_waiting(segments: Segments, a: Tensor, rounding: Rounding | None) -> Step:
    """:meth:`Orthonormalizer.step` of graphs of equal size; what is not finite becomes NaN, which others see."""
    q, weight, kept = orthonormal_blocks(segments.blocks(a), rounding)
    out = torch.empty(a.size(1), a.size(0), a.size(2), dtype=a.dtype, device=a.device).transpose(0, 1)
    segments.blocks(out).copy_(q)
    return Step(out, {"cholesky_twice": kept[..., 0].numel(), "dependent_columns": (~kept).sum()}, weight)


def orthonormal_blocks(a: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Tensor, Tensor]:
    r"""Orthonormalise blocks by two passes in float64, whatever their condition; nothing is looked at.

    Pivots above the tolerance of float32 have :math:`\kappa` near 1e5 at most, of whose square a float64 Gram matrix
    keeps six digits: the first pass is orthonormal to 1e-5 and the second to rounding.

    Args:
        a: ``[G, B, n, k]`` float32.
        rounding: Rounding of the state that was multiplied to give ``a``.

    Returns:
        q, float64, NaN for blocks that are not finite; W with :math:`q = a W`; and which columns are kept,
        ``[G, B, k]``.
    """
    exact = a.double()
    g = exact.mT @ exact
    length = g.diagonal(dim1=-2, dim2=-1).sqrt()
    scale = length.amax(-1)
    noise = torch.zeros_like(scale) if rounding is None else rounding.after(length).noise.amax(-1)
    first, kept, _ = cholesky_dropping(g, dependence_tolerance(a.dtype) * scale, noise)
    q = exact @ first
    second, _, _ = cholesky_dropping(q.mT @ q, torch.zeros_like(scale))
    second = torch.where(scale.isfinite()[..., None, None], second, torch.nan)
    return q @ second, first @ second, kept


def _factorize(g: Tensor, length: Tensor, threshold: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weight W with ``q = a W``, the mask of full rank ``[G, B]``, and an upper bound on the condition number."""
    # Equilibrate: unit columns before factorising, so that badly scaled columns do not look ill-conditioned.
    unit = torch.where(length > 0, 1 / length.clamp_min(torch.finfo(torch.float64).tiny), 0.0)
    lower, info = torch.linalg.cholesky_ex(g * unit[..., :, None] * unit[..., None, :])
    pivots = lower.diagonal(dim1=-2, dim2=-1) * length
    identity = torch.eye(g.size(-1), dtype=g.dtype, device=g.device)
    full_rank = (info == 0) & (pivots > threshold[..., None]).all(-1)
    lower = torch.where(full_rank[..., None, None], lower, identity)
    determined = noise[..., None] * amplification(lower.mT * length[..., None, :]) < pivots
    full_rank = full_rank & determined.all(-1)
    lower = torch.where(full_rank[..., None, None], lower, identity)
    inverse = _inverse_of_upper(lower.mT)
    return unit[..., :, None] * inverse, full_rank, _condition_bound(lower, inverse)


def _condition_bound(lower: Tensor, inverse: Tensor) -> Tensor:
    r"""An upper bound on :math:`\kappa(R) = \kappa(R^\top R)^{1/2}`, from sums of the rows of symmetric matrices.

    The norm of a symmetric matrix is at most the largest sum of a row's magnitudes. Of orthonormal columns the bound is
    1. Frobenius norms would make it k at least, and a second pass a matter of k.

    Args:
        lower: :math:`R^\top`, ``[..., k, k]``.
        inverse: :math:`R^{-1}`.
    """
    lengths = [torch.linalg.matrix_norm(x @ x.mT, torch.inf) for x in (lower, inverse)]
    bound: Tensor = (lengths[0] * lengths[1]).sqrt()
    return bound
