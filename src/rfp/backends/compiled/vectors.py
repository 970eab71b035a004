"""Numbers in vector registers, as Numba's kernels write them: load, store, multiply and add, fetch ahead.

The kernels are written on explicit vectors. Left to itself LLVM keeps the accumulators of these loops in memory and
fetches nothing ahead, which made the sparse product four times as slow. No index is checked.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, models, register_model

from rfp.compiled.cached import allocating_helper

# Registers of 512 bits: eight of them hold a tile of a dense product, and eight chains of additions keep two
# multipliers busy. Of the shorter registers of other processors four rows of a tile take as many.
WIDE = bool(get_host_cpu_features().get("avx512f"))
# Registers of 256 bits, half as many: eight of them hold a tile of four rows, two for each row.
MIDDLE = not WIDE and bool(get_host_cpu_features().get("avx2"))


class Vector(types.Type):
    """``lanes`` numbers in registers."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vector({dtype}, {lanes})")

    @property
    def llvm(self) -> Any:
        return ir.VectorType(ir.FloatType() if self.dtype == types.float32 else ir.DoubleType(), self.lanes)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        super().__init__(manager, vector, vector.llvm)


def _pointer(context: Any, builder: Any, signature: Any, args: Any, first: int, target: Any) -> Any:
    """Address of ``array[index]``, the arguments ``first`` and ``first + 1``, as a pointer to ``target``."""
    array_type, index_type = signature.args[first : first + 2]
    array = context.make_array(array_type)(context, builder, args[first])
    places = zip(cgutils.unpack_tuple(builder, args[first + 1]), index_type, strict=True)
    index = [context.cast(builder, place, kind, types.intp) for place, kind in places]
    pointer = cgutils.get_item_pointer(context, builder, array_type, array, index, wraparound=False)
    return builder.bitcast(pointer, target.as_pointer())


@intrinsic(prefer_literal=True)
def vzeros(_: Any, array: Any, lanes: Any) -> Any:
    """A vector of zeros of the array's type."""
    vector = Vector(array.dtype, lanes.literal_value)
    return vector(array, lanes), lambda context, builder, signature, args: ir.Constant(vector.llvm, None)


