"""The inverse of a Cholesky factor on a CPU, of the Gram matrix of one small graph: W with Wᵀ g W = 1.

Both forms compute the same sums. Of a matrix of 16 x 16 the one by rows waits for one number after the other; the one
in blocks of eight, whose rows stay in registers, takes half its time on x86.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from rfp.backends.compiled.vectors import (
    MIDDLE,
    WIDE,
    Vector,
    add_product,
    add_transposed,
    eight_zeros,
    fma,
    number_at,
    sum_of_lanes,
    vload,
    vload_eight,
    vstore,
    vstore_eight,
    vzeros,
)
from rfp.compiled.cached import helper


@helper
def _inverse_by_rows(g, k, least, noise, alpha, w):
    """w = R⁻¹ for g = Rᵀ R (overwritten); returns ||w||_F², or infinity at the first pivot R_ii² <= least, or
    R_ii <= noise times the amplification of rounding (``alpha``, squared; rfp.rounding), so the first in doubt.

    A zero column of a stays one: there R_ii = 0 and column i of w is zero.
    """
    alpha[:] = 1.0
    for i in range(k):
        for c in range(i - i % 8, g.shape[1], 8):
            row = vload(g, (i, c), 8)
            for j in range(i):
                row = fma(row, -g[j, i], vload(g, (j, c), 8))
            vstore(row, g, (i, c))
        if g[i, i] == 0.0:
            w[i, i] = 0.0
        elif g[i, i] > least and g[i, i] > noise * noise * alpha[i]:
            w[i, i] = 1.0 / np.sqrt(g[i, i])
        else:
            return np.inf
        for c in range(i - i % 8, g.shape[1], 8):
            vstore(fma(vzeros(g, 8), w[i, i], vload(g, (i, c), 8)), g, (i, c))
        z = alpha[i] * w[i, i] ** 2
        for c in range(i - i % 8, g.shape[1], 8):
            row = vload(g, (i, c), 8)
            vstore(fma(vload(alpha, (c,), 8), z, fma(vzeros(g, 8), row, row)), alpha, (c,))
    squares, total = vzeros(g, 8), 0.0
    for i in range(k - 1, -1, -1):  # w_i = (e_i - sum_{j > i} R_ij w_j) / R_ii
        pivot = w[i, i]
        total += pivot * pivot
        for c in range(i - i % 8, g.shape[1], 8):
            row = vzeros(w, 8)
            for j in range(i + 1, min(c + 8, k)):
                row = fma(row, g[i, j], vload(w, (j, c), 8))
            row = fma(vzeros(w, 8), -pivot, row)
            squares = fma(squares, row, row)
            vstore(row, w, (i, c))
        w[i, i] = pivot
    return total + sum_of_lanes(squares)


class _Lanes:
    """Vectors of eight doubles while code is generated, which `for` loops of Python unroll."""

    def __init__(self, builder: Any) -> None:
        self.builder, self.vector = builder, ir.VectorType(ir.DoubleType(), 8)
        self.zeros = ir.Constant(self.vector, None)

    def unit(self, place: int) -> Any:
        return ir.Constant(self.vector, [ir.Constant(ir.DoubleType(), float(c == place)) for c in range(8)])

    def number(self, v: Any, place: int) -> Any:
        return self.builder.extract_element(v, ir.Constant(ir.IntType(32), place))

    def everywhere(self, v: Any, place: int) -> Any:
        places = ir.Constant(ir.VectorType(ir.IntType(32), 8), [ir.Constant(ir.IntType(32), place)] * 8)
        return self.builder.shuffle_vector(v, v, places)

    def spread(self, number: Any) -> Any:
        v = self.builder.insert_element(ir.Constant(self.vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
        return self.everywhere(v, 0)

    def chosen(self, places: range, v: Any, otherwise: Any) -> Any:
        bit = ir.IntType(1)
        mask = ir.Constant(ir.VectorType(bit, 8), [ir.Constant(bit, int(c in places)) for c in range(8)])
        return self.builder.select(mask, v, otherwise)

    def root(self, v: Any) -> Any:
        kind = ir.FunctionType(self.vector, [self.vector])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, "llvm.sqrt.v8f64"), [v])

    def all_of(self, tests: Any) -> Any:
        bits = ir.IntType(8)
        return self.builder.icmp_unsigned("==", self.builder.bitcast(tests, bits), ir.Constant(bits, 255))

    def times(self, a: Any, b: Any) -> Any:
        return self.builder.fmul(a, b, flags=("contract",))

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        return self.builder.fadd(total, self.times(a, b), flags=("contract",))

    def minus(self, total: Any, a: Any, b: Any) -> Any:
        return self.builder.fsub(total, self.times(a, b), flags=("contract",))


@intrinsic
def _eliminate(_: Any, rows: Any, alpha: Any, least: Any, noise: Any) -> Any:
    r"""Gauss elimination of a symmetric 8 x 8 matrix in registers: :math:`g = U^\top D U` with a unit triangle U.

    Returns ``(inverse, reciprocals, roots, amplified, alpha, sound)``: the rows of :math:`U^{-1}`; 1 / D and its square
    root; alpha of each column when its turn came, and after all, :math:`\alpha_c + \sum_i \alpha_i U_{ic}^2`; whether
    each pivot is zero, or greater than ``least`` and than ``noise`` times its alpha. Where a pivot is zero, so are its
    reciprocal and its row of U beside the diagonal.
    """
    vector = Vector(types.float64, 8)
    result = types.Tuple((types.UniTuple(vector, 8), vector, vector, vector, vector, types.boolean))

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        v, zero = _Lanes(builder), ir.Constant(ir.DoubleType(), 0.0)
        left, inverse = cgutils.unpack_tuple(builder, args[0]), [v.unit(r) for r in range(8)]
        pivots, reciprocals, amplified, growing = v.zeros, v.zeros, v.zeros, args[1]
        for i in range(8):
            here, later = range(i, i + 1), range(i + 1, 8)
            pivot = v.number(left[i], i)
            reciprocal = builder.fdiv(ir.Constant(ir.DoubleType(), 1.0), pivot)
            reciprocal = v.spread(builder.select(builder.fcmp_ordered("==", pivot, zero), zero, reciprocal))
            row = v.chosen(later, left[i], v.zeros)
            for j in later:  # multiplied while the division goes on, which all wait for
                left[j] = v.minus(left[j], v.times(v.everywhere(left[i], j), row), reciprocal)
            pivots = v.chosen(here, left[i], pivots)
            reciprocals = v.chosen(here, reciprocal, reciprocals)
            amplified = v.chosen(here, growing, amplified)
            row = v.times(row, reciprocal)
            growing = v.plus(growing, v.times(v.everywhere(growing, i), row), row)
            for p in range(i + 1):
                inverse[p] = v.minus(inverse[p], v.everywhere(inverse[p], i), row)
        loud = builder.fcmp_ordered(">", pivots, v.times(v.spread(args[3]), amplified))
        large = builder.and_(builder.fcmp_ordered(">", pivots, v.spread(args[2])), loud)
        sound = v.all_of(builder.or_(builder.fcmp_ordered("==", pivots, v.zeros), large))
        inner = context.make_tuple(builder, result.types[0], inverse)
        outer = [inner, reciprocals, v.root(reciprocals), amplified, growing, sound]
        return context.make_tuple(builder, result, outer)

    return result(rows, alpha, types.float64, types.float64), generate


@njit(inline="always")
def _eliminate_block(g, i, least, noise, alpha, w):
    """Eliminate eight columns: w of the block is U⁻¹, the first rows of g's are 1 / D, its square root, and alpha.

    Returns whether every pivot is sound.
    """
    rows, growing = vload_eight(g, i, i, 8), vload(alpha, (i,), 8)
    inverse, reciprocals, roots, amplified, growing, sound = _eliminate(rows, growing, least, noise * noise)
    vstore_eight(inverse, w, i, i)
    vstore(reciprocals, g, (i, i))
    vstore(roots, g, (i + 1, i))
    vstore(amplified, g, (i + 2, i))
    vstore(growing, alpha, (i,))
    return sound


@helper
def _reduce_later_columns(g, i, alpha, w):
    """Take the eight rows from i on out of all columns after them; w keeps -U there, so that nothing is subtracted."""
    width, zero = g.shape[1], vzeros(g, 8)
    for j in range(i + 8, width, 8):
        vstore_eight(add_transposed(eight_zeros(g, 8), w, i, g, j, i, i + 8, 8), g, i, j)
        growing = vload(alpha, (j,), 8)
        for r in range(i, i + 8):
            row = fma(zero, -number_at(g, i, r), vload(g, (r, j), 8))
            growing = fma(growing, number_at(g, i + 2, r), fma(zero, row, row))
            vstore(row, w, (r, j))
        vstore(growing, alpha, (j,))
    for j in range(i + 8, width, 8):
        for c in range(j, width, 8):
            vstore_eight(add_transposed(vload_eight(g, j, c, 8), w, j, g, c, i, i + 8, 8), g, j, c)


@helper
def _inverse_in_blocks(g, k, least, noise, alpha, w):
    """As :func:`_inverse_by_rows`, by g = Uᵀ D U in blocks of 8 x 8, and w = U⁻¹ D^(-1/2)."""
    width, zero = g.shape[1], vzeros(g, 8)
    alpha[:] = 1.0
    for i in range(0, width, 8):
        if not _eliminate_block(g, i, least, noise, alpha, w):
            return np.inf
        _reduce_later_columns(g, i, alpha, w)
    for j in range(8, width, 8):  # (U⁻¹)_ij = (sum_{i <= l < j} (U⁻¹)_il (-U)_lj) (U⁻¹)_jj, in the place of -U_ij
        for i in range(0, j, 8):
            vstore_eight(add_product(eight_zeros(w, 8), w, i, w, j, i, j, 8), w, i, j)
            vstore_eight(add_product(eight_zeros(w, 8), w, i, w, j, j, j + 8, 8), w, i, j)
    squares = zero
    for c in range(0, width, 8):
        scale = vload(g, (c + 1, c), 8)
        for r in range(c + 8):
            row = fma(zero, scale, vload(w, (r, c), 8))
            squares = fma(squares, row, row)
            vstore(row, w, (r, c))
    return sum_of_lanes(squares)


inverse_factor = _inverse_in_blocks if WIDE or MIDDLE else _inverse_by_rows
