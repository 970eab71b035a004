r"""Exact counts of small patterns, not necessarily induced, per node and per graph, by sparse products.

===================  ===========================  ===================================================================
pattern              orbits: the places in it     count in the graph
===================  ===========================  ===================================================================
``triangle``         corner                       :math:`\mathrm{tr}(A^3) / 6`
``tailed_triangle``  joint, tail, corner          :math:`\sum_v \frac12 (A^3)_{vv} (\deg v - 2)`
``star``             centre, leaf (three leaves)  :math:`\sum_v \binom{\deg v}{3}`
``cycle4``           corner                       :math:`(\mathrm{tr} A^4 + \mathrm{tr} A^2 - 2 \sum_v \deg^2 v) / 8`
===================  ===========================  ===================================================================

These are the four targets of the counting task of Chen et al. (2020). No matrix of size n x n is ever formed, and
memory is bounded by blocks (:mod:`rfp.theory.ordered`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.theory.ordered import Ints, OrderedGraph, column_sums, masked_product, row_blocks, row_sums, row_work
from rfp.theory.simple import require_simple, simple_matrix

# Terms of sparse products an exact count may take unless told otherwise: about ten minutes on one core.
MAX_WORK = 5_000_000_000


def _triangle(graph: OrderedGraph) -> Ints:
    r"""Triangles at each node.

    With U the edges from low to high, a triangle low < middle < high is found once in :math:`(U U) \odot U` at (low,
    high) and once in :math:`(U^\top U) \odot U` at (middle, high); both products are cheap in this order, the third is
    not.
    """
    upper, lower = graph.upper, graph.lower
    low_high = masked_product(upper, upper, upper)
    middle_high = masked_product(lower, upper, upper)
    return graph.restore(row_sums(low_high) + column_sums(low_high) + row_sums(middle_high))[:, None]


def _triangle_once(graph: OrderedGraph) -> Ints:
    """Each triangle at its lowest node."""
    return graph.restore(row_sums(masked_product(graph.upper, graph.upper, graph.upper)))


def _tailed_triangle(graph: OrderedGraph) -> Ints:
    triangles = _triangle(graph)[:, 0]
    joint = triangles * (graph.degree - 2)
    # A tail ends at each neighbour of a triangle's node, except in the triangle itself: two of its nodes are
    # neighbours.
    tail = graph.matrix @ triangles - 2 * triangles
    return np.stack([joint, tail, _tails_of_others(graph)], axis=1)


def _tailed_triangle_once(graph: OrderedGraph) -> Ints:
    """Each tailed triangle at its joint."""
    return _triangle(graph)[:, 0] * (graph.degree - 2)


def _tails_of_others(graph: OrderedGraph) -> Ints:
    r"""The sum, over the triangles at each node, of :math:`\deg - 2` of their other two nodes."""
    upper, lower = graph.upper, graph.lower
    tails = graph.degree[graph.order] - 2
    from_middle, from_low = (matrix.astype(np.int64) for matrix in (upper, lower))
    from_middle.data, from_low.data = tails[upper.indices], tails[lower.indices]
    # Weighted products add the tails of the node that was summed over; the other end's follow from the plain counts.
    low_high, low_high_tails = masked_product(upper, upper, upper), masked_product(from_middle, upper, upper)
    middle_high, middle_high_tails = masked_product(lower, upper, upper), masked_product(from_low, upper, upper)
    at_low = row_sums(low_high_tails) + low_high @ tails
    at_high = column_sums(low_high_tails) + low_high.T @ tails
    at_middle = row_sums(middle_high_tails) + middle_high @ tails
    return graph.restore(at_low + at_high + at_middle)


def _star(graph: OrderedGraph) -> Ints:
    degree = graph.degree
    leaf = graph.matrix @ ((degree - 1) * (degree - 2) // 2)
    return np.stack([_star_once(graph), leaf], axis=1)


def _star_once(graph: OrderedGraph) -> Ints:
    """Each star at its centre."""
    return graph.degree * (graph.degree - 1) * (graph.degree - 2) // 6


def _paths_to_lower(graph: OrderedGraph) -> Iterator[tuple[Ints, Ints]]:
    """Paths v - u - w with u and w below v, as keys ``v n + w``, and u; a block holds all paths of its v."""
    lower, both, n = graph.lower, graph.both, graph.num_nodes
    starts, degree = both.indptr.astype(np.int64), np.diff(both.indptr).astype(np.int64)
    for rows in row_blocks(row_work(lower, both)):
        block = lower[rows]
        v = np.repeat(np.arange(rows.start, rows.stop), np.diff(block.indptr))
        u = block.indices.astype(np.int64)
        length = degree[u]
        edge = np.repeat(np.arange(len(u)), length)
        place = np.arange(len(edge)) - np.repeat(np.cumsum(length) - length, length)
        w = both.indices[starts[u[edge]] + place].astype(np.int64)
        below = w < v[edge]
        edge, w = edge[below], w[below]
        yield v[edge] * n + w, u[edge]


def _runs(key: Ints) -> tuple[Ints, Ints]:
    """Where each run of equal values starts in a sorted array, and its length."""
    first = np.flatnonzero(np.diff(key, prepend=-1))
    return first, np.diff(first, append=len(key))


def _cycle4(graph: OrderedGraph) -> Ints:
    """4-cycles at each node. Each is found from its highest node v: a node w joined to v by c paths over nodes u closes
    c (c - 1) / 2 of them, and each of the c nodes u lies on c - 1."""
    count = np.zeros(graph.num_nodes, dtype=np.int64)
    for key, u in _paths_to_lower(graph):
        order = np.argsort(key)
        first, paths = _runs(key[order])
        pair, closed = key[order[first]], paths * (paths - 1) // 2
        np.add.at(count, pair // graph.num_nodes, closed)
        np.add.at(count, pair % graph.num_nodes, closed)
        np.add.at(count, u[order], np.repeat(paths - 1, paths))
    return graph.restore(count)[:, None]


def _cycle4_once(graph: OrderedGraph) -> Ints:
    """Each 4-cycle at its highest node."""
    count = np.zeros(graph.num_nodes, dtype=np.int64)
    for key, _ in _paths_to_lower(graph):
        key.sort()
        first, paths = _runs(key)
        np.add.at(count, key[first] // graph.num_nodes, paths * (paths - 1) // 2)
    return graph.restore(count)


def _triangle_work(graph: OrderedGraph) -> int:
    incoming = np.diff(graph.lower.indptr).astype(np.int64)
    return int((graph.out_degree * (incoming + graph.out_degree)).sum())


def _cycle4_work(graph: OrderedGraph) -> int:
    return int((graph.out_degree * np.diff(graph.both.indptr)).sum())


@dataclass(frozen=True)
class Pattern:
    """How a pattern is counted.

    Args:
        orbits: Names of the classes of nodes that are alike in it.
        count: How often each node is in each orbit, ``[n, orbits]``.
        once: Every occurrence at one of its nodes, ``[n]``, for the total.
        work: Terms of sparse products that takes.
    """

    orbits: tuple[str, ...]
    count: Callable[[OrderedGraph], Ints]
    once: Callable[[OrderedGraph], Ints]
    work: Callable[[OrderedGraph], int]


PATTERNS: dict[str, Pattern] = {
    "triangle": Pattern(("corner",), _triangle, _triangle_once, _triangle_work),
    "tailed_triangle": Pattern(("joint", "tail", "corner"), _tailed_triangle, _tailed_triangle_once, _triangle_work),
    "star": Pattern(("centre", "leaf"), _star, _star_once, lambda graph: int(graph.matrix.nnz)),
    "cycle4": Pattern(("corner",), _cycle4, _cycle4_once, _cycle4_work),
}


def _prepare(graph: Any, pattern: str, max_work: float) -> tuple[Pattern, OrderedGraph]:
    if pattern not in PATTERNS:
        raise unknown_choice("pattern", pattern, PATTERNS)
    ordered = OrderedGraph(simple_matrix(graph))
    chosen = PATTERNS[pattern]
    work = chosen.work(ordered)
    if work > max_work:
        raise ArgumentError(
            f"an exact count of {pattern} takes {work:.3g} terms of sparse products (some ten million a second), above "
            f"the limit of {max_work:.3g}; estimate it (rfp.theory.count_triangles, count_cycles4; rfp count without "
            "--exact), or raise max_work (--force)"
        )
    return chosen, ordered


def node_counts(graph: Any, pattern: str, *, max_work: float = MAX_WORK) -> Tensor:
    """How often each node occurs in each place of a pattern, ``[n, orbits]`` int64 (:data:`PATTERNS` names the orbits).

    Args:
        graph: A simple undirected graph, or a batch.
        pattern: ``"triangle"``, ``"tailed_triangle"``, ``"star"`` or ``"cycle4"``.
        max_work: Refuse a count that takes more terms than this.

    Costs O(sum of out-degree times degree over the edges ordered by degree), at most O(m^1.5), for all but stars, O(m).

    Example:
        >>> import networkx as nx
        >>> node_counts(nx.lollipop_graph(3, 1), "tailed_triangle").tolist()  # joint, tail, corner
        [[0, 0, 1], [0, 0, 1], [1, 0, 0], [0, 1, 0]]
    """
    chosen, ordered = _prepare(graph, pattern, max_work)
    return torch.from_numpy(chosen.count(ordered))


def graph_counts(graph: Any, patterns: Sequence[str] = tuple(PATTERNS), *, max_work: float = MAX_WORK) -> Tensor:
    """The number of each pattern in each graph of a batch, ``[num_graphs, len(patterns)]`` int64.

    Example:
        >>> import networkx as nx
        >>> graph_counts([nx.complete_graph(4), nx.cycle_graph(4)]).tolist()
        [[4, 12, 4, 3], [0, 0, 0, 1]]
    """
    read = require_simple(graph)
    columns = [_per_graph(read, pattern, max_work) for pattern in patterns]
    return torch.stack(columns, dim=1) if columns else torch.zeros(read.num_graphs, 0, dtype=torch.long)


def _per_graph(graph: Graph, pattern: str, max_work: float) -> Tensor:
    chosen, ordered = _prepare(graph, pattern, max_work)
    totals = torch.zeros(graph.num_graphs, dtype=torch.long)
    return totals.index_add_(0, graph.batch.cpu(), torch.from_numpy(chosen.once(ordered)))


def exact_count(graph: Any, pattern: str, *, max_work: float = MAX_WORK) -> int:
    """The number of occurrences of a pattern in a graph (in all graphs of a batch together).

    Example:
        >>> import networkx as nx
        >>> exact_count(nx.complete_bipartite_graph(3, 3), "cycle4")
        9
    """
    return int(graph_counts(graph, [pattern], max_work=max_work).sum())


def exact_work(graph: Any, pattern: str) -> int:
    """How many terms of sparse products :func:`exact_count` adds up, some ten million a second."""
    chosen, ordered = _prepare(graph, pattern, math.inf)
    return chosen.work(ordered)
