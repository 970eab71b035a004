# mypy: ignore-errors
r"""Triton: QR of 16 columns of at most 64 rows by one warp, on the float64 matrix unit.

Cholesky QR in two blocks of 8 columns, :math:`y = [y_1, y_2]`, of the Gram matrix :math:`G = y^\top y`:

.. math:: W_1 = R_{11}^{-1}, \quad C = W_1^\top G_{12}, \quad R_{22}^\top R_{22} = G_{22} - C^\top C, \quad
    q_1 = y_1 W_1, \quad q_2 = (y_2 - q_1 C) R_{22}^{-1}.

All products are of 8 x 4 by 4 x 8 matrices, one instruction each. In all of them lane :math:`4 c + d` holds row c (or,
of the right factor, column c) at place d of the four; of the result, row c at columns 2d and 2d + 1. The order of the
summed index is free, so a result serves as the next factor where it lies, and only two 8 x 8 factorisations exchange
numbers between lanes.
"""

from __future__ import annotations

import triton
import triton.language as tl

from rfp.backends.fused.triton_factor import TOLERANCE_SQUARED, magnitude, upper_word

# Exponents above that of the tolerance (1e-10 of the largest squared norm) below which the smallest pivot kept makes a
# pass untrusted: 2^13 for the columns to be orthonormal to 1e-6, 2^17 where a column was dropped, since rounding of G
# over a small pivot must stay far below the tolerance. A dropped pivot is to be below a sixteenth of it.
_KEPT = tl.constexpr(13 << 20)
_DROPPED = tl.constexpr(17 << 20)
_SIXTEENTH = tl.constexpr(4 << 20)
# The interpreter knows no instructions: it takes what they compute.
_INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))


@triton.jit
def _multiply_add(a, b, c0, c1):
    """``A B + C``: A ``[8, 4]`` and B transposed, ``[8, 4]``, as ``[32]``; C the even and the odd columns."""
    if _INTERPRETED:
        product = tl.sum(tl.reshape(a, [8, 1, 4]) * tl.reshape(b, [1, 8, 4]), axis=2)
        even, odd = tl.split(tl.reshape(product, [8, 4, 2]))
        return c0 + tl.reshape(even, [32]), c1 + tl.reshape(odd, [32])
    return tl.inline_asm_elementwise(
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {$0, $1}, {$2}, {$3}, {$4, $5};",
        "=d,=d,d,d,d,d",
        [a, b, c0, c1],
        dtype=(tl.float64, tl.float64),
        is_pure=True,
        pack=1,
    )


@triton.jit
def _multiply_add_two(a0, a1, above0, above1, b0, b1, c0, c1, d0, d1):
    """Two of :func:`_multiply_add` after another, of two left factors (columns a0, a1 of 4 each, and ``above``) and one
    right factor, in one instruction: ``A B + C`` and ``Above B + D``.
    """
    if _INTERPRETED:
        c0, c1 = _multiply_add(a0, b0, c0, c1)
        c0, c1 = _multiply_add(a1, b1, c0, c1)
        d0, d1 = _multiply_add(above0, b0, d0, d1)
        d0, d1 = _multiply_add(above1, b1, d0, d1)
        return c0, c1, d0, d1
    return tl.inline_asm_elementwise(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};",
        "=d,=d,=d,=d,d,d,d,d,d,d,d,d,d,d",
        [a0, above0, a1, above1, b0, b1, c0, c1, d0, d1],
        dtype=(tl.float64, tl.float64, tl.float64, tl.float64),
        is_pure=True,
        pack=1,
    )


@triton.jit
def _reciprocal_guess(x):
    """1 / x to 20 bits."""
    if _INTERPRETED:
        return (1.0 / x).to(tl.float32).to(tl.float64)
    return tl.inline_asm_elementwise("rcp.approx.ftz.f64 $0, $1;", "=d,d", [x], tl.float64, is_pure=True, pack=1)


@triton.jit
def inverse_root_guess(x):
    """x^(-1/2) to 20 bits."""
    if _INTERPRETED:
        return (1.0 / tl.sqrt(x)).to(tl.float32).to(tl.float64)
    return tl.inline_asm_elementwise("rsqrt.approx.ftz.f64 $0, $1;", "=d,d", [x], tl.float64, is_pure=True, pack=1)


