r"""Compiled CPU kernels (Numba): the sparse product, tall-skinny products, and whole trajectories of small graphs.

The kernels are written on explicit vectors, the first section. Left to itself LLVM keeps the accumulators of these
loops in memory and fetches nothing ahead, which made the sparse product four times as slow.

Each kernel is compiled for one thread and releases the interpreter lock; :func:`_run` calls it on pieces of the work
from ``torch.get_num_threads()`` Python threads. Numba's ``parallel=True`` is not used: its OpenMP layer kills forked
data loaders, its own thread pool aborts when two threads call it, and it takes longer to compile.

One file on purpose: Numba's cache on disk notices a change only in the file a kernel stands in, not in what it calls.

Kernels check no index: a CSR matrix is trusted, the shapes of the others are checked by the public functions.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.pages import empty

# How far ahead of their use the sparse product fetches neighbours: 8 rows of 64 numbers, but at most 16 rows.
_NUMBERS_AHEAD, _ROWS_AHEAD = 512, 16
# Registers of 512 bits: eight of them hold a tile of a dense product, and eight chains of additions keep two
# multipliers busy. Of the shorter registers of other processors four rows of a tile take as many.
_WIDE = bool(get_host_cpu_features().get("avx512f"))
# Rows copied into a buffer for a dense product: as doubles, 64 columns wide, half of a first-level cache.
_ROWS = 32 if _WIDE else 64
# Rows that a dense product takes at a time, and so may write beyond the last.
_TALL = 8 if _WIDE else 4
# One Cholesky pass in float64 loses (condition number)² x 1e-16 of orthogonality. Beyond this bound on
# ||a||_F ||R⁻¹||_F, which is at least the condition number, Gram-Schmidt takes over: 1 step in 200 for molecules. Below
# it, a second pass makes float64 columns orthonormal to the last digits; float32 ones need none.
_MAX_CONDITION = 1e3


class _Vector(types.Type):
    """``lanes`` numbers in registers."""

    def __init__(self, dtype: Any, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vector({dtype}, {lanes})")

    @property
    def llvm(self) -> Any:
        return ir.VectorType(ir.FloatType() if self.dtype == types.float32 else ir.DoubleType(), self.lanes)


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: _Vector) -> None:
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
def _zeros(_: Any, array: Any, lanes: Any) -> Any:
    """A vector of zeros of the array's type."""
    vector = _Vector(array.dtype, lanes.literal_value)
    return vector(array, lanes), lambda context, builder, signature, args: ir.Constant(vector.llvm, None)


@intrinsic(prefer_literal=True)
def _load(_: Any, array: Any, index: Any, lanes: Any) -> Any:
    """``array[..., c : c + lanes]`` for the index ``(..., c)``."""
    vector = _Vector(array.dtype, lanes.literal_value)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature, args, 0, vector.llvm)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return vector(array, index, lanes), generate


