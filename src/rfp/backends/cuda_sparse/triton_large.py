# mypy: ignore-errors

r"""Triton: one step of a large graph in few passes over memory, and nothing that the host must wait for.

A step is ``product_kernel`` (:math:`y = S q`), ``gram_kernel`` (parts of :math:`G = y^\top y`), ``sum_kernel`` (their
sum in a fixed order; then, in the program that ends last, :math:`W = R^{-1}`) and ``apply_kernel`` (:math:`q = y W`).
Few parts are added up by the program of ``gram_kernel`` that ends last. States are float32, Gram matrices and factors
float64.

The last and the second are bound by memory in float32 and by arithmetic in float64. So the device chooses: columns
that are nearly orthogonal, as those of an iteration under way are, are multiplied in float32 split into parts for the
tensor cores, with 22 bits or more of each factor; all others, and the first step, in float64. The factorisation
measures how far W is from a diagonal matrix, chooses for the ``apply_kernel`` of its step and, for steps are alike, for
the ``gram_kernel`` of the next; where the next turns out less orthogonal than foreseen it is reported as not to be
trusted, and computed again.

The Gram matrix is not summed in the product, as it might be: its 64 x 64 accumulator takes the registers with which the
product hides the latency of its reads, and with it the product took half as long again. Read from the cache, where the
product has just left it, y costs a fraction of that.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.cuda_sparse.triton_factorization import ARRIVED, SPLIT_PRODUCT, SPLIT_SUM, STATUS_LENGTH, use_gram
from rfp.triton_last_program import all_arrived, comes_last


@triton.jit(do_not_specialize=["num_places", "room", "piece_programs"])
def product_kernel(
    source,
    target,
    pieces,
    row,
    begin,
    end,
    num_pieces,
    heavy,
    heavy_end,
    arrived,
    col,
    value,
    num_places,
    room,
    piece_programs,
    num_trajectories,
    source_row,
    source_trajectory,
    target_row,
    target_trajectory,
    k,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
):
    """``target[row[r]] = sum of value[e] source[col[e]]`` over ``begin[r] <= e < end[r]``.

    The sums are those of a :class:`rfp.backends.cuda_sparse.row_plan.RowPlan`. Pieces of a heavy row are added up by
    the program that ends the last of them. Sums of a program should be of similar length.

    Grid: (``piece_programs`` + rows / ROWS, B). The first programs take the pieces, of which there may be fewer than
    there is room for: each as many as come to it.

    Args:
        source, target: State rows at ``i * row + b * trajectory``.
        pieces: ``[room, B, k]``, scratch.
        arrived: ``[room, B]`` int32, zero before the kernel and after it.
        UNROLL: Entries of a sum asked for at a time.
    """
    program = tl.program_id(0).to(tl.int64)
    b = tl.program_id(1).to(tl.int64)
    source += b * source_trajectory
    target += b * target_trajectory
    channel = tl.arange(0, K)
    real = (channel < k)[None, :]
    if program >= piece_programs:
        r = room + (program - piece_programs) * ROWS + tl.arange(0, ROWS)
        live = r < num_places
        y = _sums(source, begin, end, col, value, r, live, source_row, k, K, ROWS, UNROLL)
        i = tl.load(row + r, mask=live, other=-1).to(tl.int64)
        tl.store(target + (i * target_row)[:, None] + channel[None, :], y, mask=(i >= 0)[:, None] & real)
    else:
        count = tl.load(num_pieces)
        for first in range(program * ROWS, count, piece_programs * ROWS):
            r = first + tl.arange(0, ROWS).to(tl.int64)
            live = r < count
            y = _sums(source, begin, end, col, value, r, live, source_row, k, K, ROWS, UNROLL)
            at = ((r * num_trajectories + b) * k)[:, None] + channel[None, :]
            tl.store(pieces + at, y, mask=live[:, None] & real)
            start = tl.load(row + r, mask=live, other=0).to(tl.int64)
            stop = tl.load(heavy_end + start, mask=live, other=0).to(tl.int64)
            ends = all_arrived(arrived + start * num_trajectories + b, stop - start, live)
            at_hand = tl.max(tl.where(ends, start, -1), axis=0)
            while at_hand >= 0:  # one heavy row after the other
                beyond = tl.max(tl.where(start == at_hand, stop, 0), axis=0)
                total = _added_pieces(pieces + b * k, num_trajectories * k, at_hand, beyond, k, K, ROWS, UNROLL)
                i = tl.load(heavy + at_hand).to(tl.int64)
                tl.store(target + i * target_row + channel, total, mask=channel < k)
                at_hand = tl.max(tl.where(ends & (start < at_hand), start, -1), axis=0)


@triton.jit
def _sums(
    source, begin, end, col, value, r, live, source_row, k, K: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr
):
    """Of the places ``r`` of a plan, ``[ROWS, K]``."""
    channel = tl.arange(0, K)
    real = (channel < k)[None, :]
    first = tl.load(begin + r, mask=live, other=0)
    last = tl.load(end + r, mask=live, other=0)
    longest = tl.max(last - first, axis=0).to(tl.int32)
    y = tl.zeros([ROWS, K], tl.float32)
    for s in range(0, longest, UNROLL):
        for u in tl.static_range(UNROLL):
            entry = first + (s + u)
            there = entry < last
            j = tl.load(col + entry, mask=there, other=0).to(tl.int64)
            weight = tl.load(value + entry, mask=there, other=0.0)[:, None]
            at = (j * source_row)[:, None] + channel[None, :]
            y += weight * tl.load(source + at, mask=there[:, None] & real, other=0.0)
    return y


@triton.jit
def _added_pieces(pieces, apart, start, stop, k, K: tl.constexpr, ROWS: tl.constexpr, UNROLL: tl.constexpr):
    """The sum of the pieces ``start <= e < stop``, in a fixed order, ``[K]``."""
    channel = tl.arange(0, K)
    total = tl.zeros([ROWS, K], tl.float32)
    for first in range(start, stop, ROWS * UNROLL):
        for u in tl.static_range(UNROLL):
            piece = first + u * ROWS + tl.arange(0, ROWS)
            wanted = (piece < stop)[:, None] & (channel < k)[None, :]
            total += tl.load(pieces + (piece * apart)[:, None] + channel[None, :], mask=wanted, other=0.0)
    return tl.sum(total, axis=0)


@triton.jit(do_not_specialize=["num_rows", "num_blocks", "grams_trajectory"])
def gram_kernel(
    states,
    grams,
    gram,
    weight,
    status,
    rounding,
    unit,
    num_rows,
    num_blocks,
    row,
    trajectory,
    k,
    grams_trajectory,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    PARTS: tl.constexpr,
    L2: tl.constexpr,
    NORMALIZE: tl.constexpr,
):
    """Parts of the Gram matrix, ``grams`` ``[B, programs, K, K]``; only its diagonal for ``L2``. Grid: (programs, B).

    A program takes every G-th block of rows (of G programs), from the last on: those are still in the cache. If
    ``PARTS`` is not 0, the program that ends last does what :func:`sum_kernel` does, ``PARTS`` at a time.
    """
    b = tl.program_id(1).to(tl.int64)
    states += b * trajectory
    grams += b * grams_trajectory
    status += b * STATUS_LENGTH
    if L2:
        part = _squares(states, num_rows, num_blocks, row, k, K, ROWS)
    elif K < 64:
        part = _gram_in_float64(states, num_rows, num_blocks, row, k, K, ROWS)
    else:
        part = tl.zeros([K, K], tl.float64)
        if tl.load(status + SPLIT_SUM) > 0:
            part = _gram_of_parts(states, num_rows, num_blocks, row, k, K, ROWS)
        else:
            part = _gram_in_float64(states, num_rows, num_blocks, row, k, K, ROWS)
    channel = tl.arange(0, K)
    square = channel[:, None] * K + channel[None, :]
    tl.store(grams + tl.program_id(0) * (K * K) + square, part)
    if PARTS:
        if comes_last(status + ARRIVED):
            gram += b * (K * K)
            _add_parts(grams, gram, tl.arange(0, K * K), tl.num_programs(0), K, PARTS)
            tl.debug_barrier()
            use_gram(gram, weight + b * (K * K), status, rounding + b * (2 * K), unit, k, K, L2, NORMALIZE)


@triton.jit
def _squares(states, num_rows, num_blocks, row, k, K: tl.constexpr, ROWS: tl.constexpr):
    """The diagonal alone."""
    channel = tl.arange(0, K)
    squares = tl.zeros([ROWS, K], tl.float64)
    for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        wide = _rows(states, num_blocks - 1 - block, row, num_rows, k, K, ROWS).to(tl.float64)
        squares += wide * wide
    return tl.where(channel[:, None] == channel[None, :], tl.sum(squares, axis=0)[None, :], 0.0)


@triton.jit
def _gram_in_float64(states, num_rows, num_blocks, row, k, K: tl.constexpr, ROWS: tl.constexpr):
    gram = tl.zeros([K, K], tl.float64)
    for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        wide = _rows(states, num_blocks - 1 - block, row, num_rows, k, K, ROWS).to(tl.float64)
        gram += tl.dot(tl.trans(wide), wide, out_dtype=tl.float64)
    return gram


@triton.jit
def _gram_of_parts(states, num_rows, num_blocks, row, k, K: tl.constexpr, ROWS: tl.constexpr):
    r"""y is the sum of three bfloat16 numbers h + m + l, of which the products of two are summed in float32.

    :math:`y^\top y = h^\top h + m^\top m + c + c^\top`, :math:`c = h^\top m + h^\top l`, but for :math:`m^\top l` and
    :math:`l^\top l`, of :math:`2^{-24}`. Rounding errors cancel over the rows; but not on the diagonal, so that is
    summed apart.
    """
    channel = tl.arange(0, K)
    gram = tl.zeros([K, K], tl.float64)
    cross = tl.zeros([K, K], tl.float32)
    squares = tl.zeros([ROWS, K], tl.float32)
    for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        y = _rows(states, num_blocks - 1 - block, row, num_rows, k, K, ROWS)
        squares += y * y
        high, rest = _upper_half(y)
        middle, rest = _upper_half(rest)
        low, rest = _upper_half(rest)
        transposed = tl.trans(high)
        part = tl.dot(transposed, high, tl.dot(tl.trans(middle), middle))
        cross = tl.dot(transposed, low, tl.dot(transposed, middle, cross))
        gram += part.to(tl.float64)
    sides = cross.to(tl.float64)
    gram += sides + tl.trans(sides)
    diagonal = tl.sum(squares.to(tl.float64), axis=0)
    return tl.where(channel[:, None] == channel[None, :], diagonal[None, :], gram)


@triton.jit
def _upper_half(x):
    """float32 as bfloat16, cut off after 8 bits, and the rest."""
    bits = x.to(tl.int32, bitcast=True)
    upper = (bits >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    return upper, x - (bits & -65536).to(tl.float32, bitcast=True)


@triton.jit
def _rows(states, block, row, num_rows, k, K: tl.constexpr, ROWS: tl.constexpr):
    """``[ROWS, K]`` states of a block."""
    channel = tl.arange(0, K)
    i = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
    mask = (i < num_rows)[:, None] & (channel < k)[None, :]
    return tl.load(states + (i * row)[:, None] + channel[None, :], mask=mask, other=0.0)


@triton.jit(do_not_specialize=["num_parts", "grams_trajectory"])
def sum_kernel(
    grams,
    gram,
    weight,
    status,
    rounding,
    unit,
    num_parts,
    grams_trajectory,
    k,
    K: tl.constexpr,
    WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    L2: tl.constexpr,
    NORMALIZE: tl.constexpr,
):
    """Add the parts of the Gram matrix, ``PARTS`` at a time, and use their sum. Grid: (K * K / WORDS, B).

    What follows from the sum is the work of one program: of the one that ends last. On a small graph a launch of its
    own would take longer than that.
    """
    b = tl.program_id(1).to(tl.int64)
    gram += b * (K * K)
    status += b * STATUS_LENGTH
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    _add_parts(grams + b * grams_trajectory, gram, word, num_parts, K, PARTS)
    if comes_last(status + ARRIVED):
        use_gram(gram, weight + b * (K * K), status, rounding + b * (2 * K), unit, k, K, L2, NORMALIZE)


@triton.jit
def _add_parts(grams, gram, word, num_parts, K: tl.constexpr, PARTS: tl.constexpr):
    """Some words of the Gram matrix: the sums of those of its parts, in a fixed order."""
    total = tl.zeros(word.shape, tl.float64)
    for first in range(0, num_parts, PARTS):
        part = first + tl.arange(0, PARTS)[:, None]
        total += tl.sum(tl.load(grams + part * (K * K) + word[None, :], mask=part < num_parts, other=0.0), axis=0)
    tl.store(gram + word, total)


@triton.jit(do_not_specialize=["num_rows", "num_blocks"])
def apply_kernel(
    source,
    target,
    weight,
    status,
    num_rows,
    num_blocks,
    source_row,
    source_trajectory,
    target_row,
    target_trajectory,
    k,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    L2: tl.constexpr,
):
    """``target = source W``. Grid: (programs, B); a program takes every G-th block of rows, of G programs."""
    b = tl.program_id(1).to(tl.int64)
    source += b * source_trajectory
    target += b * target_trajectory
    weight += b * (K * K)
    if L2:
        length = tl.load(weight + tl.arange(0, K) * (K + 1))
        for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
            wide = _rows(source, block, source_row, num_rows, k, K, ROWS).to(tl.float64)
            _store_rows(target, (wide * length[None, :]).to(tl.float32), block, target_row, num_rows, k, K, ROWS)
    elif K < 64:
        for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
            _multiply_wide(source, target, weight, block, source_row, target_row, num_rows, k, K, ROWS)
    else:
        if tl.load(status + b * STATUS_LENGTH + SPLIT_PRODUCT) > 0:
            channel = tl.arange(0, K)
            w = tl.load(weight + channel[:, None] * K + channel[None, :]).to(tl.float32)
            for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
                y = _rows(source, block, source_row, num_rows, k, K, ROWS)
                q = tl.dot(y, w, input_precision="tf32x3")
                _store_rows(target, q, block, target_row, num_rows, k, K, ROWS)
        else:
            for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
                _multiply_wide(source, target, weight, block, source_row, target_row, num_rows, k, K, ROWS)


@triton.jit
def _store_rows(target, q, block, row, num_rows, k, K: tl.constexpr, ROWS: tl.constexpr):
    channel = tl.arange(0, K)
    i = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
    mask = (i < num_rows)[:, None] & (channel < k)[None, :]
    tl.store(target + (i * row)[:, None] + channel[None, :], q, mask=mask)


@triton.jit
def _multiply_wide(
    source, target, weight, block, source_row, target_row, num_rows, k, K: tl.constexpr, ROWS: tl.constexpr
):
    """A block in float64. W is upper triangular: of a wide one the quarter that is zero is spared."""
    H: tl.constexpr = K // 2 if K == 64 else K
    channel = tl.arange(0, H)
    square = channel[:, None] * K + channel[None, :]
    left = _rows(source, block, source_row, num_rows, tl.minimum(k, H), H, ROWS).to(tl.float64)
    q = tl.dot(left, tl.load(weight + square), out_dtype=tl.float64)
    _store_rows(target, q.to(tl.float32), block, target_row, num_rows, tl.minimum(k, H), H, ROWS)
    if H < K:
        right = _rows(source + H, block, source_row, num_rows, k - H, H, ROWS).to(tl.float64)
        q = tl.dot(left, tl.load(weight + square + H), out_dtype=tl.float64)
        q = tl.dot(right, tl.load(weight + square + H * K + H), q, out_dtype=tl.float64)
        _store_rows(target + H, q.to(tl.float32), block, target_row, num_rows, k - H, H, ROWS)
