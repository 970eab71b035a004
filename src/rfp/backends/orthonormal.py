r"""Fast orthonormalisation of tall-skinny blocks, one k x k problem for each graph and trajectory.

The same Q as :func:`rfp.normalization.qr`, from Gram matrices: :math:`a^\top a = R^\top R`, :math:`q = a R^{-1}`.
Cholesky squares the condition number, so the Gram matrices are summed in float64 and a ladder watches over them:

1. ``cholesky``: one pass, where :math:`\kappa(R)` is small enough for the working precision;
2. ``cholesky_twice``: a second pass on the result (CholeskyQR2) where it is not;
3. ``cholesky_dropping``: where a column depends on earlier ones (float32 input): a Cholesky factorisation that drops
   such columns, decided on the float64 Gram matrix, then the second pass;
4. ``gram_schmidt``: where float64 input is too ill-conditioned for any Gram matrix: classical Gram-Schmidt run twice.

No rung can fail. The result is that of the reference, up to rounding times :math:`\kappa`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rfp.available import triton_available
from rfp.backends.problem import overflow
from rfp.backends.segments import Segments
from rfp.normalization import Tally, dependence_tolerance

# One pass leaves an orthogonality error near (float64 rounding) κ² + (data rounding) κ. Above these bounds on κ a
# second pass is made; tests hold the result to 1e-5 (float32) on condition numbers up to 1e8.
SECOND_PASS_ABOVE = {torch.float32: 1e2, torch.float64: 1e1}
# Beyond this κ a float64 Gram matrix of float64 data has lost the smallest pivots.
GRAM_LIMIT = {torch.float32: float("inf"), torch.float64: 1e6}
# The widest matrix that a program of the Triton kernel holds; the host would need a thousand launches for one of 32.
_KERNEL_MAX_CHANNELS = 64
# Columns that the dropping factorisation takes at a time.
_PANEL = 64


def _inverse_of_upper(r: Tensor) -> Tensor:
    identity = torch.eye(r.size(-1), dtype=r.dtype, device=r.device).expand_as(r)
    inverse: Tensor = torch.linalg.solve_triangular(r, identity, upper=True)
    return inverse


def cholesky_dropping(g: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    r"""Inverse factor of Gram matrices with dependent columns.

    Column by column, as Gram-Schmidt on coefficients: :math:`w_j = e_j - \sum_{i<j} w_i (w_i^\top G e_j)`, of length
    :math:`R_{jj} = \sqrt{w_j^\top G w_j}`; a column with :math:`R_{jj} \le` ``threshold`` is dropped (:math:`w_j = 0`).

    Args:
        g: ``[..., k, k]`` float64.
        threshold: ``[...]``.

    Returns:
        W ``[..., k, k]`` with :math:`q = a W`, upper triangular, zero columns for the dropped ones; and the mask of
        kept columns ``[..., k]``. O(k³) each.
    """
    k = g.size(-1)
    if g.is_cuda and k <= _KERNEL_MAX_CHANNELS and triton_available():
        from rfp.backends import triton_dropping

        return triton_dropping.cholesky_dropping(g, threshold)
    if k > _PANEL:
        return _dropping_by_panels(g, threshold)
    weight = torch.zeros_like(g)
    kept = torch.zeros(g.shape[:-1], dtype=torch.bool, device=g.device)
    for j in range(k):
        w = torch.zeros_like(g[..., 0])
        w[..., j] = 1
        for _ in range(2):  # twice is enough
            coefficients = (weight.mT @ (g @ w[..., None]))[..., 0]
            w = w - (weight @ coefficients[..., None])[..., 0]
        squared = (w * (g @ w[..., None])[..., 0]).sum(-1)
        kept[..., j] = squared > threshold.square()
        length = torch.where(kept[..., j], squared.clamp_min(0).sqrt(), 1.0)
        weight[..., j] = torch.where(kept[..., j, None], w / length[..., None], 0.0)
    return weight, kept


def _dropping_by_panels(g: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`cholesky_dropping` a panel of columns at a time, so that wide matrices (node features) are products.

    A panel in the basis of g, V, is freed of the columns before it; the factor of the small VᵀGV does the rest.
    """
    k = g.size(-1)
    weight = torch.zeros_like(g)
    kept = torch.zeros(g.shape[:-1], dtype=torch.bool, device=g.device)
    for first in range(0, k, _PANEL):
        last = min(first + _PANEL, k)
        before = weight[..., :first, :first]  # the columns so far have coefficients in their own rows alone
        v = torch.zeros(*g.shape[:-2], last, last - first, dtype=g.dtype, device=g.device)
        v.diagonal(-first, dim1=-2, dim2=-1).fill_(1.0)
        for _ in range(2):  # twice is enough
            against = before.mT @ (g[..., :first, :last] @ v)
            v[..., :first, :] -= before @ against
        small, own = cholesky_dropping(v.mT @ (g[..., :last, :last] @ v), threshold)
        weight[..., :last, first:last] = v @ small
        kept[..., first:last] = own
    return weight, kept


