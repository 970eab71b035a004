# mypy: ignore-errors
"""Triton: the words of :mod:`rfp.hashing` on a GPU, and the keys of graphs by them in two launches instead of fifty."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp import hashing
from rfp.triton_launch import num_blocks, on_device

GOLDEN_WORD = tl.constexpr(hashing.GOLDEN)
_FIRST = tl.constexpr(hashing._MULTIPLIER_1)
_SECOND = tl.constexpr(hashing._MULTIPLIER_2)
_SOURCE = tl.constexpr(hashing.SOURCE)
_LOOP_AT_ZERO = tl.constexpr(hashing.LOOP_AT_ZERO)
_BLOCK = 512


@triton.jit
def mixed_word(z):
    """:func:`rfp.hashing.mix` on ``int64``; the masks make the arithmetic shifts logical ones."""
    z = z ^ ((z >> 30) & 0x3FFFFFFFF)
    z = z * _FIRST
    z = z ^ ((z >> 27) & 0x1FFFFFFFFF)
    z = z * _SECOND
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit
def edge_ends(edge_index, edge, live, to_target, step):
    """Sources and targets of a block of edges, int64; 0 where there is none.

    Args:
        edge_index: ``[2, num_edges]`` at any strides.
        edge: Numbers of the edges.
        live: Which of them there are.
        to_target: How far targets lie from sources.
        step: How far an edge lies from the next.
    """
    source = tl.load(edge_index + edge * step, mask=live, other=0).to(tl.int64)
    return source, tl.load(edge_index + to_target + edge * step, mask=live, other=0).to(tl.int64)


@triton.jit
def edge_words(source, target):
    """The word of each edge, from its ends in node numbers of its graph."""
    word = mixed_word(source * _SOURCE + target * GOLDEN_WORD)
    return tl.where(word == 0, _LOOP_AT_ZERO, word)


@triton.jit
def add_edge_words(sums, source, target, live, batch, offsets, SINGLE: tl.constexpr):
    """Add the word of every edge to the sum of its graph. Integers wrap, so the order of the additions is nothing.

    Args:
        sums: ``[num_graphs]`` int64.
        source, target: Blocks of nodes, int64.
        live: Which of the block are edges.
        batch: ``[n]``; not read if SINGLE.
        offsets: ``[num_graphs + 1]``; not read if SINGLE.
    """
    graph = source * 0
    if not SINGLE:
        graph = tl.load(batch + source, mask=live, other=0).to(tl.int64)
        first = tl.load(offsets + graph, mask=live, other=0).to(tl.int64)
        source -= first
        target -= first
    word = edge_words(source, target)
    if SINGLE:
        tl.atomic_add(sums, tl.sum(tl.where(live, word, 0), axis=0), sem="relaxed")
    else:
        tl.atomic_add(sums + graph, word, mask=live, sem="relaxed")


@triton.jit(do_not_specialize=["to_target", "num_edges"])
def _edges_kernel(
    edge_index,  # [2, num_edges]
    batch,  # [n], or anything if SINGLE
    offsets,  # [num_graphs + 1]
    sums,  # [num_graphs] int64
    to_target,
    step,
    num_edges,
    SINGLE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add the words of all edges to the sums of their graphs."""
    edge = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = edge < num_edges
    source, target = edge_ends(edge_index, edge, live, to_target, step)
    add_edge_words(sums, source, target, live, batch, offsets, SINGLE)


@triton.jit(do_not_specialize=["num_graphs"])
def _keys_kernel(offsets, sums, num_graphs, BLOCK: tl.constexpr):
    """From the sum over the edges to the key, in place."""
    graph = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = graph < num_graphs
    start = tl.load(offsets + graph, mask=live, other=0).to(tl.int64)
    size = tl.load(offsets + graph + 1, mask=live, other=0).to(tl.int64) - start
    total = tl.load(sums + graph, mask=live, other=0)
    tl.store(sums + graph, mixed_word(mixed_word(size * GOLDEN_WORD + 1) + total), mask=live)


def graph_keys(edge_index: Tensor, offsets: Tensor, batch: Tensor | None) -> Tensor:
    """:attr:`rfp.graph.Graph.keys`, ``[num_graphs]``, the same bits.

    Args:
        edge_index: ``[2, num_edges]``, of any strides.
        offsets: ``[num_graphs + 1]``.
        batch: ``[n]`` graph of each node; ``None`` if there is one graph.
    """
    num_edges, num_graphs = edge_index.size(1), len(offsets) - 1
    sums = torch.zeros(num_graphs, dtype=torch.int64, device=edge_index.device)
    if not num_graphs:
        return sums
    with on_device(sums):
        if num_edges:
            _edges_kernel[(num_blocks(num_edges, _BLOCK),)](
                edge_index,
                sums if batch is None else batch,
                offsets,
                sums,
                *edge_index.stride(),
                num_edges,
                SINGLE=batch is None,
                BLOCK=_BLOCK,
            )
        _keys_kernel[(num_blocks(num_graphs, _BLOCK),)](offsets, sums, num_graphs, BLOCK=_BLOCK)
    return sums
