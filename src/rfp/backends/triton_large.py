# mypy: ignore-errors

r"""Triton: one step of a large graph in few passes over memory, and nothing that the host must wait for.

A step is ``product_kernel`` (:math:`y = S q`), ``gram_kernel`` and ``sum_kernel`` (:math:`G = y^\top y`, its parts
added in a fixed order), ``factor_kernel`` (:math:`W = R^{-1}`, in one program) and ``apply_kernel`` (:math:`q = y W`).
States are float32; Gram matrices, factors and the product :math:`y W` float64.

The Gram matrix is not summed in the product, as it might be: its 64 x 64 accumulator takes the registers with which the
product hides the latency of its reads, and with it the product took half as long again. Read from the cache, where the
product has just left it, y costs a fraction of that (benchmarks/gpu.py).
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.triton_factor import inverse_factors, upper_word

# What the factor kernel leaves behind for each trajectory, over all steps: whether a result is not to be trusted, the
# number of dependent columns, whether a state was not finite.
STATUS_WORDS = 3
_WORDS = tl.constexpr(STATUS_WORDS)
_KEPT_LIMIT = tl.constexpr(1e9)


@triton.jit(do_not_specialize=["num_sums", "num_pieces"])
def product_kernel(
    source,
    target,
    pieces,
    row,
    begin,
    end,
    col,
    value,
    num_sums,
    num_pieces,
    num_trajectories,
    source_row,
    source_trajectory,
    target_row,
    target_trajectory,
    k,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
    UNIT: tl.constexpr,
):
    """``sum of value[e] source[col[e]]`` over ``begin[r] <= e < end[r]``, into row ``row[r]`` of the target.

    Grid: (sums / ROWS, B). Sums of a program should be of similar length.

    Args:
        source, target: State rows at ``i * row + b * trajectory``.
        pieces: ``[num_pieces, B, k]``; the first ``num_pieces`` sums go there instead of the target.
        col, value: Not read if ``UNIT``, which adds up the pieces e themselves.
        UNROLL: Entries of a sum asked for at a time.
    """
    b = tl.program_id(1).to(tl.int64)
    channel = tl.arange(0, K)
    real = (channel < k)[None, :]
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = r < num_sums
    first = tl.load(begin + r, mask=live, other=0)
    last = tl.load(end + r, mask=live, other=0)
    longest = tl.max(last - first, axis=0).to(tl.int32)
    y = tl.zeros([ROWS, K], tl.float32)
    for s in range(0, longest, UNROLL):
        for u in tl.static_range(UNROLL):
            entry = first + (s + u)
            there = entry < last
            wanted = there[:, None] & real
            if UNIT:
                at = ((entry.to(tl.int64) * num_trajectories + b) * k)[:, None] + channel[None, :]
                y += tl.load(pieces + at, mask=wanted, other=0.0)
            else:
                j = tl.load(col + entry, mask=there, other=0, eviction_policy="evict_first").to(tl.int64)
                weight = tl.load(value + entry, mask=there, other=0.0, eviction_policy="evict_first")[:, None]
                at = (j * source_row + b * source_trajectory)[:, None] + channel[None, :]
                y += weight * tl.load(source + at, mask=wanted, other=0.0)
    i = tl.load(row + r, mask=live, other=0).to(tl.int64)
    is_piece = r < num_pieces
    at_target = (i * target_row + b * target_trajectory)[:, None] + channel[None, :]
    tl.store(target + at_target, y, mask=(live & ~is_piece)[:, None] & real)
    if not UNIT:
        at_piece = ((i * num_trajectories + b) * k)[:, None] + channel[None, :]
        tl.store(pieces + at_piece, y, mask=is_piece[:, None] & real)


@triton.jit(do_not_specialize=["num_rows", "num_blocks", "grams_trajectory"])
def gram_kernel(
    states,
    grams,
    num_rows,
    num_blocks,
    row,
    trajectory,
    k,
    grams_trajectory,
    K: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Parts of the Gram matrix, ``grams`` ``[B, programs, K, K]``. Grid: (programs, B).

    A program takes every so-manieth block of rows.
    """
    b = tl.program_id(1).to(tl.int64)
    states += b * trajectory
    channel = tl.arange(0, K)
    gram = tl.zeros([K, K], tl.float64)
    for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        i = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        mask = (i < num_rows)[:, None] & (channel < k)[None, :]
        wide = tl.load(states + (i * row)[:, None] + channel[None, :], mask=mask, other=0.0).to(tl.float64)
        gram += tl.dot(tl.trans(wide), wide, out_dtype=tl.float64)
    square = channel[:, None] * K + channel[None, :]
    tl.store(grams + b * grams_trajectory + tl.program_id(0) * (K * K) + square, gram)


