r"""The gradient of the fast orthonormalisation, with a guard where it would explode.

With :math:`a = q R` of full rank and only :math:`q` used afterwards, the gradient is (Walter & Lehmann 2010; Seeger
et al. 2017)

.. math:: \bar a = \big(\bar q + q \, \mathrm{copyltu}(-\bar q^\top q)\big) R^{-\top},

where copyltu mirrors the lower triangle onto the upper one. :math:`R^{-\top}` amplifies by up to :math:`1 / R_{jj}`:
a nearly dependent column would send a gradient of any size through the model (1e14 was seen). Two rules bound it:

* a pivot below :data:`GRADIENT_FLOOR` times the largest column norm is taken to be that large;
* :math:`\lVert \bar a \rVert \le \lVert \bar q \rVert / (\text{floor} \cdot \text{largest column norm})` for each
  graph and trajectory; a longer gradient is shortened to that.

Where every pivot is above the floor (and the bound not reached) the gradient is exact. Columns the forward pass
dropped (they are zero in q) get none.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.backends.sparse.segments import Segments
from rfp.differentiable_once import differentiable_once
from rfp.normalization import Events
from rfp.precision import full_precision
from rfp.rounding import Rounding

# Relative size of a pivot below which the gradient is limited. At 1e-4 a float32 gradient still has three digits.
GRADIENT_FLOOR = 1e-4


def orthonormalize(ladder: Orthonormalizer, a: Tensor, rounding: Rounding | None = None) -> tuple[Tensor, Events]:
    """``ladder(a, rounding)`` that can be differentiated once: ``[B, n, k] -> [B, n, k]``. O(n k² B) each way."""
    if not (a.requires_grad and torch.is_grad_enabled()):
        return ladder(a, rounding)
    q, events = _GuardedQR.apply(a, ladder, rounding)  # type: ignore[no-untyped-call]
    return q, events


class _GuardedQR(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, ladder: Orthonormalizer, rounding: Rounding | None) -> tuple[Tensor, Events]:
        q, events = ladder(a, rounding)
        ctx.segments = cast(Segments, ladder.products)
        ctx.save_for_backward(q, ctx.segments.inner(q, a))
        return q, events

    @staticmethod
    @differentiable_once
    @full_precision
    def backward(ctx: Any, grad_q: Tensor, _: None) -> tuple[Tensor, None, None]:
        q, r = ctx.saved_tensors
        segments: Segments = ctx.segments
        kept = r.diagonal(dim1=-2, dim2=-1) > 0  # [G, B, k]
        weight, floor = guarded_inverse(r, kept)
        inner = -segments.inner(grad_q, q)
        mirrored = inner.tril() + inner.tril(-1).mT
        # Two terms times R^-T: q's own is folded into one k x k product for each graph.
        grad_a = segments.apply(grad_q, weight.mT, upper=False)
        grad_a += segments.apply(q, mirrored @ weight.mT, upper=False)
        ptr = segments.ptr
        length, limit = segments.norms(grad_a), segments.norms(grad_q) / floor  # [G, B]
        shorten = torch.where(length > limit, limit / length.clamp_min(torch.finfo(length.dtype).tiny), 1.0)
        of_nodes = torch.repeat_interleave(shorten.to(q.dtype), ptr.diff(), dim=0, output_size=q.size(1))  # [n, B]
        return grad_a * of_nodes.T[..., None], None, None


def guarded_inverse(r: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse of triangular factors with small pivots raised and dropped columns left out.

    Args:
        r: ``q^T a``, ``[G, B, k, k]``.
        kept: ``[G, B, k]``, which columns of q are not zero.

    Returns:
        ``[G, B, k, k]``, upper triangular, zero in the rows and columns of dropped ones; and the smallest pivot
        allowed, ``[G, B]``.
    """
    both = kept[..., :, None] & kept[..., None, :]
    upper = torch.where(both, r.triu(), 0.0)
    scale = torch.linalg.vector_norm(upper, dim=-2).amax(-1)  # the largest norm of a column of a
    floor = GRADIENT_FLOOR * scale.clamp_min(torch.finfo(r.dtype).tiny)
    pivots = upper.diagonal(dim1=-2, dim2=-1)
    raised = torch.where(kept, pivots.clamp_min(floor[..., None]) - pivots, 1.0)
    safe = upper + torch.diag_embed(raised)
    identity = torch.eye(r.size(-1), dtype=r.dtype, device=r.device).expand_as(safe)
    inverse = torch.linalg.solve_triangular(safe, identity, upper=True)
    return torch.where(both, inverse, 0.0), floor
