# mypy: ignore-errors
r"""Triton: products of trajectories without channel weights, by Gram matrices of states.

With ``[T, T]`` :math:`G(u, v) = \frac{1}{k} \sum_c u_c v_c^\top`, :math:`y_i = \sum_{pq} G_{pq} w_{1ip} w_{2iq}`: the
trajectory is read once for all of them (``state_grams``), and what remains is a matrix product with the weights
:math:`w_{1ip} w_{2iq}` and, for the gradient, one more. G(v) is symmetric, so of a node only ``q <= p`` is stored and
multiplied, with the weights :math:`w_{1ip} w_{2iq} + w_{1iq} w_{2ip}` where ``q < p``.

A row holds ``WIDTH`` numbers, T (T + 1) / 2 of a node and T² of a pair, and zeros up to ``STRIDE``, a multiple of 16,
so that four numbers are read at once everywhere.

Dots are in 3xTF32: a float32 number is the sum of two of TF32, and less than :math:`2^{-19}` of a product is lost (by
TF32 alone :math:`2^{-10}`). There are no atomics: sums are in a fixed order, that of the pieces.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from rfp.nn.gram_rows import row_stride
from rfp.nn.triton_state_tiles import ends_of_row, state_tile, tile_side, tile_strides
from rfp.triton_launch import num_blocks

# Sides of tiles.
_CHANNELS, _ROWS, _COLUMNS, _PRODUCTS = 64, 64, 64, 64
# A matrix product is cut into pieces of its longest side until there are about so many programs: two for each
# multiprocessor of an H200. The sum of the pieces depends on their number, so it is not asked of the device.
_PROGRAMS = 264


@triton.jit
def _place(p, q, STATES: tl.constexpr, PAIRS: tl.constexpr):
    """Where ``G[p, q]`` stands in a row, and whether it does."""
    if PAIRS:
        place = p * STATES + q
        stored = (p < STATES) & (q < STATES)
    else:
        place = p * (p + 1) // 2 + q
        stored = (p < STATES) & (q <= p)
    return place, stored


@triton.jit
def _store_row(out, tile, STATES: tl.constexpr, PAIRS: tl.constexpr, T: tl.constexpr, STRIDE: tl.constexpr):
    """Write the entries of ``tile`` ``[T, T]`` that a row holds, and the zeros behind them."""
    place, stored = _place(tl.arange(0, T)[:, None], tl.arange(0, T)[None, :], STATES, PAIRS)
    tl.store(out + place, tile, mask=stored)
    WIDTH: tl.constexpr = STATES * STATES if PAIRS else STATES * (STATES + 1) // 2
    behind = WIDTH + tl.arange(0, 16)
    tl.store(out + behind, tl.zeros([16], tl.float32), mask=behind < STRIDE)


# Not compiled anew for what changes from batch to batch.
@triton.jit(do_not_specialize=["rows", "first_node", "second_node", "scale"])
def state_grams(
    out,  # [L, rows, STRIDE]
    states,  # [L, n, T, k], the last two contiguous
    first_node,  # [rows], read of pairs
    second_node,
    scale,  # [rows], read if SCALED
    leading_stride,
    node_stride,
    rows,
    STATES: tl.constexpr,  # T
    CHANNELS: tl.constexpr,  # k
    PAIRS: tl.constexpr,
    T: tl.constexpr,  # sides of a tile, see state_tile
    K: tl.constexpr,
    STRIDE: tl.constexpr,
    SCALED: tl.constexpr,
):
    """One row."""
    row = tl.program_id(0).to(tl.int64)
    leading = tl.program_id(1).to(tl.int64)
    states += leading * leading_stride
    u, v = ends_of_row(first_node, second_node, row, PAIRS)
    gram = tl.zeros([T, T], tl.float32)
    for begin in range(0, CHANNELS, K):
        x = state_tile(states, u * node_stride, begin, STATES, CHANNELS, T, K)
        y = x
        if PAIRS:
            y = state_tile(states, v * node_stride, begin, STATES, CHANNELS, T, K)
        gram = tl.dot(x, tl.trans(y), gram, input_precision="tf32x3")
    gram *= 1.0 / CHANNELS
    if SCALED:
        gram *= tl.load(scale + row)
    _store_row(out + (leading * rows + row) * STRIDE, gram, STATES, PAIRS, T, STRIDE)


@triton.jit
def pair_weights(
    out,  # [m, STRIDE]
    first,  # [m, T]
    second,  # [m, T]
    STATES: tl.constexpr,
    PAIRS: tl.constexpr,
    T: tl.constexpr,
    STRIDE: tl.constexpr,
):
    """What the Gram matrices are multiplied with, of one product."""
    i = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, T)[:, None]
    q = tl.arange(0, T)[None, :]
    w1 = first + i * STATES
    w2 = second + i * STATES
    weight = tl.load(w1 + p, mask=p < STATES, other=0.0) * tl.load(w2 + q, mask=q < STATES, other=0.0)
    if not PAIRS:
        turned = tl.load(w1 + q, mask=q < STATES, other=0.0) * tl.load(w2 + p, mask=p < STATES, other=0.0)
        weight += tl.where(q < p, turned, 0.0)
    _store_row(out + i * STRIDE, weight, STATES, PAIRS, T, STRIDE)


@triton.jit(do_not_specialize=["pieces"])
def pair_weights_gradient(
    grad_first,  # [m, T]
    grad_second,  # [m, T]
    grad,  # [pieces, m, STRIDE]: gradients of the weights, to be summed over the pieces
    first,
    second,
    pieces,
    STATES: tl.constexpr,
    PAIRS: tl.constexpr,
    T: tl.constexpr,
    STRIDE: tl.constexpr,
):
    """From the gradient of the weights of one product to those of its rows of W₁ and W₂."""
    i = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, T)[:, None]
    q = tl.arange(0, T)[None, :]
    place, stored = _place(p, q, STATES, PAIRS)
    total = tl.zeros([T, T], tl.float32)
    grad += i * STRIDE
    for _piece in range(pieces):
        total += tl.load(grad + place, mask=stored, other=0.0)
        grad += tl.num_programs(0).to(tl.int64) * STRIDE
    w1 = first + i * STATES
    w2 = second + i * STATES
    by_rows = tl.arange(0, T)
    of_first = tl.sum(total * tl.load(w2 + q, mask=q < STATES, other=0.0), axis=1)
    of_second = tl.sum(total * tl.load(w1 + p, mask=p < STATES, other=0.0), axis=0)
    if not PAIRS:
        below = tl.where(q < p, total, 0.0)
        first_too = tl.sum(below * tl.load(w2 + p, mask=p < STATES, other=0.0), axis=0)
        second_too = tl.sum(below * tl.load(w1 + q, mask=q < STATES, other=0.0), axis=1)
        of_first = of_first + first_too
        of_second = of_second + second_too
    tl.store(grad_first + i * STATES + by_rows, of_first, mask=by_rows < STATES)
    tl.store(grad_second + i * STATES + by_rows, of_second, mask=by_rows < STATES)


@triton.jit(do_not_specialize=["rows", "share"])
def grams_times_weights(
    out,  # [pieces, rows, m]
    grams,  # [rows, STRIDE]
    weights,  # [m, STRIDE]
    rows,
    share,  # tiles of columns in a piece
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRODUCTS: tl.constexpr,  # m
    M: tl.constexpr,  # side of a tile of them
):
    """``y``: the sum over the columns of one piece."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    i = tl.program_id(2).to(tl.int64) * M + tl.arange(0, M)
    piece = tl.program_id(1)
    real_row = (row < rows)[:, None]
    real_product = (i < PRODUCTS)[:, None]
    total = tl.zeros([ROWS, M], tl.float32)
    for tile in range(piece * share, tl.minimum((piece + 1) * share, tl.cdiv(STRIDE, COLUMNS))):
        column = tile * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        gram = tl.load(grams + row[:, None] * STRIDE + column, mask=real_row & (column < STRIDE), other=0.0)
        weight = tl.load(weights + i[:, None] * STRIDE + column, mask=real_product & (column < STRIDE), other=0.0)
        total = tl.dot(gram, tl.trans(weight), total, input_precision="tf32x3")
    place = (piece.to(tl.int64) * rows + row)[:, None] * PRODUCTS + i[None, :]
    tl.store(out + place, total, mask=real_row & (i < PRODUCTS)[None, :])