def gram_schmidt(a: Tensor, threshold: float) -> tuple[Tensor, int]:  # [n, k] float64
    """Classical Gram-Schmidt run twice with dropping: accurate at any condition number, k passes over the data."""
    q = torch.zeros_like(a)
    dropped = 0
    for j in range(a.size(1)):
        v = a[:, j]
        for _ in range(2):
            v = v - q[:, :j] @ (q[:, :j].T @ v)
        length = torch.linalg.vector_norm(v)
        if length > threshold:
            q[:, j] = v / length
        else:
            dropped += 1
    return q, dropped


class Orthonormalizer:
    """The ladder of this module for one batch layout.

    Args:
        ptr: ``[num_graphs + 1]``.
        num_columns: B k.
    """

    def __init__(self, ptr: Tensor, num_columns: int) -> None:
        self.ptr = ptr
        self.segments = Segments(ptr, num_columns)

    def __call__(self, a: Tensor, tally: Tally) -> Tensor:
        """Orthonormalise ``a`` ``[B, n, k]``; the rungs used and the dependent columns are counted in ``tally``."""
        tolerance = dependence_tolerance(a.dtype)
        g = self.segments.gram(a)
        length = g.diagonal(dim1=-2, dim2=-1).sqrt()  # [G, B, k] column norms
        scale = length.amax(-1)  # [G, B]
        weight, full_rank, condition = _factorize(g, length, tolerance * scale)
        needs_rank = ~full_rank
        lossy = full_rank & (condition > GRAM_LIMIT[a.dtype])
        twice = full_rank & ~lossy & (condition > SECOND_PASS_ABOVE[a.dtype])

        # The one synchronisation with a GPU.
        counts = torch.stack([x.sum() for x in (needs_rank, lossy, twice, ~scale.isfinite())]).tolist()
        num_needs_rank, num_lossy, num_twice, num_infinite = counts
        if num_infinite:
            raise overflow(a.dtype)
        tally["cholesky"] += scale.numel() - num_needs_rank - num_lossy - num_twice
        tally["cholesky_twice"] += num_twice
        by_vectors = lossy
        if num_needs_rank and a.dtype == torch.float64:
            by_vectors = lossy | needs_rank
        elif num_needs_rank:
            weight[needs_rank], kept = cholesky_dropping(g[needs_rank], tolerance * scale[needs_rank])
            tally["cholesky_dropping"] += num_needs_rank
            tally["dependent_columns"] += int((~kept).sum())
            twice = twice | needs_rank
        q = self.segments.apply(a, weight)
        if num_twice or num_needs_rank:
            q = self._again(q, twice)
        if num_lossy or (num_needs_rank and a.dtype == torch.float64):
            self._by_vectors(a, q, by_vectors, tolerance * scale, tally)
        return q

    def _again(self, q: Tensor, which: Tensor) -> Tensor:
        """Orthonormalise a second time where ``which`` ``[G, B]`` says so; zero columns stay zero."""
        g = self.segments.gram(q)
        identity = torch.eye(q.size(-1), dtype=g.dtype, device=g.device)
        g = g + torch.diag_embed((g.diagonal(dim1=-2, dim2=-1) == 0).to(g.dtype))
        lower, info = torch.linalg.cholesky_ex(torch.where(which[..., None, None], g, identity))
        # After the first pass the columns are orthonormal to a few percent at worst, so the factor exists.
        lower = torch.where((info == 0)[..., None, None], lower, identity)
        return self.segments.apply(q, _inverse_of_upper(lower.mT))

    def _by_vectors(self, a: Tensor, q: Tensor, which: Tensor, threshold: Tensor, tally: Tally) -> None:
        bounds = self.ptr.tolist()
        for graph, b in which.nonzero().tolist():
            rows = slice(bounds[graph], bounds[graph + 1])
            q[b, rows], dropped = gram_schmidt(a[b, rows], float(threshold[graph, b]))
            tally["gram_schmidt"] += 1
            tally["dependent_columns"] += dropped


def _factorize(g: Tensor, length: Tensor, threshold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Weight W with ``q = a W``, the mask of full rank ``[G, B]``, and an upper bound on the condition number."""
    # Equilibrate: unit columns before factorising, so that badly scaled columns do not look ill-conditioned.
    unit = torch.where(length > 0, 1 / length.clamp_min(torch.finfo(torch.float64).tiny), 0.0)
    lower, info = torch.linalg.cholesky_ex(g * unit[..., :, None] * unit[..., None, :])
    pivots = lower.diagonal(dim1=-2, dim2=-1)
    full_rank = (info == 0) & (pivots * length > threshold[..., None]).all(-1)
    safe = torch.where(full_rank[..., None, None], lower, torch.eye(g.size(-1), dtype=g.dtype, device=g.device))
    inverse = _inverse_of_upper(safe.mT)
    condition = torch.linalg.matrix_norm(safe) * torch.linalg.matrix_norm(inverse)
    return unit[..., :, None] * inverse, full_rank, condition
