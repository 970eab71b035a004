# mypy: ignore-errors
"""Triton: the random features of :mod:`rfp.features`, drawn on chip by the same rule from the same words.

:func:`draw_pairs` serves kernels that draw what they need, :func:`launch` fills a tensor: one pass instead of forty.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from rfp.hashing import mix, signed
from rfp.triton_hashing import GOLDEN_WORD, mixed_word
from rfp.triton_launch import launch_kernel, num_blocks, on_device

# The order in which kernels number the distributions; 0 stands for features that are given.
DISTRIBUTION_CODES = {"normal": 1, "rademacher": 2, "uniform": 3}

_TURN = tl.constexpr(2 * math.pi * 2.0**-24)


@triton.jit
def draw_pairs(stream, key, node, pair, DISTRIBUTION: tl.constexpr):
    """Channels ``2 pair`` and ``2 pair + 1`` of a node, float32; the arguments broadcast against each other.

    Args:
        stream: int64, the key of the trajectory (:func:`rfp.hashing.stream_keys`).
        key: int64, the key of the graph.
        node: int64, number of the node within its graph.
        pair: int64, number of the pair of channels.
        DISTRIBUTION: A value of ``DISTRIBUTION_CODES``.
    """
    word = mixed_word(mixed_word(stream + key + (node + 1) * GOLDEN_WORD) + (pair + 1) * GOLDEN_WORD)
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


@triton.jit(do_not_specialize=["root", "first_trajectory", "first", "rows"])
def _features_kernel(
    out,  # [rows, B, k]
    root,
    first_trajectory,
    keys,  # [num_graphs]
    batch,  # [n], or anything if SINGLE
    offsets,  # [num_graphs + 1]
    first,
    rows,
    num_trajectories,
    k,
    ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
    DISTRIBUTION: tl.constexpr,
    SINGLE: tl.constexpr,
):
    """Grid: (blocks of rows, trajectories). Rows are the nodes from ``first`` on; ``root`` is the hash of the seed."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    b = tl.program_id(1).to(tl.int64)
    live = row < rows
    node = row + first
    if SINGLE:
        key = tl.load(keys)
    else:
        graph = tl.load(batch + node, mask=live, other=0)
        node -= tl.load(offsets + graph, mask=live, other=0)
        key = tl.load(keys + graph, mask=live, other=0)[:, None]
    stream = mixed_word(root + (first_trajectory + b + 1) * GOLDEN_WORD)
    target = out + (row * num_trajectories + b)[:, None] * k
    for start in range(0, k, 2 * PAIRS):
        pair = start // 2 + tl.arange(0, PAIRS)
        even, odd = draw_pairs(stream, key, node[:, None], pair[None, :].to(tl.int64), DISTRIBUTION)
        both = tl.reshape(tl.join(even, odd), [ROWS, 2 * PAIRS])
        channel = start + tl.arange(0, 2 * PAIRS)
        tl.store(target + channel[None, :], both, mask=live[:, None] & (channel < k)[None, :])


def launch(seed, trajectories, keys, batch, offsets, first, rows, num_channels, distribution):
    """Features of the nodes ``first`` to ``first + rows - 1``, ``[rows, B, k]`` float32.

    Args:
        seed: An integer.
        trajectories: The range of their numbers.
        keys: ``[num_graphs]`` keys of the graphs.
        batch: ``[n]`` graph of each node; ``None`` if there is one graph.
        offsets: ``[num_graphs + 1]``.
        distribution: A name of ``DISTRIBUTION_CODES``.
    """
    out = torch.empty(rows, len(trajectories), num_channels, device=keys.device)
    if not out.numel():
        return out
    pairs = min(1 << (num_blocks(num_channels, 2) - 1).bit_length(), 32)
    block = 256 // pairs
    with on_device(out):
        launch_kernel(
            _features_kernel,
            (num_blocks(rows, block), len(trajectories)),
            (
                out,
                mix(signed(seed)),
                trajectories.start,
                keys,
                keys if batch is None else batch,
                offsets,
                first,
                rows,
                len(trajectories),
                num_channels,
            ),
            ROWS=block,
            PAIRS=pairs,
            DISTRIBUTION=DISTRIBUTION_CODES[distribution],
            SINGLE=batch is None,
        )
    return out
