"""Many small graphs on a CPU: the whole trajectory of a graph in cache, operators of one pattern together.

A CSR matrix is trusted, no index of it is checked; the shapes of the others are.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from torch import Tensor

from rfp.backends.compiled.dense_products import TALL
from rfp.backends.compiled.drawn_features import compiled_features
from rfp.backends.compiled.normalized_columns import gram_and_squares, normalize_columns
from rfp.backends.compiled.pieces import as_array, equal_work, run_pieces
from rfp.backends.compiled.vectors import aligned_zeros, fma, of_width, vload, vstore, vzeros
from rfp.backends.problem import NORMALIZATION_CODES, Draw, Problem, tell_nobody
from rfp.compiled.cached import helper, kernel
from rfp.normalization import Events, dependence_tolerance
from rfp.operators import MatrixOperator
from rfp.pages import empty

# Columns, filled up to whole vectors, for which a kernel of its own is compiled that knows their number: the k of the
# paper's molecules. It takes three quarters of the time of the one for any other.
_KNOWN_WIDTH = 16


def compiled_trajectory(
    problem: Problem, storage_dtype: torch.dtype, done: Callable[[int], None] = tell_nobody
) -> tuple[Tensor, Events]:
    """The trajectory of all operators, ``[n, B, O, P + 1, k]``, equal to the reference up to rounding.

    O(P O (m k B + n k² B)); the states of a graph never leave the cache except to be stored.
    """
    operators = cast("tuple[MatrixOperator, ...]", problem.operators)
    b, n, k = problem.shape
    steps = problem.num_steps
    drawn = compiled_features(problem.source) if isinstance(problem.source, Draw) else problem.features.transpose(0, 1)
    features = drawn.contiguous()
    out = empty(n, b, len(operators), steps + 1, k, dtype=features.dtype)
    units, zeros = problem.rounding_units(), 0
    for start, stop in _runs_of_one_pattern(operators):
        csr = operators[start].csr
        found = small_graphs(
            csr.crow,
            csr.col,
            torch.stack([operator.csr.value for operator in operators[start:stop]]),
            problem.ptr,
            features,
            steps,
            problem.normalize_every,
            NORMALIZATION_CODES[cast(str, problem.normalization)],
            dependence_tolerance(features.dtype),
            units[start:stop],
            out[:, :, start:stop],
        )
        zeros += int(found.sum())
        done(steps * (stop - start))
    events = {"dependent_columns" if problem.normalization == "qr" else "zero_columns": zeros}
    return out if storage_dtype == out.dtype else out.to(storage_dtype), events


def _runs_of_one_pattern(operators: tuple[MatrixOperator, ...]) -> list[tuple[int, int]]:
    """Consecutive operators that share their index tensors, as (first, last + 1)."""
    runs, first = [], 0
    for i in range(1, len(operators) + 1):
        if i == len(operators) or operators[i].csr.col is not operators[first].csr.col:
            runs.append((first, i))
            first = i
    return runs


@helper
def _column_squares(a, n, squares):
    """The sums of squares of the columns."""
    for c in range(0, a.shape[1], 8):
        total = vzeros(a, 8)
        for r in range(n):
            row = vload(a, (r, c), 8)
            total = fma(total, row, row)
        vstore(total, squares, (c,))


@helper
def _add_rounding(unit, before, after, noise):
    """What a product adds to the noise of the columns, given their squares before and after (rfp.rounding)."""
    for c in range(len(noise)):
        length = np.sqrt(before[c])
        noise[c] = (noise[c] * (np.sqrt(after[c]) / length) + unit * length) if length > 0.0 else 0.0


@helper
def _own_rows(crow, col, value, first, n, entries):
    """The rows of one graph in its own node numbers and in float64, for all of its steps."""
    begin, place, weight = entries
    start = crow[first]
    for r in range(n + 1):
        begin[r] = crow[first + r] - start
    for e in range(begin[n]):
        place[e], weight[e] = col[start + e] - first, value[start + e]


@helper
def _multiply(entries, n, x, y):
    """y = S x for one graph."""
    begin, place, weight = entries
    width = x.shape[1]
    for r in range(n):
        # Unsigned, which spares the look at negative indices.
        row = range(np.uint64(begin[r]), np.uint64(begin[r + 1]))
        for c in range(0, width - 8, 16):
            pair = vzeros(y, 16)
            for e in row:
                pair = fma(pair, weight[e], vload(x, (place[e], c), 16))
            vstore(pair, y, (r, c))
        for c in range(width - width % 16, width, 8):
            single = vzeros(y, 8)
            for e in row:
                single = fma(single, weight[e], vload(x, (place[e], c), 8))
            vstore(single, y, (r, c))


@helper
def _record(a, n, k, out, first, b, o, p):
    for r in range(n):
        for c in range(0, k - 7, 8):
            vstore(vload(a, (r, c), 8), out, (first + r, b, o, p, c))
        for c in range(k - k % 8, k):
            out[first + r, b, o, p, c] = a[r, c]


@helper
def _trajectory(entries, first, n, features, b, every, code, tolerance, unit, out, o, space):
    """One graph, one operator and one trajectory; returns the number of zero columns after its normalisations."""
    x, y, g, w, before, after, noise = space
    k, zeros, twice = features.shape[2], 0, features.itemsize == 8
    for r in range(n):
        for c in range(k):
            x[r, c] = features[first + r, b, c]
    _record(x, n, k, out, first, b, o, 0)
    _column_squares(x, n, before)
    noise[:] = 0.0
    to_go, just_normalized = every, False
    for p in range(1, out.shape[3]):
        _multiply(entries, n, x, y)
        to_go -= 1
        orthogonal, normalizes = code == 2 and to_go == 0, code != 0 and to_go == 0
        if orthogonal:
            gram_and_squares(y, n, g, after)
        elif code != 0:
            _column_squares(y, n, after)
        if just_normalized:  # columns of length 1 and without noise
            noise[:] = unit
        elif code != 0:
            _add_rounding(unit, before, after, noise)
        just_normalized = normalizes
        if normalizes:
            zeros += normalize_columns(y, n, k, orthogonal, twice, tolerance, after, noise, g, w, x)
            to_go = every
        else:
            x, y = y, x
            before, after = after, before
        _record(x, n, k, out, first, b, o, p)
    return zeros


@kernel
def _small_graphs_kernel(
    crow, col, values, ptr, features, every, code, tolerance, units, out, zeros, known_width, piece, start, stop
):
    width, largest, most = (features.shape[2] + 7) // 8 * 8, 0, 0
    for graph in range(start, stop):
        largest = max(largest, ptr[graph + 1] - ptr[graph])
        most = max(most, crow[ptr[graph + 1]] - crow[ptr[graph]])
    rows = largest + TALL - 1  # as multiply_upper writes
    entries = np.zeros(largest + 1, np.int64), np.zeros(most, np.int64), np.zeros(most)
    space = (
        of_width(aligned_zeros(units, rows, width), known_width),
        of_width(aligned_zeros(units, rows, width), known_width),
        of_width(aligned_zeros(units, width, width), known_width),
        of_width(aligned_zeros(units, width, width), known_width),
        of_width(aligned_zeros(units, 1, width)[0], known_width),
        of_width(aligned_zeros(units, 1, width)[0], known_width),
        of_width(aligned_zeros(units, 1, width)[0], known_width),
    )
    for graph in range(start, stop):
        first, n = ptr[graph], ptr[graph + 1] - ptr[graph]
        for o in range(values.shape[0]):
            _own_rows(crow, col, values[o], first, n, entries)
            for b in range(features.shape[1]):
                zeros[piece, o] += _trajectory(
                    entries, first, n, features, b, every, code, tolerance, units[o, graph], out, o, space
                )


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
        values: ``[O, nnz]`` float32 or float64, operators on the same pattern.
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
    bounds = equal_work(ptr.numpy(), 1 << 9)
    zeros = np.zeros((len(bounds) - 1, len(values)), np.int64)
    run_pieces(
        _small_graphs_kernel,
        bounds,
        crow.numpy(),
        col.numpy(),
        as_array("values", values, len(values), len(col)),
        ptr.numpy(),
        as_array("features", features, len(crow) - 1, num_trajectories, k),
        normalize_every,
        normalization,
        tolerance,
        as_array("units", units, len(values), len(ptr) - 1),
        as_array("out", out, n, num_trajectories, len(values), num_steps + 1, k),
        zeros,
        (0,) * _KNOWN_WIDTH if _KNOWN_WIDTH - 8 < k <= _KNOWN_WIDTH else (),
    )
    return torch.from_numpy(zeros.sum(0))
