"""The normalisation of one small graph, in cache: columns of length 1, or orthonormal."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

import numpy as np

from rfp.backends.compiled.dense_products import accumulate_gram, multiply_upper
from rfp.backends.compiled.inverse_factor import inverse_factor
from rfp.backends.compiled.vectors import (
    clear_rows,
    count_zeros,
    diagonal_of_rows,
    fma,
    largest_of_lanes,
    sum_of_lanes,
    vload,
    vload_eight,
    vmax,
    vstore,
    vzeros,
)
from rfp.compiled.cached import helper, rare_helper

# One Cholesky pass in float64 loses (condition number)² x 1e-16 of orthogonality. Beyond this bound on
# ||a||_F ||R⁻¹||_F, which is at least the condition number, Gram-Schmidt takes over: 1 step in 200 for molecules. Below
# it, a second pass makes float64 columns orthonormal to the last digits; float32 ones need none.
_MAX_CONDITION = 1e3


@rare_helper
def _gram_schmidt(a, n, k, threshold, noise, alpha, coefficients, q):
    """q = Gram-Schmidt basis of a (overwritten); a residual <= threshold, or <= noise times its amplification, leaves a
    zero column.

    Every column is projected twice, which is enough: a new q_i is taken out of all later columns at once, along memory;
    and each column is projected on all of q once more before its length is judged.
    """
    clear_rows(q, n)
    alpha[:] = 1.0
    rank = 0
    for i in range(k):
        if rank == n:
            return
        for c in range(0, i, 8):
            row = vzeros(q, 8)
            for r in range(n):
                row = fma(row, a[r, i], vload(q, (r, c), 8))
            vstore(row, coefficients, (c,))
        squares = 0.0
        for r in range(n):
            row = vzeros(q, 8)
            for c in range(0, i, 8):
                row = fma(row, vload(coefficients, (c,), 8), vload(q, (r, c), 8))
            a[r, i] -= sum_of_lanes(row)
            squares += a[r, i] ** 2
        length = np.sqrt(squares)
        if length <= threshold or length <= noise * np.sqrt(alpha[i]):
            continue
        rank += 1
        z = alpha[i] / squares
        for r in range(n):
            q[r, i] = a[r, i] / length
        for c in range(i - i % 8, a.shape[1], 8):
            row = vzeros(q, 8)
            for r in range(n):
                row = fma(row, q[r, i], vload(a, (r, c), 8))
            vstore(fma(vload(alpha, (c,), 8), z, fma(vzeros(q, 8), row, row)), alpha, (c,))
            for r in range(n):
                vstore(fma(vload(a, (r, c), 8), -q[r, i], row), a, (r, c))


@helper
def gram_and_squares(a, n, g, squares):
    """g = aᵀ a, and its diagonal: the squares of the norms of the columns."""
    clear_rows(g, g.shape[0])
    accumulate_gram(a, n, g)
    for c in range(0, g.shape[1], 8):
        vstore(diagonal_of_rows(vload_eight(g, c, c, 8)), squares, (c,))


@helper
def _scale_columns(a, n, k, squares, noise, w, out):
    """Columns of length 1; what is not finite becomes NaN: the caller sees it."""
    for c in range(k):
        length = np.sqrt(squares[c])
        w[0, c] = 0.0 if length <= noise[c] else 1.0 / length
        if length == np.inf:  # squares that float64 does not hold: the column is not zero, nor has it a length
            w[0, c] = np.nan
    for r in range(n):
        for c in range(0, a.shape[1], 8):
            vstore(fma(vzeros(a, 8), vload(w, (0, c), 8), vload(a, (r, c), 8)), out, (r, c))


@helper
def _zero_columns(a, n, k):
    zeros = k
    for c in range(k):
        for r in range(n):
            if a[r, c] != 0.0:
                zeros -= 1
                break
    return zeros


@helper
def normalize_columns(a, n, k, orthogonal, twice, tolerance, squares, noise, g, w, out):
    """out = N(a) for one graph (a is overwritten); returns the number of zero columns it leaves.

    ``squares`` are those of the norms of the columns, ``noise`` is what the norms owe to rounding, ``[width]`` each; g
    is the Gram matrix of a where ``orthogonal``. All three are overwritten.
    """
    sums, longest, noisiest = vzeros(a, 8), vzeros(a, 8), vzeros(a, 8)
    for c in range(0, a.shape[1], 8):
        part = vload(squares, (c,), 8)
        sums, longest = fma(sums, 1.0, part), vmax(part, longest)
        noisiest = vmax(vload(noise, (c,), 8), noisiest)
    trace, loudest = sum_of_lanes(sums), largest_of_lanes(noisiest)
    if not orthogonal or not np.isfinite(trace):
        _scale_columns(a, n, k, squares, noise, w, out)
        return _zero_columns(out, n, k)
    threshold = tolerance * np.sqrt(largest_of_lanes(longest))
    least = max(trace / _MAX_CONDITION**2, threshold**2)
    if not trace * inverse_factor(g, k, least, loudest, noise, w) <= _MAX_CONDITION**2:
        _gram_schmidt(a, n, k, threshold, loudest, noise, g[0], out)
        return _zero_columns(out, n, k)
    multiply_upper(a, n, w, out)
    if twice:
        for r in range(n):
            for c in range(0, g.shape[1], 8):
                vstore(vload(out, (r, c), 8), a, (r, c))
        gram_and_squares(a, n, g, squares)
        inverse_factor(g, k, 0.0, 0.0, noise, w)
        multiply_upper(a, n, w, out)
    zeros = k - a.shape[1]  # less those of the columns that fill up the last vector
    for c in range(0, a.shape[1], 8):
        zeros += count_zeros(diagonal_of_rows(vload_eight(w, c, c, 8)))
    return zeros
