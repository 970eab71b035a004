# mypy: ignore-errors
r"""Triton: the inverse Cholesky factor of a 16 x 16 Gram matrix in the registers of one warp, in float64.

For :math:`G = y^\top y = R^\top R` it finds :math:`W = R^{-1}`, so that :math:`q = y W` has orthonormal columns and
:math:`R_{jj} > 0`: the Q of :func:`rfp.normalization.qr`, with the same rule for dependent columns. Gauss elimination
of :math:`[G \mid I]` gives :math:`[D L^\top \mid L^{-1}]`, and :math:`W^\top = D^{-1/2} L^{-1}`; :math:`L^{-1}` grows
where :math:`G` is eliminated, so the matrix is overwritten in place. The multipliers of the elimination are
:math:`R_{ji} / R_{jj}`, by which rounding is amplified (:func:`rfp.rounding.amplification`):
:math:`\alpha_i^2 = 1 + \sum_{j<i} (R_{ji} / R_{jj})^2 \alpha_j^2`.

A Gram matrix squares the condition number. In float64, of float32 data, the orthogonality error of one pass is about
:math:`10^{-16} \kappa^2`, and so is the error of a pivot by which a dependent column is told. The function reports when
that may matter, and the caller takes :func:`gram_schmidt_in_memory`, which never forms the Gram matrix.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from rfp.normalization import dependence_tolerance

# The state is float32, whatever the Gram matrix is computed in.
TOLERANCE_SQUARED = tl.constexpr(dependence_tolerance(torch.float32) ** 2)
# Where one pass is not trusted. The rounding of the Gram matrix enters a pivot times the squared coefficients that make
# its column orthogonal: it must leave kept columns orthonormal to 10^-6, and dropped ones below the tolerance beyond
# doubt. The bounds are upper words of float64: of 1000, for W of columns of length about 1, and of 8, for L^-1.
_KEPT_LIMIT = tl.constexpr(0x408F4000)
_DROPPED_LIMIT = tl.constexpr(0x40200000)
# 896 = 1023 - 127 is the difference of the exponent biases of float64 and float32.
_BIAS = tl.constexpr(896 << 20)
_BIAS_TIMES_8 = tl.constexpr(1 << 30)  # -(896 << 23) modulo 2^32


@triton.jit
def upper_word(x):
    """The upper 32 bits of float64: they order like the number, if it is not negative, and differ from it by 10^-6."""
    return (x.to(tl.int64, bitcast=True) >> 32).to(tl.int32)


@triton.jit
def magnitude(x):
    """The upper word without its sign: NaN, which is negative by default on some processors, is above all numbers."""
    return upper_word(x) & 0x7FFFFFFF


@triton.jit
def rsqrt_guess(word):
    """:math:`x^{-1/2}` to 20 bits of a float64 number 2^-100 < x < 2^100, given its upper word, in float32.

    The word is moved between the types with integer arithmetic: conversion instructions run at an eighth of its rate.
    """
    return tl.rsqrt((word * 8 + _BIAS_TIMES_8).to(tl.float32, bitcast=True))


@triton.jit
def widened(x, live, exponent):
    """A positive float32 number as float64, less its last three bits, times a power of two, which is given by what it
    adds to the upper word; zero where not ``live``.
    """
    word = tl.where(live, (x.to(tl.int32, bitcast=True) >> 3) + _BIAS + exponent, 0)
    return (word.to(tl.int64) << 32).to(tl.float64, bitcast=True)


@triton.jit
def _scaled_rows(gram, scale):
    """The matrix as 8 rows of the warp, times a power of two; the root of the power, and the power.

    It is even, so that the largest entry lies in [1/2, 2) and the guesses stay in range. Its root must exist in
    float32, for y to be multiplied with it: at most 2^126.
    """
    lane = tl.arange(0, 32)
    place = tl.arange(0, 8)[:, None]
    # This gather moves nothing. It ends the matrix unit's layout, which the compiler would carry through what follows.
    tile = tl.gather(tl.reshape(gram, [8, 32]), tl.broadcast_to(lane[None, :], [8, 32]), axis=1)
    exponent = tl.minimum(1534 - (scale >> 21), 1149)
    root = (exponent.to(tl.int64) << 52).to(tl.float64, bitcast=True)
    root = tl.where(scale >= 0x7FF00000, float("nan"), root)  # an infinite state makes the whole result NaN, not zero
    unit = root * root
    g = ()
    for i in tl.static_range(8):
        g = g + (tl.sum(tl.where(place == i, tile, 0.0), axis=0) * unit,)
    return g, root, unit


@triton.jit
def _eliminated(g, scaled, half, j: tl.constexpr):
    """The rows below pivot j less their multiples of its row; those up to it stay.

    The multiplier G_ij is G_ji, of the pivot's row, which spares waiting for the update of row i before.
    """
    new = ()
    for i in tl.static_range(8):
        if 2 * i + 1 <= j:
            new = new + (g[i],)
        else:
            update = g[i] - tl.gather(g[j // 2], j % 2 * 16 + 2 * i + half, axis=0) * scaled
            if 2 * i == j:
                update = tl.where(half == 1, update, g[i])
            new = new + (update,)
    return new


@triton.jit
def _finished_rows(source, pivot, limit, half, column, j: tl.constexpr):
    """Rows j - 1 and j of W^T = D^-1/2 L^-1; which of them are kept; and how much a dropped one is in doubt."""
    quarter = _DROPPED_LIMIT - limit + (2 << 20)  # takes a quarter of the limit to that of the doubt
    kept = upper_word(pivot) > limit
    line = tl.where(column < j - 1 + half, source, tl.where(column == j - 1 + half, 1.0, 0.0))
    doubt = tl.maximum(upper_word(line) & 0x7FFFFFFF, upper_word(pivot) + quarter)
    length = widened(rsqrt_guess(upper_word(pivot)), kept, 0)
    error = 1.0 - pivot * length * length
    line *= length + length * (error * (0.5 + 0.375 * error))
    return line, kept, tl.where(kept, 0, doubt)


@triton.jit
def inverse_factor(gram, scale, noise_squared, alpha_squared):
    r"""Factorise one matrix.

    A lane of the warp holds one column of 8 rows: the even rows lie in the lower half of the warp, the odd rows in the
    upper half. Row operations then are local to a lane, but for the broadcast of the multipliers along a row.

    Args:
        gram: ``[16, 16]`` float64.
        scale: Upper word of the largest squared column norm of the whole state, against which a residual is judged.
        noise_squared: What rounding may have added to a column of the state, squared (:mod:`rfp.rounding`).
        alpha_squared: ``[16]`` float64, its amplification by the panels before: ones for the first.

    Returns:
        :math:`W^\top / s` ``[16, 16]`` float64, with zero rows for dependent columns; the power of two s, float32,
        with which y is to be multiplied; 1 if the result is not to be trusted, else 0; the number of columns kept;
        :math:`z_j^2 = \alpha_j^2 / R_{jj}^2`, ``[16]`` float64, zero for the others.
    """
    lane = tl.arange(0, 32)
    half = lane // 16
    column = lane % 16
    place = tl.arange(0, 8)[:, None]

    g, root, unit = _scaled_rows(gram, scale)
    alpha = tl.gather(alpha_squared, column, axis=0)

    largest_norm = (scale.to(tl.int64) << 32).to(tl.float64, bitcast=True)
    threshold = upper_word(largest_norm * unit * TOLERANCE_SQUARED)
    noise = noise_squared * unit

    w = tl.zeros([8, 32], tl.float64)
    even_pivot = tl.zeros([32], tl.float64)
    even_limit = tl.zeros([32], tl.int32)
    z_squared = tl.zeros([32], tl.float64)
    kept_rows = tl.zeros([32], tl.int32)
    largest = tl.zeros([32], tl.int32)
    unsure = tl.zeros([32], tl.int32)
    for j in tl.static_range(16):
        source = g[j // 2]
        pivot = tl.gather(source, tl.full([32], j % 2 * 16 + j, tl.int32), axis=0)
        pivot_row = tl.gather(source, j % 2 * 16 + column, axis=0)
        own_alpha = tl.gather(alpha, tl.full([32], j, tl.int32), axis=0)
        limit = tl.maximum(threshold, upper_word(noise * own_alpha))
        guess = rsqrt_guess(upper_word(pivot))
        # One step of third order takes the guess of 1 / pivot to the last bit.
        inverse = widened(guess * guess, upper_word(pivot) > limit, 0)
        error = 1.0 - pivot * inverse
        inverse += inverse * (error + error * error)
        multiplier = tl.where(column > j, inverse * pivot_row, 0.0)
        alpha += multiplier * multiplier * own_alpha
        z_squared = tl.where(column == j, own_alpha * inverse, z_squared)
        # In column j the entry becomes -G_ij / pivot, the new entry of L^-1: G_ij - G_ij (1 + 1 / pivot).
        scaled = tl.where(column == j, inverse + 1.0, inverse * pivot_row)
        g = _eliminated(g, scaled, half, j)
        if j % 2 == 0:
            even_pivot, even_limit = pivot, limit
        else:
            own, own_limit = tl.where(half == 1, pivot, even_pivot), tl.where(half == 1, limit, even_limit)
            line, kept, doubt = _finished_rows(source, own, own_limit, half, column, j)
            kept_rows += kept.to(tl.int32)
            unsure = tl.maximum(unsure, doubt)
            largest = tl.maximum(largest, upper_word(line) & 0x7FFFFFFF)
            w = tl.where(place == j // 2, line[None, :], w)
    ill = tl.max(((unsure > _DROPPED_LIMIT) | (largest > _KEPT_LIMIT)).to(tl.int32), axis=0)
    kept_columns = tl.sum(tl.where(column == 0, kept_rows, 0), axis=0)
    z_squared = tl.gather(z_squared * unit, tl.arange(0, 16), axis=0)
    return tl.reshape(w, [16, 16]), root.to(tl.float32), ill, kept_columns, z_squared


@triton.jit
def gram_schmidt_in_memory(rows, real, first, last, scale, noise_squared, z_squared, WIDTH: tl.constexpr):
    """Classical Gram-Schmidt run twice, column by column in float64: slow, and accurate at any condition number.

    It works in memory, where it takes no registers from the fast path beside it.

    Args:
        rows: ``[N]`` pointers to the state of each node; the columns before ``first`` are orthonormal or zero, those
            from ``first`` to ``last - 1``, at most 16, are to become so.
        real: ``[N]`` mask of the nodes.
        scale: Upper word of the largest squared column norm of the state.
        noise_squared: What rounding may have added to a column of the state, squared.
        z_squared: ``[WIDTH]`` float64, by what that is amplified in the columns before ``first``
            (:func:`rfp.rounding.amplification`).

    Returns:
        The number of columns kept, the others are set to zero, or all to NaN if the state is not finite; and
        ``z_squared`` with those of the columns kept.
    """
    finite = scale < 0x7FF00000
    column = tl.arange(0, WIDTH)
    threshold = TOLERANCE_SQUARED * (scale.to(tl.int64) << 32).to(tl.float64, bitcast=True)
    channel = tl.arange(0, 16)[:, None]
    kept = 0
    for j in range(first, last):
        v = tl.load(rows + j, mask=real, other=0.0).to(tl.float64)
        alpha_squared = tl.full([], 1.0, tl.float64)
        for turn in range(2):  # twice is enough
            for panel in range(0, j, 16):
                before = real[None, :] & (panel + channel < j)
                q = tl.load(rows[None, :] + panel + channel, mask=before, other=0.0).to(tl.float64)
                along = tl.sum(q * v[None, :], axis=1)
                v -= tl.sum(q * along[:, None], axis=0)
                if turn == 0:  # what the second turn finds is rounding
                    alpha_squared += tl.sum(along * along * tl.gather(z_squared, panel + tl.arange(0, 16), axis=0))
        squared = tl.sum(v * v, axis=0)
        good = squared > tl.maximum(threshold, noise_squared * alpha_squared)
        own = tl.where(good, squared, 1.0)
        z_squared = tl.where(column == j, tl.where(good, alpha_squared / own, 0.0), z_squared)
        v = tl.where(finite, tl.where(good, v / tl.sqrt(own), 0.0), float("nan"))
        tl.store(rows + j, v.to(tl.float32), mask=real)
        tl.debug_barrier()  # other threads read the column next
        kept += good.to(tl.int32)
    return kept, z_squared
