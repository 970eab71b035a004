# mypy: ignore-errors

"""Triton: the Cholesky factorisation that drops dependent columns, one program for each small matrix."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Two float64 matrices of that width in registers; fewer warps would spill them.
_WARPS = {2: 1, 4: 1, 8: 1, 16: 1, 32: 4, 64: 8}


@triton.jit
def _dropping_kernel(gram, threshold, noise, amplified, weight, kept, spread, k, K: tl.constexpr):
    """Grid: (matrices,). K: k rounded up to a power of two."""
    number = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, K)
    live = (i < k)[:, None] & (i < k)[None, :]
    at = number * k * k + i[:, None] * k + i[None, :]
    g = tl.load(gram + at, mask=live, other=0.0)
    limit = tl.load(threshold + number)
    level = tl.load(noise + number)
    alpha = tl.load(amplified + number * k + i, mask=i < k, other=1.0)
    columns = tl.zeros([K, K], tl.float64)
    z_squared = tl.zeros([K], tl.float64)
    for j in range(k):
        w = tl.where(i == j, 1.0, 0.0).to(tl.float64)
        r = tl.zeros([K], tl.float64)
        for _ in tl.static_range(2):  # twice is enough
            image = tl.sum(g * w[None, :], axis=1)
            coefficients = tl.sum(columns * image[:, None], axis=0)
            w -= tl.sum(columns * coefficients[None, :], axis=1)
            r += coefficients
        squared = tl.sum(w * tl.sum(g * w[None, :], axis=1), axis=0)
        alpha_squared = tl.sum(tl.where(i == j, alpha, 0.0), axis=0) + tl.sum(r * r * z_squared, axis=0)
        keep = squared > tl.maximum(limit * limit, level * level * alpha_squared)
        length = tl.sqrt(tl.where(keep, squared, 1.0))
        w = tl.where(keep, w / length, 0.0)
        columns = tl.where((i == j)[None, :], w[:, None], columns)
        z_squared = tl.where(i == j, tl.where(keep, alpha_squared / (length * length), 0.0), z_squared)
        tl.store(kept + number * k + j, keep.to(tl.int8))
    tl.store(weight + at, columns, mask=live)
    tl.store(spread + number * k + i, z_squared, mask=i < k)


def launch_cholesky_dropping(
    g: Tensor, threshold: Tensor, noise: Tensor, amplified: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """:func:`rfp.backends.sparse.orthonormal.cholesky_dropping` in one launch, for k up to 64."""
    *leading, k, _ = g.shape
    matrices = g.reshape(-1, k, k).contiguous()
    weight = torch.empty_like(matrices)
    kept = torch.empty(len(matrices), k, dtype=torch.int8, device=g.device)
    z_squared = torch.empty(len(matrices), k, dtype=torch.float64, device=g.device)
    if len(matrices):
        width = max(triton.next_power_of_2(k), 2)
        limits = [x.reshape(-1).to(torch.float64).contiguous() for x in (threshold, noise, amplified)]
        _dropping_kernel[(len(matrices),)](
            matrices, *limits, weight, kept, z_squared, k, K=width, num_warps=_WARPS[width]
        )
    return weight.view(*leading, k, k), kept.view(*leading, k).bool(), z_squared.view(*leading, k)
