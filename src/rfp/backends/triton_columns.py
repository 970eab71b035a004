# mypy: ignore-errors
r"""Triton: QR of 16 columns of at most 64 rows in the registers of one warp, one or two rows a lane.

Gauss elimination of the float64 Gram matrix :math:`G = y^\top y` gives the multipliers that make each column orthogonal
to those before it, and the same multipliers are applied to the columns themselves as they appear: forward substitution
:math:`q = y R^{-1}`, without forming the inverse (:mod:`rfp.backends.triton_factor` does, for wider states). Every lane
holds a column of G and a row of y, so that one broadcast of a multiplier serves both.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.triton_factor import TOLERANCE_SQUARED, rsqrt_guess, upper_word, widened

# Exponents above that of the tolerance (1e-10 of the largest squared norm) below which the smallest pivot kept makes a
# pass untrusted: 2^13 for the columns to be orthonormal to 1e-6, 2^17 where a column was dropped, since rounding of G
# over a small pivot must stay far below the tolerance. A dropped pivot is to be below a sixteenth of it.
_KEPT = tl.constexpr(13 << 20)
_DROPPED = tl.constexpr(17 << 20)
_SIXTEENTH = tl.constexpr(4 << 20)


@triton.jit
def _line(tile, i: tl.constexpr, ROWS: tl.constexpr):
    """Row i of a float64 tile; as integers, for which adding zeros is nothing."""
    place = tl.arange(0, ROWS)[:, None]
    return tl.sum(tl.where(place == i, tile.to(tl.int64, bitcast=True), 0), axis=0).to(tl.float64, bitcast=True)


@triton.jit
def _spread(x, N: tl.constexpr):
    """``[32]``, the same in all lanes, as ``[N]``."""
    return x if N == 32 else tl.gather(x, tl.full([N], 0, tl.int32), axis=0)


@triton.jit
def orthonormalize_columns(y, N: tl.constexpr):
    r"""QR of ``y`` ``[16, N]`` float32, a channel a row; N is 32 or 64.

    Returns:
        ``[16, N]`` float32, zero where a column is dependent; ``[32]`` the number of kept columns, in every lane; the
        upper word of the largest squared column norm; whether the result is not to be trusted, as 0 or 1.
    """
    lane = tl.arange(0, 32)
    column = lane % 16
    place = tl.arange(0, 16)[:, None]
    wide = y.to(tl.float64)
    gram = tl.dot(wide, tl.trans(wide), out_dtype=tl.float64)
    # Each half of the warp holds all columns. Splitting even from odd rows ends the layout of the matrix unit, in which
    # they lie in different lanes and which the compiler would carry through all that follows.
    twice = tl.reshape(tl.broadcast_to(gram[:, None, :], [16, 2, 16]), [8, 2, 32])
    even, odd = tl.split(tl.permute(twice, 0, 2, 1))
    g = ()
    a = ()
    scales = tl.zeros([32], tl.int32)
    for i in tl.static_range(16):
        g = g + (_line(odd if i % 2 else even, i // 2, 8),)
        a = a + (_line(wide, i, 16),)
        scales = tl.maximum(scales, tl.where(column == i, upper_word(g[i]), 0))
    scale = tl.max(scales, axis=0)
    threshold = upper_word((scale.to(tl.int64) << 32).to(tl.float64, bitcast=True) * TOLERANCE_SQUARED)
    # The guesses are made of numbers near 1, moved there by an even power of two in the exponent.
    half = 511 - (scale >> 21)
    one = tl.where(scale >= 0x7FF00000, float("nan"), 1.0).to(tl.float64)  # an infinite state makes the result NaN

    result = tl.zeros([16, N], tl.float32)
    kept_columns = tl.zeros([32], tl.int32)
    smallest = tl.full([32], 0x7FF00000, tl.int32)
    largest_dropped = tl.zeros([32], tl.int32)
    for j in tl.static_range(16):
        row = g[j]
        pivot = tl.gather(row, tl.full([32], j, tl.int32), axis=0)
        word = upper_word(pivot)
        kept = word > threshold
        kept_columns += kept.to(tl.int32)
        smallest = tl.minimum(smallest, tl.where(kept, word, 0x7FF00000))
        largest_dropped = tl.maximum(largest_dropped, tl.where(kept, 0, word & 0x7FFFFFFF))

        guess = rsqrt_guess(word + (half << 21))
        # One step of third order takes the guess of 1 / pivot to the last bit, one of second order suffices for q.
        inverse = widened(guess * guess, kept, half << 21)
        error = 1.0 - pivot * inverse
        inverse += inverse * (error + error * error)
        length = widened(guess, kept, half << 20)
        length += 0.5 * length * (one - pivot * length * length)

        done = a[j]
        result = tl.where(place == j, (done * _spread(length, N)).to(tl.float32)[None, :], result)
        multiplier = row * inverse
        new_g = ()
        new_a = ()
        for i in tl.static_range(16):
            if i <= j:
                new_g = new_g + (g[i],)
                new_a = new_a + (a[i],)
            else:
                factor = tl.gather(multiplier, tl.full([32], i, tl.int32), axis=0)
                new_g = new_g + (g[i] - factor * row,)
                new_a = new_a + (a[i] - _spread(factor, N) * done,)
        g = new_g
        a = new_a
    doubt = (smallest < threshold + _KEPT) | (largest_dropped > threshold - _SIXTEENTH)
    doubt |= (largest_dropped > 0) & (smallest < threshold + _DROPPED)
    return result, kept_columns, scale, tl.max(doubt.to(tl.int32), axis=0)
