# mypy: ignore-errors

r"""Triton: the inverse Cholesky factors of 16 x 16 Gram matrices in the registers of one warp, in float64.

For :math:`G = y^\top y = R^\top R` it finds :math:`W = R^{-1}`, so that :math:`q = y W` has orthonormal columns and
:math:`R_{jj} > 0`: the Q of :func:`rfp.normalization.qr`, with the same rule for dependent columns. Gauss elimination
of :math:`[G \mid I]` gives :math:`[D L^\top \mid L^{-1}]`, and :math:`W^\top = D^{-1/2} L^{-1}`; :math:`L^{-1}` grows
where :math:`G` is eliminated, so the matrix is overwritten in place.

A Gram matrix squares the condition number. In float64, of float32 data, the orthogonality error of one pass is about
:math:`10^{-16} \kappa^2`, and so is the error of a pivot by which a dependent column is told. The function reports when
that may matter, and the caller takes :func:`gram_schmidt`, which never forms the Gram matrix.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from rfp.normalization import dependence_tolerance

# The state is float32, whatever the Gram matrix is computed in.
_TOLERANCE_SQUARED = tl.constexpr(dependence_tolerance(torch.float32) ** 2)
# Where one pass is not trusted. The rounding of the Gram matrix enters a pivot times the squared coefficients that
# make its column orthogonal: it must leave kept columns orthonormal to 10^-6, and dropped ones below the tolerance
# beyond doubt.
_KEPT_LIMIT = tl.constexpr(1e9)
_PIVOT_NOISE = tl.constexpr(1e-14)
# 896 = 1023 - 127 is the difference of the exponent biases of float64 and float32.
_BIAS = tl.constexpr(896 << 20)
_BIAS_TIMES_8 = tl.constexpr(1 << 30)  # -(896 << 23) modulo 2^32


@triton.jit
def upper_word(x):
    """The upper 32 bits of float64: they order like the number, if it is not negative, and differ from it by 10^-6."""
    return (x.to(tl.int64, bitcast=True) >> 32).to(tl.int32)


@triton.jit
def _rsqrt_guess(x):
    """:math:`x^{-1/2}` to 20 bits for 2^-100 < x < 2^100, in float32.

    The word is moved between the types with integer arithmetic: conversion instructions run at an eighth of its rate.
    """
    return tl.rsqrt((upper_word(x) * 8 + _BIAS_TIMES_8).to(tl.float32, bitcast=True))


@triton.jit
def _widened(x, live):
    """A positive float32 number as float64, less its last three bits; zero where not ``live``."""
    word = tl.where(live, (x.to(tl.int32, bitcast=True) >> 3) + _BIAS, 0)
    return (word.to(tl.int64) << 32).to(tl.float64, bitcast=True)


@triton.jit
def _of_lane(values, lane: tl.constexpr):  # [32] -> scalar
    return tl.sum(tl.where(tl.arange(0, 32) == lane, values, 0), axis=0)


@triton.jit
def inverse_factors(first, second, first_scale, second_scale, OWN_SCALE: tl.constexpr):
    r"""Factorise two matrices at once, one in each half of the warp: a lane holds a column of all 16 rows.

    Row operations then are local to a lane, but for the broadcast of the multipliers along a row.

    Args:
        first, second: ``[16, 16]`` float64.
        first_scale, second_scale: Upper words of the largest squared column norms of the whole states, against which a
            residual is judged; not read if ``OWN_SCALE``.
        OWN_SCALE: Take the scales from the diagonals of the matrices.

    Returns:
        For each matrix a tuple: :math:`W^\top / s` ``[16, 16]`` float64, with zero rows for dependent columns; the
        power of two s, float32, with which y is to be multiplied; the scale; 1 if the result is not to be trusted,
        else 0; the number of kept columns.
    """
    lane = tl.arange(0, 32)
    half = lane // 16
    column = lane % 16
    place = tl.arange(0, 16)[:, None]

    tile = tl.reshape(tl.permute(tl.join(first, second), 0, 2, 1), [16, 32])
    # This gather moves nothing. It ends the layout of the matrix unit, which the compiler would carry through the rest.
    tile = tl.gather(tile, tl.broadcast_to(lane[None, :], [16, 32]), axis=1)
    g = ()
    scales = tl.zeros([32], tl.int32)
    for i in tl.static_range(16):
        line = tl.sum(tl.where(place == i, tile, 0.0), axis=0)
        g = g + (line,)
        scales = tl.maximum(scales, tl.where(column == i, upper_word(line), 0))
    if OWN_SCALE:
        scales = tl.broadcast_to(tl.max(tl.reshape(scales, [2, 16]), axis=1)[:, None], [2, 16])
        scales = tl.reshape(scales, [32])
    else:
        scales = tl.where(half == 0, first_scale, second_scale)

    # Scale by an even power of two, so that the largest entry lies in [1/2, 2) and the guesses stay in range. The root
    # of the power must exist in float32, for y to be multiplied with it: at most 2^126.
    exponent = tl.minimum(1534 - (scales >> 21), 1149)
    root = (exponent.to(tl.int64) << 52).to(tl.float64, bitcast=True)
    root = tl.where(scales >= 0x7FF00000, float("nan"), root)  # an infinite state makes the result NaN, not zero
    unit = root * root
    threshold = _TOLERANCE_SQUARED * ((scales.to(tl.int64) << 32).to(tl.float64, bitcast=True) * unit)
    new = ()
    for i in tl.static_range(16):
        new = new + (g[i] * unit,)
    g = new

    w = tl.zeros([16, 32], tl.float64)
    squares = tl.zeros([32], tl.float64)
    kept_rows = tl.zeros([32], tl.int32)
    unsure = tl.zeros([32], tl.int32)
    for j in tl.static_range(16):
        row = g[j]
        pivot = tl.gather(row, half * 16 + j, axis=0)
        kept = pivot > threshold
        guess = _rsqrt_guess(pivot)

        # 1 / pivot: one step of third order takes the guess to the last bit.
        inverse = _widened(guess * guess, kept)
        error = 1.0 - pivot * inverse
        inverse += inverse * (error + error * error)
        # In column j the entry becomes -G_ij / pivot, the new entry of L^-1: G_ij - G_ij (1 + 1 / pivot). The
        # multiplier G_ij is taken as G_ji from the pivot's row, which spares waiting for the update of row i before.
        scaled = tl.where(column == j, inverse + 1.0, inverse * row)
        new = ()
        for i in tl.static_range(16):
            if i <= j:
                new = new + (g[i],)
            else:
                new = new + (g[i] - tl.gather(row, half * 16 + i, axis=0) * scaled,)
        g = new

        # Row j is done: W^T = D^-1/2 L^-1, and pivot^-1/2 from the same guess.
        line = tl.where(column < j, row, tl.where(column == j, 1.0, 0.0))
        unsure |= ((pivot + line * line * _PIVOT_NOISE > threshold) & (pivot <= threshold)).to(tl.int32)
        kept_rows += kept.to(tl.int32)
        length = _widened(guess, kept)
        error = 1.0 - pivot * length * length
        line *= length + length * (error * (0.5 + 0.375 * error))
        squares += line * line
        w = tl.where(place == j, line[None, :], w)
    # ||W||² is at most 16 times the largest part a lane holds, ||G|| at most its trace 16 * 2: κ² is below the product.
    unsure |= (squares * 512.0 > _KEPT_LIMIT).to(tl.int32)
    ill = tl.reshape(tl.broadcast_to(tl.max(tl.reshape(unsure, [2, 16]), axis=1)[:, None], [2, 16]), [32])

    first_w, second_w = tl.split(tl.permute(tl.reshape(w, [16, 2, 16]), 0, 2, 1))
    roots = root.to(tl.float32)
    one = (first_w, _of_lane(roots, 0), _of_lane(scales, 0), _of_lane(ill, 0), _of_lane(kept_rows, 0))
    two = (second_w, _of_lane(roots, 16), _of_lane(scales, 16), _of_lane(ill, 16), _of_lane(kept_rows, 16))
    return one, two


@triton.jit
def gram_schmidt(y, before, scale, N: tl.constexpr):
    """Classical Gram-Schmidt run twice, column by column in float64: slow, and accurate at any condition number.

    Args:
        y: ``[16, N]`` float32, a channel a row.
        before: Orthonormal panels ``[16, N]`` float32 to project against first.
        scale: Upper word of the largest squared column norm of the state.

    Returns:
        ``[16, N]`` float32, zero where a column is dependent, and the number of kept columns.
    """
    channel = tl.arange(0, 16)[:, None]
    wide = y.to(tl.float64)
    threshold = _TOLERANCE_SQUARED * (scale.to(tl.int64) << 32).to(tl.float64, bitcast=True)
    done = tl.zeros([16, N], tl.float64)
    count = 0
    for j in range(16):
        v = tl.sum(tl.where(channel == j, wide, 0.0), axis=0)[None, :]
        for _ in range(2):  # twice is enough
            for d in tl.static_range(len(before)):
                q = before[d].to(tl.float64)
                v -= tl.sum(tl.sum(q * v, axis=1)[:, None] * q, axis=0)[None, :]
            v -= tl.sum(tl.sum(done * v, axis=1)[:, None] * done, axis=0)[None, :]
        squared = tl.sum(tl.sum(v * v, axis=1), axis=0)
        if squared > threshold:
            done = tl.where(channel == j, v / tl.sqrt(squared), done)
            count += 1
    return done.to(tl.float32), count
