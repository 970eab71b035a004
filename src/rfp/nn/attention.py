r"""The product :math:`S a = \frac1H \sum_h \mathrm{softmax}(Q_h K_h^\top / \sqrt d)\, a`, three ways with one result.

=============  =====================================================================  ==================
``dense``      S is formed once and multiplied: fast for small graphs, inspectable    memory O(n²)
``blocks``     rows of S are formed a few at a time, again in the backward pass       memory O(n), any device and type
``sdpa``       PyTorch's fused attention with the states as values                    memory O(n), CUDA
=============  =====================================================================  ==================
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

# Numbers of S (times heads) that `blocks` forms at a time: 256 MB in float32 with what autograd keeps of them.
_BLOCK_WORDS = 1 << 24
# `sdpa` keeps values and results of every head for the backward pass; above this many numbers it computes them again.
_KEPT_WORDS = 1 << 24
# The fused kernels want the width of the values to be a multiple of this.
_ALIGNMENT = 8
# A score of which softmax makes zero beside any other.
_FAR_BELOW = -1e30


def attention_matrix(q: Tensor, k: Tensor, real: Tensor | None) -> Tensor:
    r"""Rows of S: the mean over heads of the attention of queries to the nodes of their own graph.

    Args:
        q: ``[g, H, rows, d]``.
        k: ``[g, H, width, d]``.
        real: ``[g, width]``, False where a column is padding.

    Returns:
        ``[g, rows, width]``; each row sums to 1.
    """
    # Scaled before the product, which has many more numbers.
    scores = (q / math.sqrt(q.size(-1))) @ k.mT
    if real is not None:
        scores = scores.masked_fill(~real[:, None, None, :], -math.inf)
    return _mean_over_heads(scores.softmax(-1))


def wider_attention_matrix(q: Tensor, k: Tensor, width: int) -> Tensor:
    """:func:`attention_matrix` of graphs of one size with further rows and columns, of whose numbers none matters.

    Matrices of odd width are slow to multiply with on a GPU. A factor with rows of zeros to the same width gives the
    product: the further columns are zero in all rows but the further ones. One more channel of queries and keys sends
    their scores so far down that softmax makes zeros of them; a mask would be one more pass over all scores.

    Args:
        q: ``[g, H, n, d]``.
        k: ``[g, H, n, d]``.
        width: At least n.

    Returns:
        ``[g, width, width]``.
    """
    *leading, n, d = k.shape
    beyond, channels = width - n, -(d + 1) % _ALIGNMENT
    low = torch.zeros(width, 1, dtype=k.dtype, device=k.device)
    low[n:] = _FAR_BELOW
    queries = torch.cat([q / math.sqrt(d), torch.ones_like(q[..., :1])], dim=-1)
    keys = torch.cat([pad(k, (0, 0, 0, beyond)), low.expand(*leading, width, 1)], dim=-1)
    scores = pad(queries, (0, channels, 0, beyond)) @ pad(keys, (0, channels)).mT
    return _mean_over_heads(scores.softmax(-1))


def _mean_over_heads(rows: Tensor) -> Tensor:  # [g, H, rows, width] -> [g, rows, width]
    """Of one head without another copy."""
    return rows.squeeze(1) if rows.size(1) == 1 else rows.mean(1)


def blockwise_product(q: Tensor, k: Tensor, a: Tensor, real: Tensor | None) -> Tensor:
    """``S a`` a block of rows at a time; each block is computed again in the backward pass instead of being kept.

    Args:
        q: ``[g, H, width, d]``.
        k: ``[g, H, width, d]``.
        a: ``[g, width, c]``.
        real: ``[g, width]`` or ``None``.

    Returns:
        ``[g, width, c]``.
    """

    def rows(part: Tensor, k: Tensor, a: Tensor) -> Tensor:
        return attention_matrix(part, k, real) @ a

    num_graphs, heads, width, _ = q.shape
    step = max(1, _BLOCK_WORDS // (num_graphs * heads * width))
    if not torch.is_grad_enabled():
        parts = [rows(q[:, :, start : start + step], k, a) for start in range(0, width, step)]
    else:
        parts = [
            checkpoint(rows, q[:, :, start : start + step], k, a, use_reentrant=False, preserve_rng_state=False)
            for start in range(0, width, step)
        ]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def fused_product(q: Tensor, k: Tensor, a: Tensor, real: Tensor | None) -> Tensor:
    """``S a`` by PyTorch's ``scaled_dot_product_attention``; arguments as in :func:`blockwise_product`."""
    width, columns = a.size(1), a.size(2)
    values = pad(a, (0, -columns % _ALIGNMENT))
    if torch.is_grad_enabled() and q.size(0) * q.size(1) * width * values.size(2) > _KEPT_WORDS:
        out: Tensor = checkpoint(_fused, q, k, values, real, use_reentrant=False, preserve_rng_state=False)
    else:
        out = _fused(q, k, values, real)
    return out[..., :columns]


def _fused(q: Tensor, k: Tensor, values: Tensor, real: Tensor | None) -> Tensor:
    spread = values[:, None].expand(-1, q.size(1), -1, -1)
    mask = None if real is None else real[:, None, None, :].expand(-1, q.size(1), q.size(2), -1)
    # On a GPU never the plain kernel: it would form S for every head and run out of memory.
    only: Any = sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]) if q.is_cuda else nullcontext()
    with only:
        return scaled_dot_product_attention(q, k, spread, attn_mask=mask).mean(1)


def fused_is_available(q: Tensor, k: Tensor, columns: int, real: Tensor | None) -> bool:
    """Whether a fused kernel takes these tensors without forming S."""
    if not q.is_cuda or q.dtype != torch.float32 or q.size(-1) % _ALIGNMENT:
        return False
    width = columns + -columns % _ALIGNMENT
    values = q.new_empty(width).expand(*q.shape[:3], width)  # the check looks at strides: the last must be 1
    mask = None if real is None else real[:, None, None, :].expand(-1, q.size(1), q.size(2), -1)
    parameters = torch.backends.cuda.SDPAParams(q, k, values, mask, 0.0, False, False)
    return bool(torch.backends.cuda.can_use_efficient_attention(parameters))
