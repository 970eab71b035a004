"""Exact counts against an exhaustive search that knows nothing of matrices."""

from __future__ import annotations

from itertools import combinations, permutations

import networkx as nx
import numpy as np
import pytest
import torch

from rfp.conversion import as_graph
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph
from rfp.theory import PATTERNS, exact_count, exact_work, graph_counts, node_counts, ordered

# Pattern -> (its edges, the orbit of each of its nodes).
SHAPES = {
    "triangle": ([(0, 1), (1, 2), (2, 0)], ["corner"] * 3),
    "tailed_triangle": ([(0, 1), (1, 2), (2, 0), (0, 3)], ["joint", "corner", "corner", "tail"]),
    "star": ([(0, 1), (0, 2), (0, 3)], ["centre", "leaf", "leaf", "leaf"]),
    "cycle4": ([(0, 1), (1, 2), (2, 3), (3, 0)], ["corner"] * 4),
}


def brute_force(graph: nx.Graph, pattern: str) -> np.ndarray:
    """Place the pattern in every possible way; placements with the same edges are one occurrence."""
    edges, places = SHAPES[pattern]
    orbits = list(PATTERNS[pattern].orbits)
    counts = np.zeros((graph.number_of_nodes(), len(orbits)), dtype=np.int64)
    for nodes in combinations(graph.nodes, len(places)):
        seen = {}
        for placed in permutations(nodes):
            image = frozenset(frozenset((placed[a], placed[b])) for a, b in edges)
            if image not in seen and all(graph.has_edge(*edge) for edge in image):
                seen[image] = placed
        for placed in seen.values():
            for node, place in zip(placed, places, strict=True):
                counts[node, orbits.index(place)] += 1
    return counts


SMALL = [
    nx.gnp_random_graph(9, 0.5, seed=3),
    nx.lollipop_graph(5, 3),
    nx.complete_bipartite_graph(3, 4),
    nx.disjoint_union(nx.wheel_graph(6), nx.empty_graph(2)),
    nx.empty_graph(1),
    nx.star_graph(5),
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("graph", SMALL, ids=str)
def test_brute_force(graph: nx.Graph, pattern: str) -> None:
    expected = brute_force(graph, pattern)
    got = node_counts(graph, pattern)
    assert got.dtype == torch.int64
    np.testing.assert_array_equal(got, expected)
    sizes = [SHAPES[pattern][1].count(orbit) for orbit in PATTERNS[pattern].orbits]
    assert exact_count(graph, pattern) == expected[:, 0].sum() // sizes[0]
    # Every orbit counts each occurrence as many times as it has nodes in it.
    np.testing.assert_array_equal(got.sum(0), exact_count(graph, pattern) * np.array(sizes))


@pytest.mark.parametrize("limit", [1, 40])
def test_blocks_change_nothing(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.powerlaw_cluster_graph(120, 5, 0.5, seed=0)
    whole = [node_counts(graph, pattern) for pattern in PATTERNS]
    totals = graph_counts(graph)
    monkeypatch.setattr(ordered, "BLOCK_WORK", limit)
    for pattern, expected in zip(PATTERNS, whole, strict=True):
        assert torch.equal(node_counts(graph, pattern), expected)
    assert torch.equal(graph_counts(graph), totals)


def test_formulas_of_the_data_set() -> None:
    """The closed formulas of the counting task, dense, on a larger graph."""
    graph = nx.powerlaw_cluster_graph(150, 4, 0.6, seed=5)
    A = nx.to_numpy_array(graph).astype(np.int64)
    degree = A.sum(0)
    closed = np.diag(A @ A @ A)
    expected = [
        closed.sum() // 6,
        (closed // 2 * (degree - 2)).sum(),
        (degree * (degree - 1) * (degree - 2) // 6).sum(),
        (np.trace(A @ A @ A @ A) + np.trace(A @ A) - 2 * (A @ A).sum()) // 8,
    ]
    assert graph_counts(graph).tolist() == [expected]
    np.testing.assert_array_equal(node_counts(graph, "triangle")[:, 0], [nx.triangles(graph, v) for v in graph])


def test_batch_counts_each_graph() -> None:
    graphs = [g for g in SMALL if g.number_of_edges()]
    alone = torch.cat([graph_counts(g) for g in graphs])
    assert torch.equal(graph_counts([as_graph(g) for g in graphs]), alone)
    assert graph_counts(graphs[0], []).shape == (1, 0)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_node_permutation(pattern: str) -> None:
    graph = nx.gnp_random_graph(25, 0.3, seed=1)
    order = np.random.default_rng(0).permutation(25)
    moved = nx.relabel_nodes(graph, dict(enumerate(order)))
    moved_sorted = nx.Graph()
    moved_sorted.add_nodes_from(range(25))
    moved_sorted.add_edges_from(moved.edges)
    assert torch.equal(node_counts(moved_sorted, pattern)[torch.from_numpy(order)], node_counts(graph, pattern))


def test_large_hub_does_not_overflow_32_bits() -> None:
    star = nx.star_graph(3000)
    assert exact_count(star, "star") == 3000 * 2999 * 2998 // 6
    assert exact_count(star, "cycle4") == 0


def test_work_is_bounded_by_order_not_by_hubs() -> None:
    star = nx.star_graph(3000)
    assert exact_work(star, "triangle") <= 3001
    assert exact_work(star, "star") == 6000


def test_too_much_work_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"takes .* terms .* above the limit of 10;.*--force"):
        exact_count(nx.complete_graph(9), "triangle", max_work=10)
    with pytest.raises(ArgumentError, match="above"):
        node_counts(nx.complete_graph(9), "cycle4", max_work=10)


def test_bad_input(directed: Graph) -> None:
    with pytest.raises(ArgumentError, match="pattern must be one of 'triangle'"):
        node_counts(nx.path_graph(3), "clique")
    with pytest.raises(GraphError, match="unweighted"):
        graph_counts(directed)
