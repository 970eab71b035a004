r"""Products of a trajectory on a GPU: what lies between the states and the m products is not written, or once.

:class:`~rfp.nn.TrajectoryProducts` says what is computed and holds the plain form, which defines the result; these take
its place where :func:`kernels_multiply` says so.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rfp.available import triton_available
from rfp.differentiable_once import differentiable_once
from rfp.triton_launch import on_device

# The largest T, and with channel weights the largest m, whose tiles fit on chip.
KERNEL_MAX_STATES = 128
KERNEL_MAX_WEIGHTED = 64


def kernels_multiply(states: Tensor, num_products: int, *, weighted: bool) -> bool:
    """Whether the kernels take a trajectory.

    They need a GPU and float32, and states without a gradient: those of predefined operators. Learned operators get
    theirs through the plain form.

    Args:
        states: ``[n, T, k]`` or ``[L, n, T, k]``.
        num_products: m.
        weighted: Whether channels have weights.
    """
    needs_gradient = states.requires_grad and torch.is_grad_enabled()
    if not states.is_cuda or states.dtype != torch.float32 or needs_gradient or torch.compiler.is_compiling():
        return False
    num_states, num_channels = states.shape[-2:]
    laid_out = states.dim() in (3, 4) and states.stride()[-2:] == (num_channels, 1)
    fits = max(num_states, num_products) <= KERNEL_MAX_WEIGHTED if weighted else num_states <= KERNEL_MAX_STATES
    return laid_out and fits and states.numel() > 0 and triton_available()


def gram_products(states: Tensor, first: Tensor, second: Tensor, pairs: Tensor | None = None) -> Tensor:
    r""":math:`y_i = w_{1i}^\top G w_{2i}` of the nodes, or of pairs; the Gram matrices are kept for the gradient.

    Args:
        states: ``[n, T, k]`` or ``[L, n, T, k]``, without a gradient, the last two dimensions contiguous.
        first: W₁, ``[m, T]``, or ``[R, m, T]`` of a replicated module.
        second: W₂, likewise.
        pairs: ``[2, rows]``; ``None`` for every node with itself.

    Returns:
        ``[rows, m]`` or ``[L, rows, m]``, with a leading R of a replicated module.
    """
    return products_of_grams(_grams(states, _laid_out(pairs)), first, second, of_pairs=pairs is not None)


def node_grams(states: Tensor, scale: Tensor | None = None) -> Tensor:
    """:func:`rfp.nn.gram_rows.gram_rows` by a kernel, of states as :func:`gram_products` takes them."""
    return _grams(states, None, None if scale is None else scale.to(states.dtype).flatten().contiguous())


def _grams(states: Tensor, pairs: Tensor | None, scale: Tensor | None = None) -> Tensor:
    from rfp.nn.triton_gram_products import launch_grams

    with on_device(states):
        grams: Tensor = launch_grams(states.view(-1, *states.shape[-3:]), pairs, scale)  # type: ignore[no-untyped-call]
    return grams.view(*states.shape[:-3], *grams.shape[1:])


def products_of_grams(grams: Tensor, first: Tensor, second: Tensor, *, of_pairs: bool = False) -> Tensor:
    """The products of Gram matrices ``[..., rows, row_stride(T)]``; see :func:`gram_products`."""
    rows_first = grams.movedim(-2, 0)  # so they lie in memory where a batch is padded
    turned = rows_first.is_contiguous()
    several = rows_first if turned else grams
    with on_device(grams):
        y: Tensor = GramProducts.apply(  # type: ignore[no-untyped-call]
            several.reshape(-1, grams.size(-1)).contiguous(), first.flatten(0, -2), second.flatten(0, -2), of_pairs
        )
    y = y.view(*several.shape[:-1], *first.shape[:-1])
    y = y.movedim(0, grams.dim() - 2) if turned else y
    return y if first.dim() == 2 else y.movedim(-2, 0)


def weighted_products(
    states: Tensor, first: Tensor, second: Tensor, alpha: Tensor, pairs: Tensor | None = None
) -> Tensor:
    """Products with a weight for each channel; a and b are on chip alone, in both directions.

    Args:
        states: As in :func:`gram_products`.
        first: W₁, ``[m, T]``.
        second: W₂, ``[m, T]``.
        alpha: α, ``[k, m]``.
        pairs: As there.

    Returns:
        ``[rows, m]`` or ``[L, rows, m]``.
    """
    leading, pairs = states.shape[:-3], _laid_out(pairs)
    with on_device(states):
        y: Tensor = WeightedProducts.apply(  # type: ignore[no-untyped-call]
            states.view(-1, *states.shape[-3:]), first, second, alpha, pairs
        )
    return y.view(*leading, *y.shape[1:])


def _laid_out(pairs: Tensor | None) -> Tensor | None:
    """With the nodes of either end one after the other."""
    return pairs if pairs is None or pairs.stride(1) == 1 else pairs.contiguous()


class GramProducts(torch.autograd.Function):
    """From Gram matrices ``[rows, stride]`` to ``[rows, m]``, by :mod:`rfp.nn.triton_gram_products`."""

    @staticmethod
    def forward(ctx: Any, grams: Tensor, first: Tensor, second: Tensor, pairs: bool) -> Tensor:
        from rfp.nn.triton_gram_products import launch_gram_products

        if not len(grams):
            ctx.save_for_backward(grams, first, second)
            return grams.new_zeros(0, len(first))
        first, second = first.contiguous(), second.contiguous()
        ctx.pairs = pairs
        ctx.save_for_backward(grams, first, second)
        out: Tensor = launch_gram_products(grams, first, second, pairs)  # type: ignore[no-untyped-call]
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, None]:
        from rfp.nn.triton_gram_products import launch_gram_products_gradient

        grams, first, second = ctx.saved_tensors
        if not len(grams):
            return None, torch.zeros_like(first), torch.zeros_like(second), None
        with on_device(grams):
            both: tuple[Tensor, Tensor] = launch_gram_products_gradient(  # type: ignore[no-untyped-call]
                grad.contiguous(), grams, first, second, ctx.pairs
            )
        return None, *both, None


class WeightedProducts(torch.autograd.Function):
    """From states ``[L, n, T, k]`` to ``[L, rows, m]``, by :mod:`rfp.nn.triton_weighted_products`."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, first: Tensor, second: Tensor, alpha: Tensor, pairs: Tensor | None) -> Tensor:
        from rfp.nn.triton_weighted_products import launch_weighted_products

        first, second, alpha = first.contiguous(), second.contiguous(), alpha.contiguous()
        ctx.save_for_backward(states, first, second, alpha, pairs)
        rows = states.size(1) if pairs is None else pairs.size(1)
        if not rows:
            return states.new_zeros(len(states), 0, len(first))
        out: Tensor = launch_weighted_products(states, first, second, alpha, pairs)  # type: ignore[no-untyped-call]
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None]:
        from rfp.nn.triton_weighted_products import launch_weighted_products_gradient

        states, first, second, alpha, pairs = ctx.saved_tensors
        if not grad.size(1):
            return None, torch.zeros_like(first), torch.zeros_like(second), torch.zeros_like(alpha), None
        with on_device(states):
            all_three: tuple[Tensor, Tensor, Tensor] = launch_weighted_products_gradient(  # type: ignore[no-untyped-call]
                grad.contiguous(), states, first, second, alpha, pairs
            )
        return None, *all_three, None
