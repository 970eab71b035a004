# mypy: ignore-errors
# ruff: noqa: RUF005, SIM102 (in Triton tuples grow by addition, and constant conditions stand alone)
r"""Triton: one step of a large graph in few passes over memory, and nothing that the host must wait for.

A step is ``product_kernel`` (:math:`y = S q`, and the Gram matrix of y while its rows are in registers), ``sum_kernel``
(the parts of the Gram matrix, in a fixed order), ``factor_kernel`` (:math:`W = R^{-1}`, in one program) and
``apply_kernel`` (:math:`q = y W`). If the factor reports ill-conditioning, the same from ``gram_kernel`` on is repeated on
q; if not, those programs return at once, so that the host need not know.

States are float32, Gram matrices, factors and the product :math:`y W` float64.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.triton_factor import inverse_factor, upper_word

# What the factor kernel leaves behind for each trajectory: whether the step at hand needs a second pass, and of all steps
# the number of dependent columns, whether a state was not finite, and the number of second passes.
STATUS_WORDS = 4
_WORDS = tl.constexpr(STATUS_WORDS)
_SECOND_PASS_ABOVE = tl.constexpr(1e9)


@triton.jit
def _add_to_gram(gram, y):  # [K, K] float64, [ROWS, K] float32
    wide = y.to(tl.float64)
    return gram + tl.dot(tl.trans(wide), wide, out_dtype=tl.float64)


@triton.jit(do_not_specialize=["num_rows", "num_blocks", "grams_trajectory"])
def product_kernel(
    source,
    target,
    row_of,
    begin,
    end,
    col,
    value,
    grams,
    num_rows,
    num_blocks,
    source_row,
    source_trajectory,
    target_row,
    target_trajectory,
    k,
    grams_trajectory,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    UNROLL: tl.constexpr,
    INDIRECT: tl.constexpr,
    UNIT: tl.constexpr,
    GRAM: tl.constexpr,
):
    """``target[i] = sum of value[e] source[col[e]]`` over the entries ``begin[i] <= e < end[i]``, and its Gram matrix.

    Grid: (programs, B); a program takes every so-manieth block of rows. Rows of a block should be of similar length.

    Args:
        source, target: State rows at ``i * row + b * trajectory``.
        row_of: The row numbers i in the order they are taken, if ``INDIRECT``; else they are taken as they come.
        col, value: Entries; not read if ``UNIT``, which sums the source rows e themselves and takes ``begin`` and ``end``
            in the order of ``row_of``.
        grams: ``[B, programs, K, K]`` float64, written if ``GRAM``.
        UNROLL: Entries of a row asked for at a time.
    """
    b = tl.program_id(1).to(tl.int64)
    source += b * source_trajectory
    target += b * target_trajectory
    channel = tl.arange(0, K)
    real = channel < k
    gram = tl.zeros([K, K], tl.float64)
    for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        place = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        live = place < num_rows
        i = tl.load(row_of + place, mask=live, other=0).to(tl.int64) if INDIRECT else place
        first = tl.load(begin + (place if UNIT else i), mask=live, other=0)
        last = tl.load(end + (place if UNIT else i), mask=live, other=0)
        longest = tl.max(last - first, axis=0).to(tl.int32)
        y = tl.zeros([ROWS, K], tl.float32)
        for s in range(0, longest, UNROLL):
            for u in tl.static_range(UNROLL):
                entry = first + (s + u)
                there = entry < last
                if UNIT:
                    j = entry.to(tl.int64)
                    weight = 1.0
                else:
                    j = tl.load(col + entry, mask=there, other=0).to(tl.int64)
                    weight = tl.load(value + entry, mask=there, other=0.0)[:, None]
                at = (j * source_row)[:, None] + channel[None, :]
                y += weight * tl.load(source + at, mask=there[:, None] & real[None, :], other=0.0)
        at_target = (i * target_row)[:, None] + channel[None, :]
        tl.store(target + at_target, y, mask=live[:, None] & real[None, :])
        if GRAM:
            gram = _add_to_gram(gram, y)
    if GRAM:
        square = channel[:, None] * K + channel[None, :]
        tl.store(grams + b * grams_trajectory + tl.program_id(0) * (K * K) + square, gram)


@triton.jit(do_not_specialize=["num_rows", "num_blocks", "grams_trajectory"])
def gram_kernel(
    states,
    grams,
    status,
    num_rows,
    num_blocks,
    row,
    trajectory,
    k,
    grams_trajectory,
    K: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The Gram matrix of states that are there already, where ``status`` wants a second pass. Grid: (programs, B)."""
    b = tl.program_id(1).to(tl.int64)
    if tl.load(status + b * _WORDS) == 0:
        return
    states += b * trajectory
    channel = tl.arange(0, K)
    gram = tl.zeros([K, K], tl.float64)
    for block in range(tl.program_id(0), num_blocks, tl.num_programs(0)):
        i = block * ROWS + tl.arange(0, ROWS).to(tl.int64)
        mask = (i < num_rows)[:, None] & (channel < k)[None, :]
        gram = _add_to_gram(gram, tl.load(states + (i * row)[:, None] + channel[None, :], mask=mask, other=0.0))
    square = channel[:, None] * K + channel[None, :]
    tl.store(grams + b * grams_trajectory + tl.program_id(0) * (K * K) + square, gram)


