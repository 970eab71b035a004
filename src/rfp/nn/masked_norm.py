"""Batch normalisation of rows some of which are padding: for batches of one size whatever they hold."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rfp.available import triton_available
from rfp.differentiable_once import differentiable_once


def masked_batch_norm(x: Tensor, real: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    r"""Training-mode batch normalisation over the real rows of all leading dimensions.

    .. math:: y = \gamma \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta, \qquad
              \mu = \frac{1}{c} \sum_{i\, real} x_i, \quad \sigma^2 = \frac{1}{c} \sum_{i\, real} (x_i - \mu)^2

    Running statistics are updated as ``nn.BatchNorm1d`` does. What comes out at the padding is of no meaning; no
    gradient may come in there, and none goes out.

    Args:
        x: ``[..., n, d]``.
        real: ``[n, 1]``, 1 for a row that counts and 0 for padding; at least one must count.
        norm: The parameters and running statistics.
    """
    if x.is_cuda and x.numel() and triton_available() and not torch.compiler.is_compiling():
        fused: Tensor = FusedMaskedNorm.apply(x, real, norm.weight, norm.bias, norm)  # type: ignore[no-untyped-call]
        return fused
    share = real.expand(*x.shape[:-1], 1).reshape(1, -1)
    count = share.sum()
    momentum = 0.1 if norm.momentum is None else norm.momentum
    out, mean, var = _MaskedNorm.apply(  # type: ignore[no-untyped-call]
        x.reshape(-1, x.size(-1)), share / count, norm.weight, norm.bias, norm.eps
    )
    with torch.no_grad():
        if norm.running_mean is not None and norm.running_var is not None:
            norm.running_mean.lerp_(mean, momentum)
            norm.running_var.lerp_(var * (count / (count - 1).clamp_min(1)), momentum)
    normalized: Tensor = out.view(x.shape)
    return normalized


class FusedMaskedNorm(torch.autograd.Function):
    """:func:`masked_batch_norm` by the kernels of :mod:`rfp.nn.triton_masked_norm`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, real: Tensor, weight: Tensor, bias: Tensor, norm: nn.BatchNorm1d) -> Tensor:
        from rfp.nn.triton_masked_norm import launch_masked_norm

        rows = x.reshape(-1, x.size(-1)).contiguous()
        momentum = 0.1 if norm.momentum is None else norm.momentum
        out, mean, scale, count = launch_masked_norm(  # type: ignore[no-untyped-call]
            rows, real.reshape(-1), weight, bias, norm.running_mean, norm.running_var, norm.eps, momentum
        )
        ctx.save_for_backward(rows, real, weight, mean, scale, count)
        normalized: Tensor = out.view(x.shape)
        return normalized

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        from rfp.nn.triton_masked_norm import launch_masked_norm_gradient

        rows, real, weight, mean, scale, count = ctx.saved_tensors
        flat = grad.reshape(rows.shape).contiguous()
        grad_x, grad_weight, grad_bias = launch_masked_norm_gradient(  # type: ignore[no-untyped-call]
            flat, rows, real.reshape(-1), weight, mean, scale, count
        )
        return grad_x.view(grad.shape), None, grad_weight, grad_bias, None


class _MaskedNorm(torch.autograd.Function):
    # By hand, since a step made of many small kernels is as long as their number.
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, share: Tensor, weight: Tensor, bias: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows = x.float()
        mean = (share @ rows)[0]
        centered = rows - mean
        var = (share @ centered.square())[0]
        scale = torch.rsqrt(var + eps)
        ctx.save_for_backward(centered, share, scale, weight)
        out = torch.addcmul(bias, centered, scale * weight).to(x.dtype)
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, None, Tensor, Tensor, None]:
        centered, share, scale, weight = ctx.saved_tensors
        g = grad.float()
        grad_bias = g.sum(0)
        grad_weight = (g * centered).sum(0) * scale
        # Every real row gets its share of the gradients of mean and variance.
        common = torch.addcmul(grad_bias, centered, grad_weight * scale)
        grad_x = torch.addcmul(g, common, share.T, value=-1) * (scale * weight)
        return grad_x.to(grad.dtype), None, grad_weight, grad_bias, None