@intrinsic(prefer_literal=True)
def vload(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """``array[..., c : c + lanes]`` for the index ``(..., c)``."""
    vector = Vector(array.dtype, lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature, args, 0, vector.llvm)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return vector(array, index, lanes), generate


@intrinsic
def vstore(_: Any, vector: Any, array: Any, index: Any) -> Any:
    """``array[..., c : c + lanes] = vector``, rounded to the array's type."""
    target = Vector(array.dtype, vector.lanes).llvm

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = args[0]
        if vector.dtype != array.dtype:
            value = (builder.fptrunc if array.dtype == types.float32 else builder.fpext)(value, target)
        builder.store(value, _pointer(context, builder, signature, args, 1, target), align=array.dtype.bitwidth // 8)

    return types.void(vector, array, index), generate


@intrinsic
def vstore_past_cache(_: Any, vector: Any, array: Any, index: Any) -> Any:
    """``array[..., c : c + lanes] = vector`` at the start of a cache line, which is not fetched first nor kept.

    Another thread sees it after :func:`fence`.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature, args, 1, vector.llvm)
        store = builder.store(args[0], pointer, align=64)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))

    return types.void(vector, array, index), generate


@intrinsic
def fence(_: Any) -> Any:
    """What was stored before is seen by all who read after it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")

    return types.void(), generate


@intrinsic
def fma(_: Any, total: Any, factor: Any, vector: Any) -> Any:
    """``total + factor * vector``; the factor is a number or a vector."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = args[1]
        if not isinstance(factor, Vector):
            empty = ir.Constant(vector.llvm, ir.Undefined)
            value = context.cast(builder, value, factor, vector.dtype)
            value = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
            value = builder.shuffle_vector(value, empty, ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), None))
        return builder.fadd(args[0], builder.fmul(value, args[2], flags=("contract",)), flags=("contract",))

    return total(total, factor, vector), generate


@intrinsic(prefer_literal=True)
def lane(_: Any, vector: Any, lane: Any) -> Any:
    """One number of a vector."""
    place = ir.Constant(ir.IntType(32), lane.literal_value)
    return vector.dtype(vector, lane), lambda context, builder, signature, args: builder.extract_element(args[0], place)


@intrinsic
def prefetch(_: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, every_level, data = (ir.Constant(word, flag) for flag in (0, 3, 1))
        builder.call(prefetch, [_pointer(context, builder, signature, args, 0, byte), to_read, every_level, data])

    return types.void(array, index), generate


@njit(inline="always")
def sum_of_lanes(v):
    left = (lane(v, 0) + lane(v, 1)) + (lane(v, 2) + lane(v, 3))
    return left + ((lane(v, 4) + lane(v, 5)) + (lane(v, 6) + lane(v, 7)))


@njit(inline="always")
def vload_rows(a, i, j, lanes):
    return (
        vload(a, (i, j), lanes),
        vload(a, (i + 1, j), lanes),
        vload(a, (i + 2, j), lanes),
        vload(a, (i + 3, j), lanes),
    )


@njit(inline="always")
def vstore_rows(s0, s1, s2, s3, a, i, j):
    vstore(s0, a, (i, j))
    vstore(s1, a, (i + 1, j))
    vstore(s2, a, (i + 2, j))
    vstore(s3, a, (i + 3, j))


@njit(inline="always")
def vload_eight(a, i, j, lanes):
    return (*vload_rows(a, i, j, lanes), *vload_rows(a, i + 4, j, lanes))


@njit(inline="always")
def vstore_eight(sums, a, i, j):
    s0, s1, s2, s3, s4, s5, s6, s7 = sums
    vstore_rows(s0, s1, s2, s3, a, i, j)
    vstore_rows(s4, s5, s6, s7, a, i + 4, j)


@njit(inline="always")
def fma_of_four(s, a, w0, w1, w2, w3):
    return fma(fma(fma(fma(s, lane(a, 0), w0), lane(a, 1), w1), lane(a, 2), w2), lane(a, 3), w3)


@njit(inline="always")
def number_at(a, i, j):
    """One number, without the look at negative indices that `a[i, j]` begins with."""
    return lane(vload(a, (i, j), 1), 0)


@njit(inline="always")
def eight_zeros(a, lanes):
    zero = vzeros(a, lanes)
    return zero, zero, zero, zero, zero, zero, zero, zero


@njit(inline="always")
def _factor(x, i, r, transposed):
    return number_at(x, r, i) if transposed else number_at(x, i, r)


@njit(inline="always")
def _add_four(sums, x, i, y, j, first, last, lanes, transposed):
    s0, s1, s2, s3 = sums
    for r in range(first, last):
        right = vload(y, (r, j), lanes)
        s0 = fma(s0, _factor(x, i, r, transposed), right)
        s1 = fma(s1, _factor(x, i + 1, r, transposed), right)
        s2 = fma(s2, _factor(x, i + 2, r, transposed), right)
        s3 = fma(s3, _factor(x, i + 3, r, transposed), right)
    return s0, s1, s2, s3


@njit(inline="always")
def _add_by_fours(sums, x, i, y, j, first, last, lanes, transposed):
    s0, s1, s2, s3, s4, s5, s6, s7 = sums
    upper = _add_four((s0, s1, s2, s3), x, i, y, j, first, last, lanes, transposed)
    lower = _add_four((s4, s5, s6, s7), x, i + 4, y, j, first, last, lanes, transposed)
    return (*upper, *lower)


@njit(inline="always")
def _add_at_once(sums, x, i, y, j, first, last, lanes, transposed):
    s0, s1, s2, s3, s4, s5, s6, s7 = sums
    for r in range(first, last):
        right = vload(y, (r, j), lanes)
        s0 = fma(s0, _factor(x, i, r, transposed), right)
        s1 = fma(s1, _factor(x, i + 1, r, transposed), right)
        s2 = fma(s2, _factor(x, i + 2, r, transposed), right)
        s3 = fma(s3, _factor(x, i + 3, r, transposed), right)
        s4 = fma(s4, _factor(x, i + 4, r, transposed), right)
        s5 = fma(s5, _factor(x, i + 5, r, transposed), right)
        s6 = fma(s6, _factor(x, i + 6, r, transposed), right)
        s7 = fma(s7, _factor(x, i + 7, r, transposed), right)
    return s0, s1, s2, s3, s4, s5, s6, s7


# Of registers of 256 bits eight rows of doubles would take all sixteen.
_add_eight = _add_by_fours if MIDDLE else _add_at_once


@njit(inline="always")
def add_transposed(sums, x, i, y, j, first, last, lanes):
    """``sums[c]`` + Σ_r ``x[r, i + c] y[r, j : j + lanes]`` for eight c, over r from first to last - 1."""
    return _add_eight(sums, x, i, y, j, first, last, lanes, True)


@njit(inline="always")
def add_product(sums, x, i, y, j, first, last, lanes):
    """``sums[c]`` + Σ_r ``x[i + c, r] y[r, j : j + lanes]`` for eight c, over r from first to last - 1."""
    return _add_eight(sums, x, i, y, j, first, last, lanes, False)


@njit(inline="always")
def largest_of_lanes(v):
    left = max(max(lane(v, 0), lane(v, 1)), max(lane(v, 2), lane(v, 3)))
    return max(left, max(max(lane(v, 4), lane(v, 5)), max(lane(v, 6), lane(v, 7))))


@intrinsic
def vmax(_: Any, a: Any, b: Any) -> Any:
    """The larger of each two numbers; b where one is not a number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[0], args[1])

    return a(a, b), generate


@intrinsic
def count_zeros(_: Any, v: Any) -> Any:
    """How many of the numbers are zero."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zero = builder.fcmp_ordered("==", args[0], ir.Constant(v.llvm, None))
        bits = builder.bitcast(zero, ir.IntType(v.lanes))
        return builder.zext(builder.ctpop(bits), ir.IntType(64))

    return types.int64(v), generate


@intrinsic
def diagonal_of_rows(_: Any, rows: Any) -> Any:
    """Number c of row c, of as many rows as they have numbers: without what a processor calls a gather."""
    vector = rows.dtype

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bit, rows_in_registers = ir.IntType(1), cgutils.unpack_tuple(builder, args[0])
        found = rows_in_registers[0]
        for place, row in enumerate(rows_in_registers):
            here = [ir.Constant(bit, int(c == place)) for c in range(vector.lanes)]
            found = builder.select(ir.Constant(ir.VectorType(bit, vector.lanes), here), row, found)
        return found

    return vector(rows), generate


@intrinsic(prefer_literal=True)
def half(_: Any, v: Any, which: Any) -> Any:
    """The first half (0) or the second (1) of the numbers."""
    target = Vector(v.dtype, v.lanes // 2)
    places = [ir.Constant(ir.IntType(32), which.literal_value * target.lanes + c) for c in range(target.lanes)]
    chosen = ir.Constant(ir.VectorType(ir.IntType(32), target.lanes), places)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.shuffle_vector(args[0], args[0], chosen)

    return target(v, which), generate


@njit(inline="always")
def half_of_eight(sums, which):
    s0, s1, s2, s3, s4, s5, s6, s7 = sums
    return (
        half(s0, which),
        half(s1, which),
        half(s2, which),
        half(s3, which),
        half(s4, which),
        half(s5, which),
        half(s6, which),
        half(s7, which),
    )


@intrinsic
def of_width(_: Any, array: Any, width: Any) -> Any:
    """The same array, whose last axis is as long as the tuple ``width``: the compiler sees that in its type, and
    addresses become constants. An empty tuple tells it nothing.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        made = context.make_array(array)(context, builder, args[0])
        if len(width):
            rows = cgutils.unpack_tuple(builder, made.shape)[:-1]
            made.shape = cgutils.pack_array(builder, [*rows, context.get_constant(types.intp, len(width))])
        return impl_ret_borrowed(context, builder, array, made._getvalue())

    return array(array, width), generate


@allocating_helper
def aligned_zeros(like, rows, width):
    """Zeros of the type of ``like``, ``[rows, width]``, at the start of a cache line: no vector lies across two."""
    flat = np.zeros(rows * width + 64 // like.itemsize, like.dtype)
    first = (64 - np.int64(flat.ctypes.data) % 64) % 64 // like.itemsize
    return flat[first : first + rows * width].reshape(rows, width)


@njit(inline="always")
def clear_rows(a, rows):
    for r in range(rows):
        for c in range(0, a.shape[1], 8):
            vstore(vzeros(a, 8), a, (r, c))