@triton.jit(do_not_specialize=["num_parts", "grams_trajectory"])
def sum_kernel(
    grams, gram, status, num_parts, grams_trajectory, K: tl.constexpr, WORDS: tl.constexpr, AGAIN: tl.constexpr
):
    """Add the parts of the Gram matrix in their order. Grid: (K * K / WORDS, B)."""
    b = tl.program_id(1).to(tl.int64)
    if AGAIN:
        if tl.load(status + b * _WORDS) == 0:
            return
    word = tl.program_id(0) * WORDS + tl.arange(0, WORDS)
    total = tl.zeros([WORDS], tl.float64)
    for part in range(num_parts):
        total += tl.load(grams + b * grams_trajectory + part * (K * K) + word)
    tl.store(gram + b * (K * K) + word, total)


@triton.jit
def factor_kernel(gram, weight, status, k, K: tl.constexpr, L2: tl.constexpr, AGAIN: tl.constexpr):
    r"""``weight`` W with :math:`q = y W`, by panels of 16 columns. Grid: (B,).

    A panel's columns in the basis of y, :math:`V = E_c - W W^\top G E_c`, are freed of the columns before it; the inverse
    factor of :math:`V^\top G V` makes them orthonormal. For ``L2`` W only scales the columns to length 1.
    """
    b = tl.program_id(0).to(tl.int64)
    status += b * _WORDS
    if AGAIN:
        if tl.load(status) == 0:
            return
    gram += b * (K * K)
    weight += b * (K * K)
    channel = tl.arange(0, K)
    narrow = tl.arange(0, 16)
    square = channel[:, None] * K + channel[None, :]
    g = tl.load(gram + square)
    diagonal = tl.where(channel[:, None] == channel[None, :], g, 0.0)
    squares = tl.sum(diagonal, axis=0)
    scale = tl.max(upper_word(squares), axis=0)
    if L2:
        length = tl.where(squares > 0, 1.0 / tl.sqrt(tl.where(squares > 0, squares, 1.0)), 0.0)
        tl.store(weight + square, tl.where(channel[:, None] == channel[None, :], length[None, :], 0.0))
        dropped = 0
        ill = 0
    else:
        tl.store(weight + square, tl.zeros([K, K], tl.float64))
        kept = tl.zeros([32], tl.int32)
        norms = tl.zeros([16], tl.float64)
        for c in range(0, K, 16):
            at = channel[:, None] * K + (c + narrow)[None, :]
            v = tl.where(channel[:, None] == (c + narrow)[None, :], 1.0, 0.0).to(tl.float64)
            tl.debug_barrier()  # the columns stored by the panel before are read by all threads
            before = tl.load(weight + square)
            against = tl.dot(tl.trans(before), tl.load(gram + at), out_dtype=tl.float64)
            v -= tl.dot(before, against, out_dtype=tl.float64)
            small = tl.dot(tl.trans(v), tl.dot(g, v, out_dtype=tl.float64), out_dtype=tl.float64)
            w, _, rows = inverse_factor(small, scale, False)
            columns = tl.dot(v, tl.trans(w), out_dtype=tl.float64)
            tl.store(weight + at, columns)
            kept += rows
            norms += tl.sum(columns * columns, axis=0)
        dropped = k - tl.sum(tl.where(tl.arange(0, 32) % 16 == 0, kept, 0), axis=0)
        ill = (tl.sum(norms, axis=0) * tl.sum(squares, axis=0) > _SECOND_PASS_ABOVE).to(tl.int32)
    if not AGAIN:
        tl.store(status, ill)
        tl.store(status + 3, tl.load(status + 3) + ill)
        tl.store(status + 1, tl.load(status + 1) + dropped)
        tl.store(status + 2, tl.load(status + 2) | (scale >= 0x7FF00000).to(tl.int32))


@triton.jit(do_not_specialize=["num_rows"])
def apply_kernel(
    source,
    target,
    weight,
    status,
    num_rows,
    source_row,
    source_trajectory,
    target_row,
    target_trajectory,
    k,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    AGAIN: tl.constexpr,
):
    """``target = source W``, row block by row block; in place if they are the same. Grid: (row blocks, B)."""
    b = tl.program_id(1).to(tl.int64)
    if AGAIN:
        if tl.load(status + b * _WORDS) == 0:
            return
    channel = tl.arange(0, K)
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    mask = (i < num_rows)[:, None] & (channel < k)[None, :]
    y = tl.load(source + b * source_trajectory + (i * source_row)[:, None] + channel[None, :], mask=mask, other=0.0)
    w = tl.load(weight + b * (K * K) + channel[:, None] * K + channel[None, :])
    q = tl.dot(y.to(tl.float64), w, out_dtype=tl.float64).to(tl.float32)
    tl.store(target + b * target_trajectory + (i * target_row)[:, None] + channel[None, :], q, mask=mask)
