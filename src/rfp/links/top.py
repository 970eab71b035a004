"""The pairs with the highest scores among those that are no edges, without a matrix of all pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.links.estimates import estimate_pairs, sketches
from rfp.links.exact import adjacency, blocks_by_size, walk_columns
from rfp.links.scores import LinkScores
from rfp.links.scoring import DEFAULT_DRAW, ScoreArguments, ScoreTask, Scoring
from rfp.precision import matmul_precision
from rfp.settings import as_integer, shows_settings

# Scores of a block of rows with all nodes: so many at a time.
_BLOCK_ENTRIES = 1 << 24


@shows_settings(ScoreArguments, Scoring, DEFAULT_DRAW)
def top_pairs(graph: Any, count: int, **arguments: Unpack[ScoreArguments]) -> LinkScores:
    r"""The ``count`` pairs with the highest scores that are no edges, highest first.

    Rows of the matrix of all scores are made a block at a time, and of each block the best are kept: memory is O(n T K)
    for the trajectories and a block, never n².

    The highest of many noisy numbers are high partly by their noise. So the pairs are chosen by one draw and their
    scores estimated by a second, independent one: the values are unbiased, and those of chance pairs fall back.

    Args:
        graph: See :func:`rfp.links.score_pairs`; so are all that follow but these two:
        count: How many pairs. There may be fewer: an exact list holds no pair with a score of 0.
        progress: Told how many rows of how many are done.

    Costs O(n² T K / 2) multiplications with K = k B samples. Exact: :math:`O(\sum_w d_w^2)`, Katz O(L m n).

    Raises:
        ArgumentError: Every pair of nodes is an edge.

    Example:
        >>> import rfp
        >>> edges = torch.tensor([[0, 0, 1, 1, 2, 3], [2, 3, 2, 3, 3, 4]])
        >>> best = top_pairs(rfp.Graph(torch.cat([edges, edges.flip(0)], dim=1), 5), 1)
        >>> best.pairs.tolist(), round(float(best.value), 4)
        ([[0], [1]], 2.0)
    """
    task = ScoreTask.of(graph, arguments)
    count = as_integer("count", count, 1)
    n = task.graph.num_nodes
    if task.graph.num_edges >= n * (n - 1):
        raise ArgumentError(f"every pair of the {n} nodes is an edge, so there is no link to look for")
    best = _Best(count, task.graph.device)
    if task.scoring.exact:
        by_rows = task.form.length == 2 and not task.form.direct
        (_search_rows if by_rows else _search_columns)(task, best)
        value = best.value.double()
        return LinkScores(best.pairs(n), value, torch.zeros_like(value), 0)
    _search_estimates(task, best)
    pairs, settings = best.pairs(n), task.settings
    value, error = estimate_pairs(task.graph, task.form, pairs, settings, first_trajectory=settings.num_trajectories)
    order = torch.argsort(value, descending=True, stable=True)
    return LinkScores(pairs[:, order], value[order], error[order], task.num_samples)


@dataclass
class _Best:
    """The highest values so far and their places ``u n + v``; of equal ones those seen first."""

    count: int
    device: torch.device
    value: Tensor = field(init=False)
    place: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.value = torch.zeros(0, dtype=torch.float64, device=self.device)
        self.place = torch.zeros(0, dtype=torch.int64, device=self.device)

    def offer(self, value: Tensor, place: Tensor) -> None:
        """Take in candidates, ``[c]`` each."""
        if len(self.value) == self.count:
            better = value > self.value[-1]
            value, place = value[better], place[better]
        merged = torch.cat([self.value, value.double()])
        order = torch.sort(merged, descending=True, stable=True).indices[: self.count]
        self.value, self.place = merged[order], torch.cat([self.place, place])[order]

    def pairs(self, num_nodes: int) -> Tensor:
        return torch.stack([self.place // num_nodes, self.place % num_nodes])


def _search_estimates(task: ScoreTask, best: _Best) -> None:
    graph, n = task.graph, task.graph.num_nodes
    factors = [sketch.factors() for sketch in sketches(graph, task.form, task.settings)]
    left = torch.cat([one for one, _ in factors], dim=1).div_(len(factors))
    right = torch.cat([one for _, one in factors], dim=1)
    del factors
    source, target = graph.edge_index
    by_source = torch.argsort(source, stable=True)
    crow = torch.searchsorted(source[by_source], torch.arange(n + 1, device=graph.device))
    size = max(1, _BLOCK_ENTRIES // n)
    for low in range(0, n, size):
        high = min(low + size, n)
        with matmul_precision("highest"):
            block = left[low:high] @ right[low:].T  # columns below the block were rows of an earlier one
        edges = by_source[int(crow[low]) : int(crow[high])]
        rows, columns = source[edges] - low, target[edges] - low
        upper = columns > rows
        block[rows[upper], columns[upper]] = -torch.inf
        block[torch.tril_indices(high - low, high - low, device=block.device).unbind()] = -torch.inf
        found, index = torch.topk(block.flatten(), min(best.count, block.numel()))
        real = found > -torch.inf
        found, index = found[real], index[real]
        width = n - low
        best.offer(found, (index // width + low) * n + index % width + low)
        task.scoring.progress(high, n)


def _search_rows(task: ScoreTask, best: _Best) -> None:
    """Rows of A W A as sparse products; only pairs with a common neighbour appear."""
    matrix, n = adjacency(task.graph), task.graph.num_nodes
    weighted = matrix.multiply(task.form.weight.cpu().numpy()[None, :]).tocsr()
    degree = np.diff(matrix.indptr)
    for low, high in blocks_by_size((matrix @ degree.astype(np.float64)).astype(np.int64)):
        block = (weighted[low:high] @ matrix).tocoo()
        row, column = block.row.astype(np.int64) + low, block.col.astype(np.int64)
        place = row * n + column
        rows = matrix[low:high].tocoo()
        edges = (rows.row.astype(np.int64) + low) * n + rows.col
        open_pair = (column > row) & (block.data > 0) & ~np.isin(place, edges)
        order = np.argsort(place[open_pair])  # equal scores in the order of the nodes
        _offer(best, block.data[open_pair][order], place[open_pair][order])
        task.scoring.progress(high, n)


def _search_columns(task: ScoreTask, best: _Best) -> None:
    matrix, n = adjacency(task.graph), task.graph.num_nodes
    for low, columns in walk_columns(matrix, task.form, np.arange(n)):
        high = low + columns.shape[1]
        values = columns.T  # the matrix is symmetric: columns are rows
        edges = matrix[low:high].tocoo()
        values[edges.row, edges.col] = 0.0
        row, column = np.nonzero(values > 0)
        upper = column > row + low
        row, column = row[upper], column[upper]
        _offer(best, values[row, column], (row + low) * n + column)
        task.scoring.progress(high, n)


def _offer(best: _Best, value: Any, place: Any) -> None:
    best.offer(torch.from_numpy(value).to(best.device), torch.from_numpy(place).to(best.device))
