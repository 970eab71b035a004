"""Scores without randomness, for as many pairs as one has time for: sparse rows and blocks of columns, never A²."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.graph import Graph
from rfp.links.definitions import ScoreForm

# Entries of gathered rows, or of a dense block of columns, at a time.
_BLOCK_ENTRIES = 1 << 24

PairsTold = Callable[[int, int], None]
"""Told how much is done, and of how much."""


def exact_pairs(graph: Graph, form: ScoreForm, pairs: Tensor, progress: PairsTold) -> Tensor:
    r"""Scores of pairs of nodes, ``[p]`` float64.

    Scores of common neighbours intersect two sorted rows for each pair, :math:`O(d_u + d_v)`. Katz propagates the
    indicator of every distinct first (or second, if those are fewer) node, O(L m) each.
    """
    ends = pairs.cpu().numpy()
    matrix = adjacency(graph)
    if form.length == 2 and not form.direct:
        return torch.from_numpy(_by_rows(matrix, form, ends, progress)).to(graph.device)
    return torch.from_numpy(_by_columns(matrix, form, ends, progress)).to(graph.device)


def adjacency(graph: Graph) -> sp.csr_array:
    """A of a simple graph in float64, without stored zeros."""
    matrix = graph.pattern.to_scipy().copy()
    matrix.eliminate_zeros()
    return matrix


def _by_rows(
    matrix: sp.csr_array, form: ScoreForm, ends: NDArray[np.int64], progress: PairsTold
) -> NDArray[np.float64]:
    degree = np.diff(matrix.indptr)
    weight = form.weight.cpu().numpy()
    values = np.zeros(ends.shape[1])
    for low, high in blocks_by_size(degree[ends[0]] + degree[ends[1]]):
        u, v = ends[:, low:high]
        values[low:high] = matrix[u].multiply(matrix[v]) @ weight
        progress(high, ends.shape[1])
    return values


def _by_columns(
    matrix: sp.csr_array, form: ScoreForm, ends: NDArray[np.int64], progress: PairsTold
) -> NDArray[np.float64]:
    distinct = [np.unique(side, return_inverse=True) for side in ends]
    side = int(len(distinct[1][0]) < len(distinct[0][0]))
    nodes, number = distinct[side]
    other = ends[1 - side]
    order = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[order], np.arange(len(nodes) + 1))
    values = np.zeros(ends.shape[1])
    for low, columns in walk_columns(matrix, form, nodes):
        rows = order[bounds[low] : bounds[low + columns.shape[1]]]
        values[rows] = columns[other[rows], number[rows] - low]
        progress(low + columns.shape[1], len(nodes))
    return values


def walk_columns(
    matrix: sp.csr_array, form: ScoreForm, nodes: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The columns of the score's matrix for these nodes, a dense block ``[n, b]`` at a time with its first number."""
    n = matrix.shape[0]
    size = max(1, _BLOCK_ENTRIES // max(n, 1))
    weight = form.weight.cpu().numpy()
    first = form.decay * matrix
    later = first if form.length > 2 else first.multiply(weight[None, :]).tocsr()  # W is the identity of longer walks
    for low in range(0, len(nodes), size):
        some = nodes[low : low + size]
        step = first[:, some].toarray()
        total = form.direct / form.decay * step
        for _ in range(2, form.length + 1):
            step = later @ step
            total += step
        yield low, total


def blocks_by_size(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Consecutive ranges whose sizes add up to about :data:`_BLOCK_ENTRIES`, at least one item each."""
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        before = ends[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(ends, before + _BLOCK_ENTRIES, side="right")))
        yield low, high
        low = high
