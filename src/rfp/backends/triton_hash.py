# mypy: ignore-errors
"""Triton: the random features of :mod:`rfp.features`, drawn on chip by the same rule from the same words."""

from __future__ import annotations

import math

import triton
import triton.language as tl

from rfp import hashing

# The order in which kernels number the distributions; 0 stands for features that are given.
DISTRIBUTION_CODES = {"normal": 1, "rademacher": 2, "uniform": 3}

GOLDEN = tl.constexpr(hashing.GOLDEN)
_FIRST = tl.constexpr(hashing._MULTIPLIER_1)
_SECOND = tl.constexpr(hashing._MULTIPLIER_2)
_TURN = tl.constexpr(2 * math.pi * 2.0**-24)


@triton.jit
def mix(z):
    """:func:`rfp.hashing.mix` on ``int64``; the masks make the arithmetic shifts logical ones."""
    z = z ^ ((z >> 30) & 0x3FFFFFFFF)
    z = z * _FIRST
    z = z ^ ((z >> 27) & 0x1FFFFFFFFF)
    z = z * _SECOND
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit
def draw_pairs(stream, key, node, pair, DISTRIBUTION: tl.constexpr):
    """Channels ``2 pair`` and ``2 pair + 1`` of a node, float32; the arguments broadcast against each other.

    Args:
        stream: int64, the key of the trajectory (:func:`rfp.features.stream_keys`).
        key: int64, the key of the graph.
        node: int64, number of the node within its graph.
        pair: int64, number of the pair of channels.
        DISTRIBUTION: A value of ``DISTRIBUTION_CODES``.
    """
    word = mix(mix(stream + key + (node + 1) * GOLDEN) + (pair + 1) * GOLDEN)
    high = ((word >> 40) & 0xFFFFFF).to(tl.int32)  # 24 bits of each half
    low = ((word >> 8) & 0xFFFFFF).to(tl.int32)
    if DISTRIBUTION == 1:
        radius = tl.sqrt_rn(tl.log((high.to(tl.float32) + 0.5) * 5.9604644775390625e-08) * -2.0)
        angle = low.to(tl.float32) * _TURN
        return tl.cos(angle) * radius, tl.sin(angle) * radius
    if DISTRIBUTION == 2:
        return 1.0 - 2.0 * (high >> 23).to(tl.float32), 1.0 - 2.0 * (low >> 23).to(tl.float32)
    scale = 5.9604644775390625e-08
    return (high * 2 - 16777215).to(tl.float32) * scale, (low * 2 - 16777215).to(tl.float32) * scale
