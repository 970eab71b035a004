"""Triangles and 4-cycles of an ordered graph: all, or those whose highest node is one of the last.

Every function takes ``first``: occurrences are counted if their highest node is at least that. With 0 these are all of
them; with ``first`` near n, those that touch one of the n - ``first`` nodes of highest degree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from rfp.theory.ordered import Ints, OrderedGraph, column_sums, masked_product, row_blocks, row_sums, row_work


def triangles_at_nodes(graph: OrderedGraph, first: int = 0) -> Ints:
    r"""Triangles at each node, ``[n]`` in the original numbering.

    With U the edges from low to high, a triangle low < middle < high is found once in :math:`(U U) \odot U` at (low,
    high) and once in :math:`(U^\top U) \odot U` at (middle, high); both products are cheap in this order, the third is
    not.
    """
    to_high = graph.upper[:, first:]
    low_high = masked_product(graph.upper, to_high, to_high)
    middle_high = masked_product(graph.lower, to_high, to_high)
    count = row_sums(low_high) + row_sums(middle_high)
    count[first:] += column_sums(low_high)
    return graph.restore(count)


def triangles_once(graph: OrderedGraph, first: int = 0) -> Ints:
    """Each triangle at its lowest node, ``[n]``."""
    to_high = graph.upper[:, first:]
    return graph.restore(row_sums(masked_product(graph.upper, to_high, to_high)))


def triangle_work(graph: OrderedGraph) -> Ints:
    """Terms of the two products for each highest node, ``[n]`` in ascending order of degree."""
    incoming = np.diff(graph.lower.indptr).astype(np.int64)
    work: Ints = graph.lower.astype(np.int64) @ (incoming + graph.out_degree)
    return work


def _paths_to_lower(graph: OrderedGraph, first: int) -> Iterator[tuple[Ints, Ints]]:
    """Paths v - u - w with u and w below v, as keys ``v n + w``, and u; a block holds all paths of its v."""
    both, n = graph.both, graph.num_nodes
    last_rows = graph.lower[first:]
    starts, degree = both.indptr.astype(np.int64), np.diff(both.indptr).astype(np.int64)
    for rows in row_blocks(row_work(last_rows, both)):
        block = last_rows[rows]
        v = np.repeat(np.arange(first + rows.start, first + rows.stop), np.diff(block.indptr))
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


def cycles4_at_nodes(graph: OrderedGraph, first: int = 0) -> Ints:
    """4-cycles at each node, ``[n]``. Each is found from its highest node v: a node w joined to v by c paths over nodes
    u closes c (c - 1) / 2 of them, and each of the c nodes u lies on c - 1."""
    count = np.zeros(graph.num_nodes, dtype=np.int64)
    for key, u in _paths_to_lower(graph, first):
        order = np.argsort(key)
        start, paths = _runs(key[order])
        pair, closed = key[order[start]], paths * (paths - 1) // 2
        np.add.at(count, pair // graph.num_nodes, closed)
        np.add.at(count, pair % graph.num_nodes, closed)
        np.add.at(count, u[order], np.repeat(paths - 1, paths))
    return graph.restore(count)


def cycles4_once(graph: OrderedGraph, first: int = 0) -> Ints:
    """Each 4-cycle at its highest node, ``[n]``."""
    count = np.zeros(graph.num_nodes, dtype=np.int64)
    for key, _ in _paths_to_lower(graph, first):
        key.sort()
        start, paths = _runs(key)
        np.add.at(count, key[start] // graph.num_nodes, paths * (paths - 1) // 2)
    return graph.restore(count)


def cycle4_work(graph: OrderedGraph) -> Ints:
    """Paths listed for each highest node, ``[n]`` in ascending order of degree."""
    return row_work(graph.lower, graph.both)


class Listed(NamedTuple):
    """How a pattern is listed.

    Args:
        at_nodes: Occurrences at each node, ``(graph, first) -> [n]``.
        once: Each occurrence at one of its nodes, ``(graph, first) -> [n]``.
        work: Terms or paths this takes for each highest node, ``[n]``.
    """

    at_nodes: Callable[..., Ints]
    once: Callable[..., Ints]
    work: Callable[[OrderedGraph], Ints]


TRIANGLES = Listed(triangles_at_nodes, triangles_once, triangle_work)
CYCLES4 = Listed(cycles4_at_nodes, cycles4_once, cycle4_work)
