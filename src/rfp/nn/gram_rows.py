r"""Gram matrices of the states of nodes as rows of numbers: all that products without channel weights read.

:math:`G(v) = \frac{1}{k} \sum_c u_c(v) u_c(v)^\top` is symmetric, so a row holds :math:`G_{pq}` for :math:`q \le p`, p
by p: T (T + 1) / 2 numbers instead of the T k of the states, and zeros up to a multiple of :data:`ROW_MULTIPLE`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

# Rows are this many numbers long, or several times as many: kernels read four at once everywhere.
ROW_MULTIPLE = 16


def row_stride(num_states: int, pairs: bool = False) -> int:
    """Length of a row: T (T + 1) / 2, or the T² of a pair of nodes, rounded up.

    Example:
        >>> row_stride(51), row_stride(51, pairs=True)
        (1328, 2608)
    """
    width = num_states**2 if pairs else num_states * (num_states + 1) // 2
    return -(-width // ROW_MULTIPLE) * ROW_MULTIPLE


def gram_rows(states: Tensor, scale: Tensor | None = None) -> Tensor:
    """The rows of nodes, ``[..., n, T, k] -> [..., n, row_stride(T)]``.

    Args:
        states: u of every node, step and channel.
        scale: ``[n, 1]``, multiplies the row of a node.
    """
    num_states, num_channels = states.shape[-2:]
    p, q = _places(num_states, states.device)
    rows = (states @ states.mT)[..., p, q] / num_channels
    rows = rows if scale is None else rows * scale
    return pad(rows, (0, row_stride(num_states) - rows.size(-1)))


def row_weights(first: Tensor, second: Tensor) -> Tensor:
    r"""What rows are multiplied with: :math:`w_{1ip} w_{2iq}`, and :math:`w_{1iq} w_{2ip}` beside it where q < p.

    Args:
        first: W₁, ``[..., m, T]``.
        second: W₂, ``[..., m, T]``.

    Returns:
        ``[..., m, row_stride(T)]``.
    """
    num_states = first.size(-1)
    p, q = _places(num_states, first.device)
    weights = first[..., p] * second[..., q] + first[..., q] * second[..., p] * (q < p)
    return pad(weights, (0, row_stride(num_states) - weights.size(-1)))


def _places(num_states: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """p and q of each number of a row."""
    p, q = torch.tril_indices(num_states, num_states, device=device)
    return p, q