@triton.jit(do_not_specialize=["rows", "share"])
def grams_gradient(
    out,  # [pieces, m, STRIDE]
    grad,  # [rows, m]
    grams,  # [rows, STRIDE]
    rows,
    share,  # tiles of rows in a piece
    STRIDE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRODUCTS: tl.constexpr,  # m
    M: tl.constexpr,  # side of a tile of them
):
    """The gradient of the weights: the sum over the rows of one piece."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    i = tl.program_id(2).to(tl.int64) * M + tl.arange(0, M)
    piece = tl.program_id(1)
    real_product = (i < PRODUCTS)[None, :]
    total = tl.zeros([M, COLUMNS], tl.float32)
    for tile in range(piece * share, tl.minimum((piece + 1) * share, tl.cdiv(rows, ROWS))):
        row = (tile * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        g = tl.load(grad + row * PRODUCTS + i[None, :], mask=(row < rows) & real_product, other=0.0)
        gram = tl.load(grams + row * STRIDE + column, mask=(row < rows) & (column < STRIDE), other=0.0)
        total = tl.dot(tl.trans(g), gram, total, input_precision="tf32x3")
    place = (piece.to(tl.int64) * PRODUCTS + i)[:, None] * STRIDE + column
    tl.store(out + place, total, mask=(i < PRODUCTS)[:, None] & (column < STRIDE))


def launch_grams(states, pairs, scale=None):
    """Gram matrices of nodes, or of ``pairs`` ``[2, rows]``: ``[L, rows, STRIDE]`` of ``states`` ``[L, n, T, k]``.

    ``scale`` ``[rows]`` multiplies them.
    """
    leading, n, num_states, num_channels = states.shape
    rows = n if pairs is None else pairs.size(1)
    first, second = (states, states) if pairs is None else pairs.unbind(0)
    options = _options(num_states, pairs is not None)
    out = states.new_empty(leading, rows, options["STRIDE"])
    state_grams[(rows, leading)](
        out,
        states,
        first,
        second,
        states if scale is None else scale,
        *tile_strides(states),
        rows,
        CHANNELS=num_channels,
        K=min(tile_side(num_channels), _CHANNELS),
        SCALED=scale is not None,
        **options,
    )
    return out


def launch_gram_products(grams, first, second, pairs):
    """``y`` ``[rows, m]`` of Gram matrices ``[rows, STRIDE]``; ``pairs`` says whether they are of pairs."""
    (rows, stride), (products, num_states) = grams.shape, first.shape
    weights = grams.new_empty(products, stride)
    pair_weights[(products,)](weights, first, second, **_options(num_states, pairs))
    tiles = num_blocks(rows, _ROWS), num_blocks(products, _PRODUCTS)
    pieces, share = _pieces(num_blocks(stride, _COLUMNS), tiles)
    out = grams.new_empty(pieces, rows, products)
    grid = tiles[0], pieces, tiles[1]
    grams_times_weights[grid](out, grams, weights, rows, share, STRIDE=stride, PRODUCTS=products, **_TILES)
    return out[0] if pieces == 1 else out.sum(0)


def launch_gram_products_gradient(grad, grams, first, second, pairs):
    """Gradients of W₁ and W₂ from that of ``y``."""
    (rows, stride), (products, num_states) = grams.shape, first.shape
    tiles = num_blocks(stride, _COLUMNS), num_blocks(products, _PRODUCTS)
    pieces, share = _pieces(num_blocks(rows, _ROWS), tiles)
    of_weights = grams.new_empty(pieces, products, stride)
    grid = tiles[0], pieces, tiles[1]
    grams_gradient[grid](of_weights, grad, grams, rows, share, STRIDE=stride, PRODUCTS=products, **_TILES)
    grad_first, grad_second = torch.empty_like(first), torch.empty_like(second)
    pair_weights_gradient[(products,)](
        grad_first, grad_second, of_weights, first, second, pieces, **_options(num_states, pairs)
    )
    return grad_first, grad_second


_TILES = {"ROWS": _ROWS, "COLUMNS": _COLUMNS, "M": _PRODUCTS, "num_warps": 4, "num_stages": 3}


def _options(num_states, pairs):
    side = tile_side(num_states)
    stride = row_stride(num_states, pairs)
    return {"STATES": num_states, "PAIRS": pairs, "T": side, "STRIDE": stride, "num_warps": 4 if side <= 64 else 8}


def _pieces(steps, tiles):
    """Into how many pieces so many steps of a sum are cut for there to be enough programs, and the steps of a piece."""
    share = num_blocks(steps, min(max(_PROGRAMS // (tiles[0] * tiles[1]), 1), steps))
    return num_blocks(steps, share), share