@intrinsic
def _store(_: Any, vector: Any, array: Any, index: Any) -> Any:
    """``array[..., c : c + lanes] = vector``, rounded to the array's type."""
    target = _Vector(array.dtype, vector.lanes).llvm

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = args[0]
        if vector.dtype != array.dtype:
            value = (builder.fptrunc if array.dtype == types.float32 else builder.fpext)(value, target)
        builder.store(value, _pointer(context, builder, signature, args, 1, target), align=array.dtype.bitwidth // 8)

    return types.void(vector, array, index), generate


@intrinsic
def _fma(_: Any, total: Any, factor: Any, vector: Any) -> Any:
    """``total + factor * vector``; the factor is a number or a vector."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = args[1]
        if not isinstance(factor, _Vector):
            empty = ir.Constant(vector.llvm, ir.Undefined)
            value = context.cast(builder, value, factor, vector.dtype)
            value = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
            value = builder.shuffle_vector(value, empty, ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), None))
        return builder.fadd(args[0], builder.fmul(value, args[2], flags=("contract",)), flags=("contract",))

    return total(total, factor, vector), generate


@intrinsic(prefer_literal=True)
def _lane(_: Any, vector: Any, lane: Any) -> Any:
    """One number of a vector."""
    place = ir.Constant(ir.IntType(32), lane.literal_value)
    return vector.dtype(vector, lane), lambda context, builder, signature, args: builder.extract_element(args[0], place)


@intrinsic
def _prefetch(_: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, word = ir.IntType(8), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, word])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, every_level, data = (ir.Constant(word, flag) for flag in (0, 3, 1))
        builder.call(prefetch, [_pointer(context, builder, signature, args, 0, byte), to_read, every_level, data])

    return types.void(array, index), generate


@njit(inline="always")
def _sum(v):
    left = (_lane(v, 0) + _lane(v, 1)) + (_lane(v, 2) + _lane(v, 3))
    return left + ((_lane(v, 4) + _lane(v, 5)) + (_lane(v, 6) + _lane(v, 7)))


@njit(inline="always")
def _load4(a, i, j, lanes):
    return (
        _load(a, (i, j), lanes),
        _load(a, (i + 1, j), lanes),
        _load(a, (i + 2, j), lanes),
        _load(a, (i + 3, j), lanes),
    )


@njit(inline="always")
def _store4(s0, s1, s2, s3, a, i, j):
    _store(s0, a, (i, j))
    _store(s1, a, (i + 1, j))
    _store(s2, a, (i + 2, j))
    _store(s3, a, (i + 3, j))


@njit(inline="always")
def _fma4(s, a, w0, w1, w2, w3):
    return _fma(_fma(_fma(_fma(s, _lane(a, 0), w0), _lane(a, 1), w1), _lane(a, 2), w2), _lane(a, 3), w3)


_kernel = njit(cache=True, nogil=True, error_model="numpy")
# Called by kernels only, so neither cached nor callable from Python, which is quicker to compile.
_helper = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@_helper
def _buffer(like, rows, width):
    """Zeros of the type of ``like``, ``[rows, width]``, at the start of a cache line: no vector lies across two."""
    flat = np.zeros(rows * width + 64 // like.itemsize, like.dtype)
    first = (64 - np.int64(flat.ctypes.data) % 64) % 64 // like.itemsize
    return flat[first : first + rows * width].reshape(rows, width)


@cache
def _pool(process: int, num_threads: int) -> ThreadPoolExecutor:
    """One pool for each process, because threads do not survive a fork."""
    return ThreadPoolExecutor(num_threads, thread_name_prefix="rfp")


def _run(kernel: Callable[..., object], bounds: Any, *args: object) -> None:
    """Call ``kernel(*args, piece, *bounds[piece : piece + 2])`` for every piece, on as many threads as PyTorch uses."""
    pieces = deque(zip(range(len(bounds) - 1), bounds, bounds[1:], strict=False))

    def work() -> None:
        with suppress(IndexError):  # no piece is left
            while True:
                kernel(*args, *pieces.popleft())

    num_threads = torch.get_num_threads()
    if num_threads == 1 or len(pieces) == 1:
        return work()
    for future in [_pool(os.getpid(), num_threads).submit(work) for _ in range(min(num_threads, len(pieces)))]:
        future.result()
    return None


def _cuts(work: Any, least: int) -> list[int]:
    """Bounds of at most 32 pieces of equal work, each of at least ``least``, from its running total ``[n + 1]``.

    They do not depend on the number of threads; so neither does a sum over the pieces.
    """
    num_pieces = max(1, min(32, int(work[-1]) // least))
    inner = np.searchsorted(work, np.linspace(0, work[-1], num_pieces + 1)[1:-1])
    return [0, *inner.tolist(), len(work) - 1]


def _padded(k: int) -> int:
    return (k + 7) // 8 * 8


def _check(name: str, tensor: Tensor, *shape: int) -> Any:
    """The tensor as an array, if it has this shape and its last axis is contiguous."""
    if tensor.shape != shape or (tensor.numel() and tensor.size(-1) > 1 and tensor.stride(-1) != 1):
        raise ArgumentError(
            f"{name} must have shape {list(shape)} and a contiguous last axis, "
            f"got {list(tensor.shape)} with strides {list(tensor.stride())}"
        )
    return tensor.numpy()


@njit(inline="always")
def _gather(col, value, a, out, i, start, stop, c, lanes):
    total, last = _zeros(out, lanes), len(col) - 1
    for e in range(start, stop):
        ahead = col[min(e + min(_NUMBERS_AHEAD // lanes, _ROWS_AHEAD), last)]
        for line in range(0, lanes, 64 // a.itemsize):
            _prefetch(a, (ahead, c + line))
        total = _fma(total, value[e], _load(a, (col[e], c), lanes))
    _store(total, out, (i, c))


@_kernel
def _spmm_kernel(crow, col, value, a, out, piece, first, last):
    for i in range(first, last):
        c, width = 0, a.shape[1]
        while a.itemsize == 4 and c + 64 <= width:  # 16 of NEON's 32 registers; 64 doubles would fill them all
            _gather(col, value, a, out, i, crow[i], crow[i + 1], c, 64)
            c += 64
        while c + 16 <= width:
            _gather(col, value, a, out, i, crow[i], crow[i + 1], c, 16)
            c += 16
        while c < width:
            _gather(col, value, a, out, i, crow[i], crow[i + 1], c, 1)
            c += 1


def spmm(
    crow: Tensor, col: Tensor, value: Tensor, a: Tensor, out: Tensor | None = None, *, some_rows: bool = False
) -> Tensor:
    r"""The sparse product :math:`S a`, O(nnz c).

    Args:
        crow: ``[rows + 1]`` int32 or int64: all rows of S, or a block of them.
        col: ``[nnz]``.
        value: ``[nnz]``.
        a: ``[n, c]`` float32 or float64. Rows may be apart (one step of a trajectory), at 1.5 times the time.
        out: ``[rows, c]``, not ``a`` itself.
        some_rows: Whether these are some rows of S, not all n of them.
    """
    num_rows, width = len(crow) - 1, a.size(1)
    shape = (len(a) if some_rows else num_rows, width)
    out = empty(num_rows, width, dtype=a.dtype) if out is None else out
    arrays = (crow.numpy(), col.numpy(), value.numpy(), _check("a", a, *shape), _check("out", out, num_rows, width))
    _run(_spmm_kernel, _cuts(arrays[0] + np.arange(len(crow)), 1 << 14), *arrays)  # an empty row costs something too
    return out


@njit(inline="always")
def _at(a, i, j):
    """One number, without the look at negative indices that `a[i, j]` begins with."""
    return _lane(_load(a, (i, j), 1), 0)


@_helper
def _add_gram_in_fours(a, rows, g):
    """g += aᵀ a over the first rows: the upper triangle, in tiles of 4 x 8 that stay in registers."""
    for j in range(0, a.shape[1], 8):
        for i in range(0, j + 8, 4):
            s0, s1, s2, s3 = _load4(g, i, j, 8)
            for r in range(rows):
                left, right = _load(a, (r, i), 4), _load(a, (r, j), 8)
                s0 = _fma(s0, _lane(left, 0), right)
                s1 = _fma(s1, _lane(left, 1), right)
                s2 = _fma(s2, _lane(left, 2), right)
                s3 = _fma(s3, _lane(left, 3), right)
            _store4(s0, s1, s2, s3, g, i, j)


@_helper
def _add_gram_in_eights(a, rows, g):
    """The same sums in tiles of 8 x 8."""
    for j in range(0, a.shape[1], 8):
        for i in range(0, j + 8, 8):
            s0, s1, s2, s3 = _load4(g, i, j, 8)
            s4, s5, s6, s7 = _load4(g, i + 4, j, 8)
            for r in range(rows):
                right = _load(a, (r, j), 8)
                s0 = _fma(s0, _at(a, r, i), right)
                s1 = _fma(s1, _at(a, r, i + 1), right)
                s2 = _fma(s2, _at(a, r, i + 2), right)
                s3 = _fma(s3, _at(a, r, i + 3), right)
                s4 = _fma(s4, _at(a, r, i + 4), right)
                s5 = _fma(s5, _at(a, r, i + 5), right)
                s6 = _fma(s6, _at(a, r, i + 6), right)
                s7 = _fma(s7, _at(a, r, i + 7), right)
            _store4(s0, s1, s2, s3, g, i, j)
            _store4(s4, s5, s6, s7, g, i + 4, j)


_add_gram = _add_gram_in_eights if _WIDE else _add_gram_in_fours


@_kernel
def _gram_kernel(a, partial, piece, first, last):
    rows = _buffer(partial, _ROWS, partial.shape[2])
    for b in range(a.shape[1]):
        for start in range(first, last, _ROWS):
            count = min(_ROWS, last - start)
            for r in range(count):
                for c in range(a.shape[2]):
                    rows[r, c] = a[start + r, b, c]
            _add_gram(rows, count, partial[piece, b])


def gram(a: Tensor) -> Tensor:
    r"""The Gram matrix :math:`a^\top a` in float64, where products of float32 are exact. O(n k²) / 2.

    Args:
        a: ``[n, k]``, or ``[n, B, k]`` for one matrix a trajectory.

    Returns:
        ``[k, k]`` or ``[B, k, k]``, the same bits on any number of threads.
    """
    if a.dim() == 2:
        return gram(a[:, None])[0]
    n, num_trajectories, k = a.shape
    bounds = _cuts(np.arange(n + 1), 1 << 11)
    partial = np.zeros((len(bounds) - 1, num_trajectories, _padded(k), _padded(k)))
    _run(_gram_kernel, bounds, _check("a", a, *a.shape), partial)
    upper = np.triu(partial.sum(0)[:, :k, :k])
    return torch.from_numpy(upper + np.triu(upper, 1).transpose(0, 2, 1))


@_helper
def _times_upper_in_fours(a, rows, w, out):
    """out = a w over the first rows, w upper triangular; up to ``_TALL - 1`` rows more are written."""
    for j in range(0, a.shape[1], 8):
        for r in range(0, rows, 4):
            s0 = _zeros(a, 8)
            s1, s2, s3 = s0, s0, s0
            for i in range(0, j + 8, 4):
                a0, a1, a2, a3 = _load4(a, r, i, 4)
                w0, w1, w2, w3 = _load4(w, i, j, 8)
                s0 = _fma4(s0, a0, w0, w1, w2, w3)
                s1 = _fma4(s1, a1, w0, w1, w2, w3)
                s2 = _fma4(s2, a2, w0, w1, w2, w3)
                s3 = _fma4(s3, a3, w0, w1, w2, w3)
            _store4(s0, s1, s2, s3, out, r, j)


@njit(inline="always")
def _tile_of_eight(a, r, w, j, out, lanes):
    s0 = _zeros(a, lanes)
    s1, s2, s3, s4, s5, s6, s7 = s0, s0, s0, s0, s0, s0, s0
    for i in range(j + lanes):
        right = _load(w, (i, j), lanes)
        s0 = _fma(s0, _at(a, r, i), right)
        s1 = _fma(s1, _at(a, r + 1, i), right)
        s2 = _fma(s2, _at(a, r + 2, i), right)
        s3 = _fma(s3, _at(a, r + 3, i), right)
        s4 = _fma(s4, _at(a, r + 4, i), right)
        s5 = _fma(s5, _at(a, r + 5, i), right)
        s6 = _fma(s6, _at(a, r + 6, i), right)
        s7 = _fma(s7, _at(a, r + 7, i), right)
    _store4(s0, s1, s2, s3, out, r, j)
    _store4(s4, s5, s6, s7, out, r + 4, j)


@_helper
def _times_upper_in_eights(a, rows, w, out):
    """The same sums, eight rows at a time and 64 bytes of each."""
    j, width = 0, a.shape[1]
    while a.itemsize == 4 and j + 16 <= width:
        for r in range(0, rows, 8):
            _tile_of_eight(a, r, w, j, out, 16)
        j += 16
    while j < width:
        for r in range(0, rows, 8):
            _tile_of_eight(a, r, w, j, out, 8)
        j += 8


_times_upper = _times_upper_in_eights if _WIDE else _times_upper_in_fours


@_kernel
def _apply_kernel(a, w, out, piece, first, last):
    rows, product = _buffer(a, _ROWS, w.shape[2]), _buffer(a, _ROWS, w.shape[2])
    for b in range(a.shape[1]):
        for start in range(first, last, _ROWS):
            count = min(_ROWS, last - start)
            for r in range(count):
                for c in range(a.shape[2]):
                    rows[r, c] = a[start + r, b, c]
            _times_upper(rows, count, w[b], product)
            for r in range(count):
                for c in range(a.shape[2]):
                    out[start + r, b, c] = product[r, c]


def apply(a: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    r"""The product :math:`a W` with an upper triangular :math:`W`, in the precision of ``a``. O(n k²) / 2.

    Args:
        a: ``[n, k]``, or ``[n, B, k]``.
        weight: ``[k, k]``, or ``[B, k, k]``; entries below the diagonal are taken to be zero.
        out: Like ``a``; may be ``a``, or one step of a trajectory.
    """
    out = empty(*a.shape, dtype=a.dtype) if out is None else out
    if a.dim() == 2:
        apply(a[:, None], weight[None], out[:, None])
        return out
    n, num_trajectories, k = a.shape
    padded = np.zeros((num_trajectories, _padded(k), _padded(k)), _check("a", a, *a.shape).dtype)
    padded[:, :k, :k] = np.triu(weight.numpy())
    _run(_apply_kernel, _cuts(np.arange(n + 1), 1 << 11), a.numpy(), padded, _check("out", out, *a.shape))
    return out


@njit(inline="always")
def _clear(a, rows):
    for r in range(rows):
        for c in range(0, a.shape[1], 8):
            _store(_zeros(a, 8), a, (r, c))


@_helper
def _inverse_factor(g, k, least, noise, alpha, w):
    """w = R⁻¹ for g = Rᵀ R (overwritten by R); returns ||w||_F², or infinity at the first pivot R_ii² <= least, or
    R_ii <= noise times the amplification of rounding (``alpha``, squared; rfp.rounding), so the first in doubt.

    A zero column of a stays one: there R_ii = 0 and column i of w is zero.
    """
    alpha[:] = 1.0
    for i in range(k):
        for c in range(i - i % 8, g.shape[1], 8):
            row = _load(g, (i, c), 8)
            for j in range(i):
                row = _fma(row, -g[j, i], _load(g, (j, c), 8))
            _store(row, g, (i, c))
        if g[i, i] == 0.0:
            w[i, i] = 0.0
        elif g[i, i] > least and g[i, i] > noise * noise * alpha[i]:
            w[i, i] = 1.0 / np.sqrt(g[i, i])
        else:
            return np.inf
        for c in range(i - i % 8, g.shape[1], 8):
            _store(_fma(_zeros(g, 8), w[i, i], _load(g, (i, c), 8)), g, (i, c))
        z = alpha[i] * w[i, i] ** 2
        for c in range(i - i % 8, g.shape[1], 8):
            row = _load(g, (i, c), 8)
            _store(_fma(_load(alpha, (c,), 8), z, _fma(_zeros(g, 8), row, row)), alpha, (c,))
    squares, total = _zeros(g, 8), 0.0
    for i in range(k - 1, -1, -1):  # w_i = (e_i - sum_{j > i} R_ij w_j) / R_ii
        pivot = w[i, i]
        total += pivot * pivot
        for c in range(i - i % 8, g.shape[1], 8):
            row = _zeros(w, 8)
            for j in range(i + 1, min(c + 8, k)):
                row = _fma(row, g[i, j], _load(w, (j, c), 8))
            row = _fma(_zeros(w, 8), -pivot, row)
            squares = _fma(squares, row, row)
            _store(row, w, (i, c))
        w[i, i] = pivot
    return total + _sum(squares)


@_helper
def _gram_schmidt(a, n, k, threshold, noise, alpha, coefficients, q):
    """q = Gram-Schmidt basis of a (overwritten); a residual <= threshold, or <= noise times its amplification, leaves a
    zero column.

    Every column is projected twice, which is enough: a new q_i is taken out of all later columns at once, along memory;
    and each column is projected on all of q once more before its length is judged.
    """
    _clear(q, n)
    alpha[:] = 1.0
    rank = 0
    for i in range(k):
        if rank == n:
            return
        for c in range(0, i, 8):
            row = _zeros(q, 8)
            for r in range(n):
                row = _fma(row, a[r, i], _load(q, (r, c), 8))
            _store(row, coefficients, (c,))
        squares = 0.0
        for r in range(n):
            row = _zeros(q, 8)
            for c in range(0, i, 8):
                row = _fma(row, _load(coefficients, (c,), 8), _load(q, (r, c), 8))
            a[r, i] -= _sum(row)
            squares += a[r, i] ** 2
        length = np.sqrt(squares)
        if length <= threshold or length <= noise * np.sqrt(alpha[i]):
            continue
        rank += 1
        z = alpha[i] / squares
        for r in range(n):
            q[r, i] = a[r, i] / length
        for c in range(i - i % 8, a.shape[1], 8):
            row = _zeros(q, 8)
            for r in range(n):
                row = _fma(row, q[r, i], _load(a, (r, c), 8))
            _store(_fma(_load(alpha, (c,), 8), z, _fma(_zeros(q, 8), row, row)), alpha, (c,))
            for r in range(n):
                _store(_fma(_load(a, (r, c), 8), -q[r, i], row), a, (r, c))


@_helper
def _normalize(a, n, k, orthogonal, twice, tolerance, lengths, noise, g, w, out):
    """out = N(a) for one graph (a is overwritten); returns the number of zero columns it leaves.

    ``lengths`` are the norms of the columns, ``noise`` is what they owe to rounding, ``[width]`` each; the latter is
    overwritten.
    """
    trace, largest, loudest = 0.0, 0.0, 0.0
    for i in range(k):
        trace, largest, loudest = trace + lengths[i] ** 2, max(largest, lengths[i]), max(loudest, noise[i])
    if not orthogonal or not np.isfinite(trace):  # what is not finite becomes NaN: the caller sees it
        for i in range(k):
            w[0, i] = 0.0 if lengths[i] <= noise[i] else 1.0 / lengths[i]
        for r in range(n):
            for c in range(0, g.shape[1], 8):
                _store(_fma(_zeros(g, 8), _load(w, (0, c), 8), _load(a, (r, c), 8)), out, (r, c))
    else:
        _clear(g, g.shape[0])
        _add_gram(a, n, g)
        threshold = tolerance * largest
        least = max(trace / _MAX_CONDITION**2, threshold**2)
        if trace * _inverse_factor(g, k, least, loudest, noise, w) <= _MAX_CONDITION**2:
            _times_upper(a, n, w, out)
            if twice:
                for r in range(n):
                    for c in range(0, g.shape[1], 8):
                        _store(_load(out, (r, c), 8), a, (r, c))
                _clear(g, g.shape[0])
                _add_gram(a, n, g)
                _inverse_factor(g, k, 0.0, 0.0, noise, w)
                _times_upper(a, n, w, out)
        else:
            _gram_schmidt(a, n, k, threshold, loudest, noise, g[0], out)
    zeros = k
    for c in range(k):
        for r in range(n):
            if out[r, c] != 0.0:
                zeros -= 1
                break
    return zeros


@_helper
def _lengths(a, n, lengths):
    """The norms of the columns."""
    for c in range(0, a.shape[1], 8):
        squares = _zeros(a, 8)
        for r in range(n):
            row = _load(a, (r, c), 8)
            squares = _fma(squares, row, row)
        _store(squares, lengths, (c,))
    for c in range(a.shape[1]):
        lengths[c] = np.sqrt(lengths[c])


@_helper
def _add_rounding(unit, before, after, noise):
    """What a product adds to the noise of the columns, given their lengths before and after (rfp.rounding)."""
    for c in range(len(noise)):
        noise[c] = (noise[c] * (after[c] / before[c]) + unit * before[c]) if before[c] > 0.0 else 0.0


@_helper
def _multiply(crow, col, value, first, n, x, y):
    """y = S x for the graph of n nodes that starts at node ``first``."""
    width = x.shape[1]
    for r in range(n):
        for c in range(0, width - 8, 16):
            pair = _zeros(y, 16)
            for e in range(crow[first + r], crow[first + r + 1]):
                pair = _fma(pair, value[e], _load(x, (col[e] - first, c), 16))
            _store(pair, y, (r, c))
        for c in range(width - width % 16, width, 8):
            single = _zeros(y, 8)
            for e in range(crow[first + r], crow[first + r + 1]):
                single = _fma(single, value[e], _load(x, (col[e] - first, c), 8))
            _store(single, y, (r, c))


@_helper
def _record(a, n, k, out, first, b, o, p):
    for r in range(n):
        for c in range(0, k - 7, 8):
            _store(_load(a, (r, c), 8), out, (first + r, b, o, p, c))
        for c in range(k - k % 8, k):
            out[first + r, b, o, p, c] = a[r, c]


@_kernel
def _small_graphs_kernel(
    crow, col, values, ptr, features, every, code, tolerance, units, out, zeros, piece, start, stop
):
    k = features.shape[2]
    width, largest, twice = (k + 7) // 8 * 8, 0, features.itemsize == 8
    for graph in range(start, stop):
        largest = max(largest, ptr[graph + 1] - ptr[graph])
    x, y = (
        _buffer(units, largest + _TALL - 1, width),
        _buffer(units, largest + _TALL - 1, width),
    )  # as _times_upper writes
    g, w = _buffer(units, width, width), _buffer(units, width, width)
    before, after, noise = _buffer(units, 1, width)[0], _buffer(units, 1, width)[0], _buffer(units, 1, width)[0]
    for graph in range(start, stop):
        first, n = ptr[graph], ptr[graph + 1] - ptr[graph]
        for o in range(values.shape[0]):
            for b in range(features.shape[1]):
                for r in range(n):
                    for c in range(k):
                        x[r, c] = features[first + r, b, c]
                _record(x, n, k, out, first, b, o, 0)
                _lengths(x, n, before)
                noise[:] = 0.0
                for p in range(1, out.shape[3]):
                    _multiply(crow, col, values[o], first, n, x, y)
                    if code != 0:
                        _lengths(y, n, after)
                        _add_rounding(units[o, graph], before, after, noise)
                    if code != 0 and p % every == 0:
                        zeros[piece, o] += _normalize(y, n, k, code == 2, twice, tolerance, after, noise, g, w, x)
                        before[:] = 1.0
                        noise[:] = 0.0
                    else:
                        x, y = y, x
                        before, after = after, before
                    _record(x, n, k, out, first, b, o, p)


def small_graphs(
    crow: Tensor,
    col: Tensor,
    values: Tensor,
    ptr: Tensor,
    features: Tensor,
    num_steps: int,
    normalize_every: int,
    normalization: int,
    tolerance: float,
    units: Tensor,
    out: Tensor,
) -> Tensor:
    r"""The trajectories of many small graphs (Eq. 1-2), one graph at a time in cache and in float64.

    The QR of a graph is that of :func:`rfp.normalization.qr`: :math:`R_{ii} > 0`, and a column whose residual is at
    most ``tolerance`` times the largest column norm, or may be rounding, becomes zero. It is computed as
    :math:`q = a R^{-1}` with :math:`R^\top R = a^\top a` where the condition number allows, else by Gram-Schmidt run
    twice.

    Args:
        crow: ``[n + 1]`` rows of the block-diagonal batch operator.
        col: ``[nnz]``.
        values: ``[O, nnz]``, operators on the same pattern.
        ptr: ``[num_graphs + 1]``.
        features: ``[n, B, k]`` float32 or float64.
        num_steps: P.
        normalize_every: w.
        normalization: 0 none, 1 l2, 2 qr.
        tolerance: See above.
        units: ``[O, num_graphs]`` float64, the rounding of a product (:class:`rfp.rounding.Rounding`).
        out: ``[n, B, O, P + 1, k]``, filled; axes but the last may be strided.

    Returns:
        ``[O]``, the zero columns after each normalisation, summed over steps, graphs and trajectories.

    O(P O B (nnz k + n k²)); memory beside ``out``: two states of the largest graph a thread.
    """
    n, num_trajectories, k = features.shape
    bounds = _cuts(ptr.numpy(), 1 << 9)
    zeros = np.zeros((len(bounds) - 1, len(values)), np.int64)
    _run(
        _small_graphs_kernel,
        bounds,
        crow.numpy(),
        col.numpy(),
        _check("values", values, len(values), len(col)),
        ptr.numpy(),
        _check("features", features, len(crow) - 1, num_trajectories, k),
        normalize_every,
        normalization,
        tolerance,
        _check("units", units, len(values), len(ptr) - 1),
        _check("out", out, n, num_trajectories, len(values), num_steps + 1, k),
        zeros,
    )
    return torch.from_numpy(zeros.sum(0))