@triton.jit
def _upper_half(x, live):
    """float64 numbers less the lower half of their bits, which a guess has not; zero where not ``live``."""
    word = tl.where(live, upper_word(x), 0)
    return (word.to(tl.int64) << 32).to(tl.float64, bitcast=True)


@triton.jit
def _line(tile, i: tl.constexpr, ROWS: tl.constexpr):
    """Row i of a float32 tile, widened; summed as integers, for which adding zeros is nothing."""
    place = tl.arange(0, ROWS)[:, None]
    line = tl.sum(tl.where(place == i, tile.to(tl.int32, bitcast=True), 0), axis=0)
    return line.to(tl.float32, bitcast=True)


@triton.jit
def _anchored(tile, ROWS: tl.constexpr):
    """``[ROWS, 32]`` as it is, with one lane for each column: a layout the compiler does not change for others' sake.

    The instructions of the matrix unit work on lanes, whatever the compiler takes these to hold.
    """
    return tl.gather(tile, tl.broadcast_to(tl.arange(0, 32)[None, :], [ROWS, 32]), axis=1)


@triton.jit
def _lines(tile, COUNT: tl.constexpr):
    """``[COUNT, 32, 2]`` float32 as a tuple of ``[32]``, the last axis the fastest."""
    even, odd = tl.split(tile)
    even, odd = _anchored(even, COUNT), _anchored(odd, COUNT)
    lines = ()
    for i in tl.static_range(COUNT):
        lines = lines + (_line(even, i, COUNT), _line(odd, i, COUNT))
    return lines


