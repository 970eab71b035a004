# mypy: ignore-errors
"""Triton: how the kernels of products read a trajectory."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def state_tile(states, at, begin, STATES: tl.constexpr, CHANNELS: tl.constexpr, T: tl.constexpr, K: tl.constexpr):
    """States of one node, channels ``begin`` to ``begin + K``: ``[T, K]``, zero beyond the real ones.

    Args:
        states: ``[n, STATES, CHANNELS]``, the last two contiguous.
        at: Where the node begins.
        begin: First channel.
        STATES: T.
        CHANNELS: k.
        T: The number of states rounded up to a power of two, at least 16.
        K: Channels of the tile, a power of two of at least 16.
    """
    p = tl.arange(0, T)[:, None]
    c = begin + tl.arange(0, K)[None, :]
    return tl.load(states + at + p * CHANNELS + c, mask=(p < STATES) & (c < CHANNELS), other=0.0)


@triton.jit
def ends_of_row(first_node, second_node, row, PAIRS: tl.constexpr):
    """The two nodes of a row: the ends of a pair, or one node twice."""
    u = row
    v = row
    if PAIRS:
        u = tl.load(first_node + row).to(tl.int64)
        v = tl.load(second_node + row).to(tl.int64)
    return u, v


def tile_side(size):
    """A side of a tile that holds ``size``: the matrix unit takes no fewer than 16."""
    return max(triton.next_power_of_2(size), 16)


def tile_strides(states):
    """Of the leading dimension and of the nodes of ``[L, n, T, k]``.

    The former is 0 where there is one: Triton reads four numbers at once where it knows that strides divide by 16, and
    that of a single leading index may be anything.
    """
    return (states.stride(0) if len(states) > 1 else 0), states.stride(1)
