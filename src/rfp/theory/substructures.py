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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.theory.ordered import Ints, OrderedGraph, column_sums, masked_product, row_sums
from rfp.theory.ordered_counts import CYCLES4, TRIANGLES
from rfp.theory.simple import integer_matrix, require_simple

# Terms of sparse products an exact count may take unless told otherwise: about ten minutes on one core.
MAX_WORK = 5_000_000_000


def _tailed_triangle(graph: OrderedGraph) -> Ints:
    triangles = TRIANGLES.at_nodes(graph)
    joint = triangles * (graph.degree - 2)
    # A tail ends at each neighbour of a triangle's node, except in the triangle itself: two of its nodes are
    # neighbours.
    tail = graph.matrix @ triangles - 2 * triangles
    return np.stack([joint, tail, _tails_of_others(graph)], axis=1)


def _tailed_triangle_once(graph: OrderedGraph) -> Ints:
    """Each tailed triangle at its joint."""
    return TRIANGLES.at_nodes(graph) * (graph.degree - 2)


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


@dataclass(frozen=True)
class Pattern:
    """How a pattern is counted.

    Args:
        orbits: Names of the classes of nodes that are alike in it.
        count: How often each node is in each orbit, ``[n, orbits]``.
        once: Every occurrence at one of its nodes, ``[n]``, for the total.
        work: Terms of sparse products that takes, ``[n]``, to be added up.
    """

    orbits: tuple[str, ...]
    count: Callable[[OrderedGraph], Ints]
    once: Callable[[OrderedGraph], Ints]
    work: Callable[[OrderedGraph], Ints]


PATTERNS: dict[str, Pattern] = {
    "triangle": Pattern(("corner",), lambda graph: TRIANGLES.at_nodes(graph)[:, None], TRIANGLES.once, TRIANGLES.work),
    "tailed_triangle": Pattern(("joint", "tail", "corner"), _tailed_triangle, _tailed_triangle_once, TRIANGLES.work),
    "star": Pattern(("centre", "leaf"), _star, _star_once, lambda graph: graph.degree),
    "cycle4": Pattern(("corner",), lambda graph: CYCLES4.at_nodes(graph)[:, None], CYCLES4.once, CYCLES4.work),
}


def _prepare(graph: Graph, pattern: str, max_work: float) -> tuple[Pattern, OrderedGraph]:
    if pattern not in PATTERNS:
        raise unknown_choice("pattern", pattern, PATTERNS)
    ordered = OrderedGraph(integer_matrix(graph))
    chosen = PATTERNS[pattern]
    work = int(chosen.work(ordered).sum())
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
    chosen, ordered = _prepare(require_simple(graph), pattern, max_work)
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
    chosen, ordered = _prepare(require_simple(graph), pattern, math.inf)
    return int(chosen.work(ordered).sum())
