"""How many cycles and cliques of each size a node lies on (the structural features of GSN)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph

Ints = NDArray[np.int64]

# Rows of paths grown at a time (bounds the memory), and how many may be visited before the count is called off.
_CHUNK_PATHS = 1 << 20
MAX_PATHS = 1_000_000_000


def substructure_counts(graph: Any, *, cycles: Sequence[int] = (3, 4, 5, 6), cliques: Sequence[int] = ()) -> Tensor:
    r"""Number of simple cycles and of cliques of each size through each node, exactly.

    The graph is read as simple and undirected: direction, weights, self-loops and duplicate edges play no role.
    Cycles need not be induced (a square with a diagonal counts as a square). All nodes of a cycle or clique are
    alike, so these are GSN's orbit counts.

    Paths are grown edge by edge from the smallest node of each cycle, inside the 2-core (trees hanging off the graph
    are cut first), for many roots at once. O(number of simple paths of the greatest length) time, bounded memory:
    sparse graphs such as molecules are cheap; on dense graphs ask for short cycles.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        cycles: Lengths, each at least 3.
        cliques: Sizes, each at least 3 (a triangle is both a 3-cycle and a 3-clique).

    Returns:
        ``[n, len(cycles) + len(cliques)]`` float32.

    Raises:
        ArgumentError: For sizes below 3, or after :data:`MAX_PATHS` paths.

    Example:
        >>> from rfp.graph import Graph
        >>> square = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])  # with the diagonal 0-2
        >>> substructure_counts(Graph(square, 4), cycles=[3, 4])
        tensor([[2., 1.],
                [1., 1.],
                [2., 1.],
                [1., 1.]])

    References:
        G. Bouritsas, F. Frasca, S. Zafeiriou, M. Bronstein. Improving graph neural network expressivity via subgraph
        isomorphism counting. TPAMI 2022.
    """
    for name, sizes in (("cycles", cycles), ("cliques", cliques)):
        if isinstance(sizes, int):
            raise ArgumentError(f"{name} must be a list of sizes, such as [{sizes}], got {sizes}")
        if any(not isinstance(size, int) or size < 3 for size in sizes):
            raise ArgumentError(f"{name} must be integers of at least 3, got {list(sizes)}")
    if not cycles and not cliques:
        raise ArgumentError("ask for at least one size of cycles or cliques")
    read = as_graph(graph)
    simple = _Neighbors(read)
    found = [count_cycles(simple, cycles), count_cliques(simple, cliques)]
    return torch.from_numpy(np.concatenate(found, axis=1)).to(read.device, torch.float32)


class _Neighbors:
    """The simple undirected graph as sorted neighbour lists, with membership by binary search."""

    def __init__(self, graph: Graph) -> None:
        self.n = graph.num_nodes
        source, target = graph.edge_index.cpu().numpy().astype(np.int64)
        self._from_pairs(np.concatenate([source, target]), np.concatenate([target, source]))

    def _from_pairs(self, source: Ints, target: Ints) -> None:
        keep = source != target
        self.key = np.unique(source[keep] * max(self.n, 1) + target[keep])
        self.target = self.key % max(self.n, 1)
        self.degree = np.bincount(self.key // max(self.n, 1), minlength=self.n)
        self.start = np.concatenate([[0], np.cumsum(self.degree)])

    def two_core(self) -> _Neighbors:
        """What is left after removing nodes of degree one until there are none: every cycle, and what joins them."""
        core = object.__new__(_Neighbors)
        core.n = self.n
        source, target = self.key // max(self.n, 1), self.target
        degree = self.degree
        while (degree == 1).any():
            keep = (degree[source] > 1) & (degree[target] > 1)
            source, target = source[keep], target[keep]
            degree = np.bincount(source, minlength=self.n)
        core._from_pairs(source, target)
        return core

    def joined(self, source: Ints, target: Ints) -> NDArray[np.bool_]:
        if not len(self.key):
            return np.zeros(len(source), bool)
        key = source * self.n + target
        place = np.minimum(np.searchsorted(self.key, key), len(self.key) - 1)
        found: NDArray[np.bool_] = self.key[place] == key
        return found

    def extend(self, rows: Ints) -> Ints:
        """Each row (a path or clique) once for every neighbour of its last node, with that neighbour appended."""
        counts = self.degree[rows[:, -1]]
        parent = np.repeat(np.arange(len(rows)), counts)
        offset = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
        following = self.target[self.start[rows[parent, -1]] + offset]
        return np.concatenate([rows[parent], following[:, None]], axis=1)

    def grow(self, keep: Callable[[Ints], Ints], largest: int) -> Iterator[Ints]:
        """All rows of 2, ..., ``largest`` nodes, in pieces, each grown from a row that ``keep`` let through."""
        visited = 0
        waiting = [np.flatnonzero(self.degree)[:, None]]
        while waiting:
            rows = waiting.pop()
            last = np.searchsorted(np.cumsum(self.degree[rows[:, -1]]), _CHUNK_PATHS, side="right")
            if 0 < last < len(rows):
                waiting.append(rows[last:])
                rows = rows[:last]
            grown = keep(self.extend(rows))
            visited += len(grown)
            if visited > MAX_PATHS:
                raise ArgumentError(
                    f"stopped after {MAX_PATHS:,} paths of at most {largest} nodes: the graph is too dense for "
                    "substructures of this size; ask for smaller ones"
                )
            yield grown
            if grown.shape[1] < largest and len(grown):
                waiting.append(grown)


def count_cycles(simple: _Neighbors, lengths: Sequence[int]) -> NDArray[np.float64]:  # -> [n, len(lengths)]
    """Simple cycles of each length through each node: paths from their smallest node that close."""
    out = np.zeros((simple.n, len(lengths)))
    if not lengths:
        return out
    core = simple.two_core()

    def simple_path(paths: Ints) -> Ints:
        last = paths[:, -1]
        fresh: NDArray[np.bool_] = (last > paths[:, 0]) & (paths[:, 1:-1] != last[:, None]).all(1)
        return paths[fresh]

    for paths in core.grow(simple_path, max(lengths)):
        if paths.shape[1] in lengths:
            # Each cycle is walked in both directions; keep the one whose second node is smaller than its last.
            closed = paths[(paths[:, 1] < paths[:, -1]) & core.joined(paths[:, -1], paths[:, 0])]
            _add_counts(out, closed, lengths)
    return out


def count_cliques(simple: _Neighbors, sizes: Sequence[int]) -> NDArray[np.float64]:  # -> [n, len(sizes)]
    """Cliques of each size through each node, grown in ascending order of their nodes."""
    out = np.zeros((simple.n, len(sizes)))
    if not sizes:
        return out

    def clique(rows: Ints) -> Ints:
        rows = rows[rows[:, -1] > rows[:, -2]]
        for earlier in range(rows.shape[1] - 2):
            rows = rows[simple.joined(rows[:, earlier], rows[:, -1])]
        return rows

    for cliques in simple.grow(clique, max(sizes)):
        _add_counts(out, cliques, sizes)
    return out


def _add_counts(out: NDArray[np.float64], rows: Ints, sizes: Sequence[int]) -> None:
    for column, size in enumerate(sizes):
        if size == rows.shape[1]:
            out[:, column] += np.bincount(rows.ravel(), minlength=len(out))