@triton.jit(do_not_specialize=["num_parts", "grams_trajectory"])
def sum_kernel(grams, gram, num_parts, grams_trajectory, K: tl.constexpr, WORDS: tl.constexpr):
    """Add the parts of the Gram matrix in their order. Grid: (K * K / WORDS, B)."""
    b = tl.program_id(1).to(tl.int64)
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    grams += b * grams_trajectory
    total = tl.zeros([WORDS], tl.float64)
    for first in range(0, num_parts, 32):
        part = first + tl.arange(0, 32)[:, None]
        total += tl.sum(tl.load(grams + part * (K * K) + word[None, :], mask=part < num_parts, other=0.0), axis=0)
    tl.store(gram + b * (K * K) + word, total)


@triton.jit
def factor_kernel(gram, weight, status, k, K: tl.constexpr, L2: tl.constexpr):
    r"""``weight`` W with :math:`q = y W`, by panels of 16 columns. Grid: (B,).

    A panel's columns in the basis of y, :math:`V = E_c - W W^\top G E_c`, are freed of the columns before it; the
    inverse factor of :math:`V^\top G V` makes them orthonormal. For ``L2`` W only scales the columns to length 1.
    """
    b = tl.program_id(0).to(tl.int64)
    status += b * _WORDS
    gram += b * (K * K)
    weight += b * (K * K)
    channel = tl.arange(0, K)
    narrow = tl.arange(0, 16)
    square = channel[:, None] * K + channel[None, :]
    g = tl.load(gram + square)
    squares = tl.sum(tl.where(channel[:, None] == channel[None, :], g, 0.0), axis=0)
    scale = tl.max(upper_word(squares), axis=0)
    if L2:
        length = tl.where(squares > 0, 1.0 / tl.sqrt(tl.where(squares > 0, squares, 1.0)), 0.0)
        tl.store(weight + square, tl.where(channel[:, None] == channel[None, :], length[None, :], 0.0))
    else:
        tl.store(weight + square, tl.zeros([K, K], tl.float64))
        total = 0
        unsure = 0
        norms = tl.zeros([16], tl.float64)
        for c in range(0, K, 16):
            at = channel[:, None] * K + (c + narrow)[None, :]
            v = tl.where(channel[:, None] == (c + narrow)[None, :], 1.0, 0.0).to(tl.float64)
            tl.debug_barrier()  # the columns stored by the panel before are read by all threads
            before = tl.load(weight + square)
            against = tl.dot(tl.trans(before), tl.load(gram + at), out_dtype=tl.float64)
            v -= tl.dot(before, against, out_dtype=tl.float64)
            small = tl.dot(tl.trans(v), tl.dot(g, v, out_dtype=tl.float64), out_dtype=tl.float64)
            factor, _ = inverse_factors(small, small, scale, scale, False)
            w, scaling, _, ill, kept = factor
            columns = tl.dot(v, tl.trans(w * scaling.to(tl.float64)), out_dtype=tl.float64)
            tl.store(weight + at, columns)
            norms += tl.sum(columns * columns, axis=0)
            # Large coefficients carry rounding of G into the pivots, which makes dropping a column a guess.
            large = tl.max(tl.max(v * v, axis=1), axis=0) > 16.0
            unsure |= ill | ((kept < tl.minimum(k - c, 16)) & large).to(tl.int32)
            total += kept
        ill_conditioned = tl.sum(norms, axis=0) * tl.sum(squares, axis=0) > _KEPT_LIMIT
        tl.store(status, tl.load(status) | unsure | ill_conditioned.to(tl.int32))
        tl.store(status + 1, tl.load(status + 1) + (k - total))
    tl.store(status + 2, tl.load(status + 2) | (scale >= 0x7FF00000).to(tl.int32))


@triton.jit(do_not_specialize=["num_rows"])
def apply_kernel(
    source,
    target,
    weight,
    num_rows,
    source_row,
    source_trajectory,
    target_row,
    target_trajectory,
    k,
    K: tl.constexpr,
    ROWS: tl.constexpr,
):
    """``target = source W``, row block by row block. Grid: (row blocks, B).

    W is upper triangular: of a wide one the quarter that is zero is spared.
    """
    b = tl.program_id(1).to(tl.int64)
    H: tl.constexpr = K // 2 if K == 64 else K
    channel = tl.arange(0, H)
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    live = (i < num_rows)[:, None]
    source += b * source_trajectory
    target += b * target_trajectory
    weight += b * (K * K)
    at = (i * source_row)[:, None] + channel[None, :]
    at_target = (i * target_row)[:, None] + channel[None, :]
    square = channel[:, None] * K + channel[None, :]
    mask = live & (channel < k)[None, :]
    left = tl.load(source + at, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float64)
    q = tl.dot(left, tl.load(weight + square), out_dtype=tl.float64)
    tl.store(target + at_target, q.to(tl.float32), mask=mask)
    if H < K:
        mask = live & (channel + H < k)[None, :]
        right = tl.load(source + at + H, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float64)
        q = tl.dot(left, tl.load(weight + square + H), out_dtype=tl.float64)
        q = tl.dot(right, tl.load(weight + square + H * K + H), q, out_dtype=tl.float64)
        tl.store(target + at_target + H, q.to(tl.float32), mask=mask)
