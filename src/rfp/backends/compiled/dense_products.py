"""Tall matrices times small ones on a CPU: the Gram matrix of a state, and a state times an upper triangle."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor

from rfp.backends.compiled.pieces import as_array, equal_rows, run_pieces
from rfp.backends.compiled.vectors import (
    MIDDLE,
    WIDE,
    add_product,
    add_transposed,
    aligned_zeros,
    clear_rows,
    eight_zeros,
    fence,
    fma,
    fma_of_four,
    half_of_eight,
    lane,
    vload,
    vload_eight,
    vload_rows,
    vstore,
    vstore_eight,
    vstore_past_cache,
    vstore_rows,
    vzeros,
)
from rfp.compiled.cached import helper, kernel
from rfp.pages import empty

# Rows copied into a buffer for a dense product: as doubles, 64 columns wide, half of a first-level cache.
_ROWS = 32 if WIDE else 64
# Rows that a dense product takes at a time, and so may write beyond the last.
TALL = 8 if WIDE else 4


def _padded_width(k: int) -> int:
    """k columns in whole vectors."""
    return (k + 7) // 8 * 8


@helper
def _copy_rows(source, rows, width, target):
    """The first numbers of the first rows, in the type of the target."""
    whole = width - width % 16
    for r in range(rows):
        for c in range(0, whole, 16):
            vstore(vload(source, (r, c), 16), target, (r, c))
        for c in range(whole, width):
            target[r, c] = source[r, c]


@helper
def _copy_rows_past_cache(source, rows, width, target):
    """The same for rows of whole cache lines."""
    for r in range(rows):
        for c in range(0, width, 64 // source.itemsize):
            if source.itemsize == 4:
                vstore_past_cache(vload(source, (r, c), 16), target, (r, c))
            else:
                vstore_past_cache(vload(source, (r, c), 8), target, (r, c))


@helper
def _add_gram_in_fours(a, rows, g):
    """g += aᵀ a over the first rows: the upper triangle, in tiles of 4 x 8 that stay in registers."""
    for j in range(0, a.shape[1], 8):
        for i in range(0, j + 8, 4):
            s0, s1, s2, s3 = vload_rows(g, i, j, 8)
            for r in range(rows):
                left, right = vload(a, (r, i), 4), vload(a, (r, j), 8)
                s0 = fma(s0, lane(left, 0), right)
                s1 = fma(s1, lane(left, 1), right)
                s2 = fma(s2, lane(left, 2), right)
                s3 = fma(s3, lane(left, 3), right)
            vstore_rows(s0, s1, s2, s3, g, i, j)


@njit(inline="always")
def _gram_tile_of_eight(a, rows, i, j, g, lanes):
    vstore_eight(add_transposed(vload_eight(g, i, j, lanes), a, i, a, j, 0, rows, lanes), g, i, j)


@helper
def _add_gram_in_eights(a, rows, g):
    """The same sums in tiles of 8 x 16, where a number is fetched once for two multiplications, and of 8 x 8."""
    j, width = 0, a.shape[1]
    while j + 16 <= width:
        for i in range(0, j + 8, 8):
            _gram_tile_of_eight(a, rows, i, j, g, 16)
        _gram_tile_of_eight(a, rows, j + 8, j + 8, g, 8)
        j += 16
    if j < width:
        for i in range(0, j + 8, 8):
            _gram_tile_of_eight(a, rows, i, j, g, 8)


accumulate_gram = _add_gram_in_eights if WIDE else _add_gram_in_fours


@kernel
def _gram_kernel(a, partial, piece, first, last):
    width = partial.shape[2]
    rows, g = aligned_zeros(partial, _ROWS, width), aligned_zeros(partial, width, width)
    for b in range(a.shape[1]):
        clear_rows(g, width)
        for start in range(first, last, _ROWS):
            count = min(_ROWS, last - start)
            _copy_rows(a[start : start + count, b], count, a.shape[2], rows)
            accumulate_gram(rows, count, g)
        _copy_rows(g, width, width, partial[piece, b])


def gram_matrix(a: Tensor) -> Tensor:
    r"""The Gram matrix :math:`a^\top a` in float64, where products of float32 are exact. O(n k²) / 2.

    Args:
        a: ``[n, k]``, or ``[n, B, k]`` for one matrix a trajectory.

    Returns:
        ``[k, k]`` or ``[B, k, k]``, the same bits on any number of threads.
    """
    if a.dim() == 2:
        return gram_matrix(a[:, None])[0]
    n, num_trajectories, k = a.shape
    bounds = equal_rows(n, 1 << 11)
    partial = np.zeros((len(bounds) - 1, num_trajectories, _padded_width(k), _padded_width(k)))
    run_pieces(_gram_kernel, bounds, as_array("a", a, *a.shape), partial)
    upper = np.triu(partial.sum(0)[:, :k, :k])
    return torch.from_numpy(upper + np.triu(upper, 1).transpose(0, 2, 1))


@njit(inline="always")
def _tile_of_four(a, r, w, j, out, lanes):
    s0 = vzeros(a, lanes)
    s1, s2, s3 = s0, s0, s0
    for i in range(0, j + lanes, 4):
        a0, a1, a2, a3 = vload_rows(a, r, i, 4)
        w0, w1, w2, w3 = vload_rows(w, i, j, lanes)
        s0 = fma_of_four(s0, a0, w0, w1, w2, w3)
        s1 = fma_of_four(s1, a1, w0, w1, w2, w3)
        s2 = fma_of_four(s2, a2, w0, w1, w2, w3)
        s3 = fma_of_four(s3, a3, w0, w1, w2, w3)
    vstore_rows(s0, s1, s2, s3, out, r, j)


@helper
def _multiply_upper_in_fours(a, rows, w, out):
    """out = a w over the first rows, w upper triangular; up to ``TALL - 1`` rows more are written."""
    j, width = 0, a.shape[1]
    while MIDDLE and a.itemsize == 4 and j + 16 <= width:
        for r in range(0, rows, 4):
            _tile_of_four(a, r, w, j, out, 16)
        j += 16
    while j < width:
        for r in range(0, rows, 4):
            _tile_of_four(a, r, w, j, out, 8)
        j += 8


@njit(inline="always")
def _tile_of_eight(a, r, w, j, out, lanes):
    vstore_eight(add_product(eight_zeros(a, lanes), a, r, w, j, 0, j + lanes, lanes), out, r, j)


@njit(inline="always")
def _tile_at_the_diagonal(a, r, w, j, out):
    """Sixteen columns, the first eight of which are zero in the last eight rows of w."""
    both = add_product(eight_zeros(a, 16), a, r, w, j, 0, j + 8, 16)
    second = add_product(half_of_eight(both, 1), a, r, w, j + 8, j + 8, j + 16, 8)
    vstore_eight(half_of_eight(both, 0), out, r, j)
    vstore_eight(second, out, r, j + 8)


@helper
def _multiply_upper_in_eights(a, rows, w, out):
    """The same sums, eight rows at a time and 128 bytes of each while there are as many."""
    j, width = 0, a.shape[1]
    while a.itemsize == 4 and j + 32 <= width:
        for r in range(0, rows, 8):
            _tile_of_eight(a, r, w, j, out, 32)
        j += 32
    while j + 16 <= width:
        for r in range(0, rows, 8):
            _tile_at_the_diagonal(a, r, w, j, out)
        j += 16
    if j < width:
        for r in range(0, rows, 8):
            _tile_of_eight(a, r, w, j, out, 8)


multiply_upper = _multiply_upper_in_eights if WIDE else _multiply_upper_in_fours


@kernel
def _times_upper_kernel(a, w, out, kept, piece, first, last):
    k, width = a.shape[2], w.shape[2]
    rows, product = aligned_zeros(a, _ROWS, width), aligned_zeros(a, _ROWS, width)
    weight = aligned_zeros(a, width, width)
    for b in range(a.shape[1]):
        _copy_rows(w[b], width, width, weight)
        for start in range(first, last, _ROWS):
            count = min(_ROWS, last - start)
            _copy_rows(a[start : start + count, b], count, k, rows)
            multiply_upper(rows, count, weight, product)
            _copy_rows(product, count, k, out[start : start + count, b])
            if len(kept):
                _copy_rows_past_cache(product, count, k, kept[start : start + count, b])
    fence()


def _goes_past_cache(kept: Tensor) -> bool:
    """Whether a kernel writes this second result: rows of whole cache lines, which it can write without reading them.

    Otherwise one pass for both results takes longer than a copy afterwards does.
    """
    places = kept.data_ptr(), kept.size(-1) * kept.itemsize, *(step * kept.itemsize for step in kept.stride()[:-1])
    return (WIDE or MIDDLE) and all(place % 64 == 0 for place in places)


def times_upper(a: Tensor, weight: Tensor, out: Tensor | None = None, kept: Tensor | None = None) -> Tensor:
    r"""The product :math:`a W` with an upper triangular :math:`W`, in the precision of ``a``. O(n k²) / 2.

    Args:
        a: ``[n, k]``, or ``[n, B, k]``.
        weight: ``[k, k]``, or ``[B, k, k]``; entries below the diagonal are taken to be zero.
        out: Like ``a``; may be ``a``, or one step of a trajectory.
        kept: A second place for the result, one step of a trajectory that nobody reads before it is complete.
    """
    out = empty(*a.shape, dtype=a.dtype) if out is None else out
    if a.dim() == 2:
        times_upper(a[:, None], weight[None], out[:, None], None if kept is None else kept[:, None])
        return out
    n, num_trajectories, k = a.shape
    padded = np.zeros((num_trajectories, _padded_width(k), _padded_width(k)), as_array("a", a, *a.shape).dtype)
    padded[:, :k, :k] = np.triu(weight.numpy())
    both = kept is not None and _goes_past_cache(kept)
    second = as_array("kept", kept, *a.shape) if kept is not None and both else out[:0].numpy()
    arrays = a.numpy(), padded, as_array("out", out, *a.shape), second
    run_pieces(_times_upper_kernel, equal_rows(n, 1 << 11), *arrays)
    if kept is not None and not both:
        kept.copy_(out)
    return out
