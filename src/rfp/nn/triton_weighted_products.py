# mypy: ignore-errors
r"""Triton: products of trajectories with channel weights, :math:`y = \frac{1}{k} \sum_c α_c ⊙ (W_1 u_c) ⊙ (W_2 v_c)`.

W₁, W₂ and α are applied on chip and m numbers of a node or pair are written; nothing of size k m is, in either
direction. There are no atomics: every program sums its own rows, and the sums of the programs are added in order. Dots
are in 3xTF32 (:mod:`rfp.nn.triton_gram_products`).
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.nn.triton_state_tiles import ends_of_row, state_tile, tile_side, tile_strides
from rfp.triton_launch import num_blocks

# Channels of a tile; a wider k is cut into such pieces, each with programs of its own.
_CHANNELS = 32
# Programs that share the rows: two for each multiprocessor of an H200. A constant, since sums depend on it.
_PROGRAMS = 264


@triton.jit
def _weights(weight, STATES: tl.constexpr, PRODUCTS: tl.constexpr, T: tl.constexpr, M: tl.constexpr):
    """One of the linear maps, ``[M, T]``."""
    i = tl.arange(0, M)[:, None]
    p = tl.arange(0, T)[None, :]
    return tl.load(weight + i * STATES + p, mask=(i < PRODUCTS) & (p < STATES), other=0.0)


@triton.jit
def _channel_weights(alpha, begin, PRODUCTS: tl.constexpr, CHANNELS: tl.constexpr, M: tl.constexpr, K: tl.constexpr):
    """α / k of these channels, transposed: ``[M, K]``."""
    i = tl.arange(0, M)[:, None]
    c = begin + tl.arange(0, K)[None, :]
    return tl.load(alpha + c * PRODUCTS + i, mask=(i < PRODUCTS) & (c < CHANNELS), other=0.0) * (1.0 / CHANNELS)


@triton.jit(do_not_specialize=["rows", "all_rows", "first_node", "second_node"])
def weighted_products_forward(
    out,  # [pieces, L, rows, m]
    states,  # [L, n, T, k], the last two contiguous
    first,  # [m, T]
    second,  # [m, T]
    alpha,  # [k, m]
    first_node,  # [rows], read of pairs
    second_node,
    leading_stride,
    node_stride,
    rows,
    all_rows,  # L rows
    STATES: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRODUCTS: tl.constexpr,
    PAIRS: tl.constexpr,
    T: tl.constexpr,
    K: tl.constexpr,
    M: tl.constexpr,
):
    """The sum over a piece of the channels of ``α (W₁ u) (W₂ v) / k``, for every ``num_programs``-th row."""
    piece = tl.program_id(1).to(tl.int64)
    begin = (piece * K).to(tl.int32)
    w1 = _weights(first, STATES, PRODUCTS, T, M)
    w2 = _weights(second, STATES, PRODUCTS, T, M)
    weight = _channel_weights(alpha, begin, PRODUCTS, CHANNELS, M, K)
    i = tl.arange(0, M)
    for place in range(tl.program_id(0).to(tl.int64), all_rows, tl.num_programs(0)):
        u, v = ends_of_row(first_node, second_node, place % rows, PAIRS)
        there = states + place // rows * leading_stride
        x = state_tile(there, u * node_stride, begin, STATES, CHANNELS, T, K)
        y = x
        if PAIRS:
            y = state_tile(there, v * node_stride, begin, STATES, CHANNELS, T, K)
        a = tl.dot(w1, x, input_precision="tf32x3")
        b = tl.dot(w2, y, input_precision="tf32x3")
        total = tl.sum(a * b * weight, axis=1)
        tl.store(out + (piece * all_rows + place) * PRODUCTS + i, total, mask=i < PRODUCTS)


@triton.jit(do_not_specialize=["rows", "all_rows", "first_node", "second_node"])
def weighted_products_backward(
    grad_first,  # [pieces, programs, m, T]
    grad_second,  # [pieces, programs, m, T]
    grad_alpha,  # [programs, k, m]
    grad,  # [L, rows, m]
    states,
    first,
    second,
    alpha,
    first_node,
    second_node,
    leading_stride,
    node_stride,
    rows,
    all_rows,
    STATES: tl.constexpr,
    CHANNELS: tl.constexpr,
    PRODUCTS: tl.constexpr,
    PAIRS: tl.constexpr,
    T: tl.constexpr,
    K: tl.constexpr,
    M: tl.constexpr,
):
    """Gradients of W₁, W₂ and α by the rows of one program; a and b are computed once more, never stored."""
    program = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1).to(tl.int64)
    begin = (piece * K).to(tl.int32)
    w1 = _weights(first, STATES, PRODUCTS, T, M)
    w2 = _weights(second, STATES, PRODUCTS, T, M)
    weight = _channel_weights(alpha, begin, PRODUCTS, CHANNELS, M, K)
    i = tl.arange(0, M)
    of_first = tl.zeros([M, T], tl.float32)
    of_second = tl.zeros([M, T], tl.float32)
    of_alpha = tl.zeros([M, K], tl.float32)
    for place in range(program, all_rows, tl.num_programs(0)):
        u, v = ends_of_row(first_node, second_node, place % rows, PAIRS)
        there = states + place // rows * leading_stride
        x = state_tile(there, u * node_stride, begin, STATES, CHANNELS, T, K)
        y = x
        if PAIRS:
            y = state_tile(there, v * node_stride, begin, STATES, CHANNELS, T, K)
        a = tl.dot(w1, x, input_precision="tf32x3")
        b = tl.dot(w2, y, input_precision="tf32x3")
        g = tl.load(grad + place * PRODUCTS + i, mask=i < PRODUCTS, other=0.0)[:, None]
        of_alpha += g * a * b
        of_first = tl.dot(g * weight * b, tl.trans(x), of_first, input_precision="tf32x3")
        of_second = tl.dot(g * weight * a, tl.trans(y), of_second, input_precision="tf32x3")
    i = i[:, None]
    p = tl.arange(0, T)[None, :]
    c = begin + tl.arange(0, K)[None, :]
    kept = (i < PRODUCTS) & (p < STATES)
    at = (piece * tl.num_programs(0) + program) * (PRODUCTS * STATES) + i * STATES + p
    tl.store(grad_first + at, of_first, mask=kept)
    tl.store(grad_second + at, of_second, mask=kept)
    kept = (i < PRODUCTS) & (c < CHANNELS)
    at = program * (CHANNELS * PRODUCTS) + c * PRODUCTS + i
    tl.store(grad_alpha + at, of_alpha * (1.0 / CHANNELS), mask=kept)


def launch_weighted_products(states, first, second, alpha, pairs):
    """``y`` ``[L, rows, m]`` of ``states`` ``[L, n, T, k]``; ``pairs`` is ``[2, rows]``, or ``None`` for the nodes."""
    rows, nodes, options = _arguments(states, first, pairs)
    all_rows, pieces = len(states) * rows, _num_pieces(options)
    out = states.new_empty(pieces, len(states), rows, len(first))
    weighted_products_forward[(min(_PROGRAMS, all_rows), pieces)](
        out, states, first, second, alpha, *nodes, *tile_strides(states), rows, all_rows, **options
    )
    return out[0] if pieces == 1 else out.sum(0)


def launch_weighted_products_gradient(grad, states, first, second, alpha, pairs):
    """Gradients of W₁, W₂ and α from that of ``y``, which is contiguous."""
    rows, nodes, options = _arguments(states, first, pairs)
    all_rows, pieces = len(states) * rows, _num_pieces(options)
    programs = min(_PROGRAMS, all_rows)
    grad_weights = states.new_empty(2, pieces * programs, *first.shape)
    grad_alpha = states.new_empty(programs, *alpha.shape)
    weighted_products_backward[(programs, pieces)](
        *grad_weights,
        grad_alpha,
        grad,
        states,
        first,
        second,
        alpha,
        *nodes,
        *tile_strides(states),
        rows,
        all_rows,
        **options,
    )
    return *grad_weights.sum(1), grad_alpha.sum(0)


def _arguments(states, first, pairs):
    """The number of rows, the nodes of each, and the constants of the kernels."""
    _, n, num_states, num_channels = states.shape
    rows, nodes = (n, (states, states)) if pairs is None else (pairs.size(1), pairs.unbind(0))
    m, t = tile_side(len(first)), tile_side(num_states)
    options = {
        "STATES": num_states,
        "CHANNELS": num_channels,
        "PRODUCTS": len(first),
        "PAIRS": pairs is not None,
        "T": t,
        "K": min(tile_side(num_channels), _CHANNELS),
        "M": m,
        "num_warps": 4 if m * t <= 64 * 64 else 8,
        "num_stages": 1,  # a second stage would spill in the gradient
    }
    return rows, nodes, options


def _num_pieces(options):
    return num_blocks(options["CHANNELS"], options["K"])