@triton.jit
def _inverse_factor(g0, g1, threshold, noise_squared, alpha, one):
    """:math:`R^{-\\top}` of an 8 x 8 Gram matrix, given and returned by even and odd columns; and of each row the pivot
    and the limit above which it is kept, upper words, and :math:`z^2`.

    Gauss elimination of [G | I] in place, as in :func:`rfp.backends.fused.triton_factor.inverse_factor`; ``alpha`` is
    :math:`\\alpha^2` of each row before it.
    """
    lane = tl.arange(0, 32)
    row = lane // 4
    pair = lane % 4
    for j in tl.static_range(7):
        source = g1 if j % 2 else g0
        pivot = tl.gather(source, tl.full([32], 4 * j + j // 2, tl.int32), axis=0)
        entry = tl.gather(source, lane // 4 * 4 + j // 2, axis=0)
        line0 = tl.gather(g0, 4 * j + pair, axis=0)
        line1 = tl.gather(g1, 4 * j + pair, axis=0)
        # One step of third order takes the guess to the last bit. Nothing is subtracted for a dependent column.
        own_alpha = tl.gather(alpha, tl.full([32], 4 * j, tl.int32), axis=0)
        limit = tl.maximum(threshold, upper_word(noise_squared * own_alpha))
        word = upper_word(_reciprocal_guess(pivot)) ^ -0x80000000  # of minus the guess
        word = tl.where((upper_word(pivot) > limit) & (row > j), word, 0)
        inverse = (word.to(tl.int64) << 32).to(tl.float64, bitcast=True)
        error = 1.0 + pivot * inverse
        inverse += inverse * (error + error * error)
        multiplier = entry * inverse
        alpha += multiplier * multiplier * own_alpha
        # Column j, which becomes zero, takes what the same steps make of the unit matrix.
        here = (pair == j // 2) & (row > j)
        if j % 2:
            g0 = g0 + multiplier * line0
            g1 = tl.where(here, multiplier, g1 + multiplier * line1)
        else:
            g0 = tl.where(here, multiplier, g0 + multiplier * line0)
            g1 = g1 + multiplier * line1
    pivot = tl.gather(tl.where(row % 2 == 0, g0, g1), row * 4 + row // 2, axis=0)
    limit = tl.maximum(threshold, upper_word(noise_squared * alpha))
    length = _upper_half(inverse_root_guess(pivot), upper_word(pivot) > limit)
    error = one - pivot * length * length
    length += length * (error * (0.5 + 0.375 * error))
    g0 = tl.where(2 * pair < row, g0, tl.where(2 * pair == row, 1.0, 0.0)) * length
    g1 = tl.where(2 * pair + 1 < row, g1, tl.where(2 * pair + 1 == row, 1.0, 0.0)) * length
    return g0, g1, upper_word(pivot), limit, alpha * length * length


@triton.jit
def _largest_diagonal(g0, g1):
    lane = tl.arange(0, 32)
    even = tl.where(lane // 4 == lane % 4 * 2, magnitude(g0), 0)
    return tl.maximum(even, tl.where(lane // 4 == lane % 4 * 2 + 1, magnitude(g1), 0))


@triton.jit
def _judge(word, threshold, limit):
    """Of the pivots in the lanes: how many are kept, are in doubt, are dropped and not zero, are kept and rather small;
    each number in a byte. The sum over the lanes counts every pivot four times.

    ``limit`` is the threshold, or above it where rounding may be: see :func:`_inverse_factor`.
    """
    kept = word > limit
    rest = word & 0x7FFFFFFF
    doubt = tl.where(kept, word < threshold + _KEPT, rest > limit - _SIXTEENTH)
    dropped = (word <= limit) & (rest > 0)
    small = kept & (word < threshold + _DROPPED)
    counts = kept.to(tl.int32) + (doubt.to(tl.int32) << 8)
    return counts + (dropped.to(tl.int32) << 16) + (small.to(tl.int32) << 24)


@triton.jit
def folded(y, N: tl.constexpr):
    """``[16, N]`` as ``[N / 4, 32, 2]``: at (2 t + b, 4 c + d, e) channel 8 b + 2 d + e of node 8 t + c.

    So the matrix unit holds it, one lane for each place of the middle axis, and eight lanes fill sectors of memory.
    """
    return tl.reshape(tl.permute(tl.reshape(y, [2, 4, 2, N // 8, 8]), 3, 0, 4, 1, 2), [N // 4, 32, 2])


@triton.jit
def unfolded(tile, N: tl.constexpr):
    """The reverse of :func:`folded`."""
    return tl.reshape(tl.permute(tl.reshape(tile, [N // 8, 2, 8, 4, 2]), 1, 3, 4, 0, 2), [16, N])


@triton.jit
def orthonormalize_columns(y, noise_squared, N: tl.constexpr):
    r"""QR of ``y`` ``[16, N]`` float32, a channel a row; N is 32 or 64.

    ``noise_squared`` is what rounding may have added to a channel, squared (:mod:`rfp.rounding`).

    Returns:
        A :func:`folded` tile, zero where a column is dependent; ``[32]`` the number of kept columns, in every lane; the
        upper word of the largest squared column norm; whether the result is not to be trusted, as 0 or 1.
    """
    EIGHTHS: tl.constexpr = N // 8
    zero = tl.zeros([32], tl.float64)
    # Channels 8 b + c of nodes 8 t + 4 e + d, in lane 4 c + d: [b, t, c, d, e].
    tile = tl.permute(tl.reshape(y, [2, 8, EIGHTHS, 2, 4]), 0, 2, 1, 4, 3)
    across = _lines(tl.reshape(tile, [2 * EIGHTHS, 32, 2]), 2 * EIGHTHS)
    first0, first1, mixed0, mixed1, second0, second1 = zero, zero, zero, zero, zero, zero
    for t in tl.static_range(EIGHTHS):
        x0, x1 = across[2 * t].to(tl.float64), across[2 * t + 1].to(tl.float64)
        z0 = across[2 * EIGHTHS + 2 * t].to(tl.float64)
        z1 = across[2 * EIGHTHS + 2 * t + 1].to(tl.float64)
        first0, first1, mixed0, mixed1 = _multiply_add_two(x0, x1, z0, z1, x0, x1, first0, first1, mixed0, mixed1)
        second0, second1 = _multiply_add(z0, z0, second0, second1)
        second0, second1 = _multiply_add(z1, z1, second0, second1)
    # Channels 8 b + 2 d + e of nodes 16 t + 8 f + c, in lane 4 c + d: [t, b, e, c, d, f].
    tile = tl.permute(tl.reshape(y, [2, 4, 2, EIGHTHS // 2, 2, 8]), 3, 0, 2, 5, 1, 4)
    along = _lines(tl.reshape(tile, [2 * EIGHTHS, 32, 2]), 2 * EIGHTHS)

    scale = tl.max(tl.maximum(_largest_diagonal(first0, first1), _largest_diagonal(second0, second1)), axis=0)
    threshold = upper_word((scale.to(tl.int64) << 32).to(tl.float64, bitcast=True) * TOLERANCE_SQUARED)
    one = tl.where(scale >= 0x7FF00000, float("nan"), 1.0).to(tl.float64)  # an infinite state makes the result NaN

    certain = tl.full([32], 1.0, tl.float64)
    w0, w1, word, limit, z_squared = _inverse_factor(first0, first1, threshold, noise_squared, certain, one)
    counts = _judge(word, threshold, limit)
    c0, c1 = _multiply_add(mixed0, w0, zero, zero)  # C transposed
    c0, c1 = _multiply_add(mixed1, w1, c0, c1)
    # What the first eight channels add to the noise of the others: a sum over C, of which four lanes hold a row.
    lane = tl.arange(0, 32)
    added = c0 * c0 * tl.gather(z_squared, lane % 4 * 8, axis=0)
    added += c1 * c1 * tl.gather(z_squared, lane % 4 * 8 + 4, axis=0)
    added += tl.gather(added, lane ^ 1, axis=0)
    added += tl.gather(added, lane ^ 2, axis=0)
    minus0, minus1 = -c0, -c1
    second0, second1 = _multiply_add(minus0, c0, second0, second1)
    second0, second1 = _multiply_add(minus1, c1, second0, second1)
    v0, v1, word, limit, _ = _inverse_factor(second0, second1, threshold, noise_squared, certain + added, one)
    counts = tl.sum(counts + _judge(word, threshold, limit), axis=0)

    even = tl.zeros([2 * EIGHTHS, 32], tl.float32)
    odd = tl.zeros([2 * EIGHTHS, 32], tl.float32)
    place = tl.arange(0, 2 * EIGHTHS)[:, None]
    for t in tl.static_range(EIGHTHS // 2):  # nodes 16 t + c, and nodes 16 t + 8 + c
        x0, x1 = along[8 * t].to(tl.float64), along[8 * t + 2].to(tl.float64)
        z0, z1 = along[8 * t + 1].to(tl.float64), along[8 * t + 3].to(tl.float64)
        x0, x1, z0, z1 = _multiply_add_two(x0, x1, z0, z1, w0, w1, zero, zero, zero, zero)
        even = tl.where(place == 4 * t, x0.to(tl.float32)[None, :], even)
        odd = tl.where(place == 4 * t, x1.to(tl.float32)[None, :], odd)
        even = tl.where(place == 4 * t + 2, z0.to(tl.float32)[None, :], even)
        odd = tl.where(place == 4 * t + 2, z1.to(tl.float32)[None, :], odd)
        r0, r1 = along[8 * t + 4].to(tl.float64), along[8 * t + 6].to(tl.float64)
        s0, s1 = along[8 * t + 5].to(tl.float64), along[8 * t + 7].to(tl.float64)
        r0, r1, s0, s1 = _multiply_add_two(x0, x1, z0, z1, minus0, minus1, r0, r1, s0, s1)
        x0, x1, z0, z1 = _multiply_add_two(r0, r1, s0, s1, v0, v1, zero, zero, zero, zero)
        even = tl.where(place == 4 * t + 1, x0.to(tl.float32)[None, :], even)
        odd = tl.where(place == 4 * t + 1, x1.to(tl.float32)[None, :], odd)
        even = tl.where(place == 4 * t + 3, z0.to(tl.float32)[None, :], even)
        odd = tl.where(place == 4 * t + 3, z1.to(tl.float32)[None, :], odd)
    doubt = ((counts >> 8) & 0xFF) > 0
    doubt |= (((counts >> 16) & 0xFF) > 0) & ((counts >> 24) > 0)
    kept = tl.zeros([32], tl.int32) + (counts & 0xFF) // 4
    return tl.join(_anchored(even, 2 * EIGHTHS), _anchored(odd, 2 * EIGHTHS)), kept, scale, doubt.to(tl.int32)
