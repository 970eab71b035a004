"""Counts restricted to the last nodes, by taking the whole and subtracting the graph without them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from rfp.conversion import as_graph
from rfp.theory.ordered import OrderedGraph
from rfp.theory.ordered_counts import (
    cycle4_work,
    cycles4_at_nodes,
    cycles4_once,
    triangle_work,
    triangles_at_nodes,
    triangles_once,
)
from rfp.theory.simple import integer_matrix


def ordered(graph: nx.Graph) -> OrderedGraph:
    return OrderedGraph(integer_matrix(as_graph(graph)))


def squares(graph: nx.Graph) -> int:
    return sum(1 for cycle in nx.simple_cycles(graph, length_bound=4) if len(cycle) == 4)


@pytest.mark.parametrize("first", [0, 7, 14, 17, 18])
def test_touching_the_last(first: int) -> None:
    graph = nx.gnp_random_graph(18, 0.4, seed=2)
    whole = ordered(graph)
    without = graph.subgraph([int(v) for v in whole.order[:first]])
    triangles = (sum(nx.triangles(graph).values()) - sum(nx.triangles(without).values())) // 3
    assert triangles_once(whole, first).sum() == triangles
    assert triangles_at_nodes(whole, first).sum() == 3 * triangles
    cycles = squares(graph) - squares(without)
    assert cycles4_once(whole, first).sum() == cycles
    assert cycles4_at_nodes(whole, first).sum() == 4 * cycles


def test_each_occurrence_is_at_its_lowest_or_highest_node() -> None:
    graph = nx.lollipop_graph(4, 2)  # a clique 0-3, whose node 3 has the highest degree
    assert triangles_once(ordered(graph)).tolist() == [3, 1, 0, 0, 0, 0]
    assert cycles4_once(ordered(graph)).tolist() == [0, 0, 0, 3, 0, 0]


@pytest.mark.parametrize(
    "graph", [nx.star_graph(50), nx.complete_graph(12), nx.gnp_random_graph(40, 0.2, seed=0)], ids=str
)
def test_work_counts_terms(graph: nx.Graph) -> None:
    whole = ordered(graph)
    upper = whole.upper.toarray()
    # Terms of U U and of U^T U, by the highest node: the column.
    expected = (upper @ upper).sum(0) + (upper.T @ upper).sum(0)
    np.testing.assert_array_equal(triangle_work(whole), expected)
    degree = np.diff(whole.both.indptr)
    np.testing.assert_array_equal(cycle4_work(whole), upper.T @ degree)
