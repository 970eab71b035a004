r"""Products of one matrix, one after the other, whose gradient in the matrix is a single product at the end.

A trajectory :math:`a_p = S a_{p-1}` gives S the gradient :math:`\sum_p g_p a_{p-1}^\top`. Autograd forms every term, as
large as S, and adds them up: most of the memory that a step with a formed S moves. Here the backward pass gathers the
factors as it comes by, and

.. math:: \bar S = [g_1 \dots g_P] \, [a_0 \dots a_{P-1}]^\top

is written once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rfp.differentiable_once import differentiable_once

# What the backward pass has come by: the gradient of a product and its factor, [g, n, c] each.
_Factors = list[tuple[Tensor, Tensor]]


class GatheredProducts:
    """Multiplies by a matrix again and again.

    Args:
        matrix: S, ``[g, n, n]``.

    Example:
        >>> S = torch.eye(2)[None].requires_grad_()
        >>> products, a = GatheredProducts(S), torch.ones(1, 2, 1)
        >>> (products @ (products @ a)).sum().backward()
        >>> S.grad
        tensor([[[2., 2.],
                 [2., 2.]]])
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix.detach()
        self._factors: _Factors = []
        # Every product hands it a gradient, of nothing: so its own turn comes when all of them have been gathered.
        self._last: Tensor = _Gathered.apply(matrix, self._factors)  # type: ignore[no-untyped-call]

    def __matmul__(self, a: Tensor) -> Tensor:  # [g, n, c] -> [g, n, c]
        out: Tensor = _Product.apply(a, self._last, self._matrix, self._factors)  # type: ignore[no-untyped-call]
        return out


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, factors: _Factors) -> Tensor:
        ctx.factors = factors
        return matrix.new_zeros(())

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, nothing: Tensor) -> tuple[Tensor, None]:
        gradients, factors = (torch.cat(several, dim=-1) for several in zip(*ctx.factors, strict=True))
        ctx.factors.clear()
        return gradients @ factors.mT, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, last: Tensor, matrix: Tensor, factors: _Factors) -> Tensor:
        ctx.save_for_backward(a, matrix, last)
        ctx.factors = factors
        return matrix @ a

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        a, matrix, last = ctx.saved_tensors
        of_a, of_matrix = ctx.needs_input_grad[:2]
        if of_matrix:
            # Without its history, which leads back to this list: after a backward pass that fails halfway nobody would
            # empty it, and matrices and states would stay for good.
            ctx.factors.append((grad.detach(), a.detach()))
        return matrix.mT @ grad if of_a else None, torch.zeros_like(last) if of_matrix else None, None, None
