"""Estimated counts against NetworkX and exhaustive search."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph
from rfp.theory import count_cycles4, count_triangles, count_walks, num_samples, rank, rho


@pytest.fixture(scope="module")
def clustered() -> nx.Graph:
    return nx.powerlaw_cluster_graph(80, 4, 0.7, seed=2)


def cycles4_at(graph: nx.Graph) -> np.ndarray:
    """4-cycles at each node by trying every opposite node and every pair of common neighbours."""
    return np.array([
        sum(1 for w in graph if w != v for _ in combinations(set(graph[v]) & set(graph[w]), 2)) for v in graph
    ])  # fmt: skip


def assert_close_to(got: np.ndarray, error: np.ndarray, expected: np.ndarray) -> None:
    standardised = np.abs(got - expected) / (error + 1e-9)
    assert standardised.max() < 5
    assert np.sqrt((standardised**2).mean()) > 0.5


@pytest.mark.parametrize("deflation", [0, 8])
@pytest.mark.parametrize("distribution", ["rademacher", "normal"])
def test_triangles(clustered: nx.Graph, distribution: str, deflation: int) -> None:
    per_node = np.array([nx.triangles(clustered, v) for v in clustered])
    got = count_triangles(
        clustered, num_samples=5000, distribution=distribution, deflation=deflation, per_node=True, seed=0
    )
    assert abs(got.value - per_node.sum() / 3) < 4.5 * got.standard_error
    assert got.per_node is not None
    assert got.per_node_standard_error is not None
    assert_close_to(got.per_node.numpy(), got.per_node_standard_error.numpy(), per_node)


@pytest.mark.parametrize("deflation", [0, 8])
def test_cycles4(clustered: nx.Graph, deflation: int) -> None:
    per_node = cycles4_at(clustered)
    got = count_cycles4(clustered, num_samples=5000, deflation=deflation, per_node=True, seed=0)
    assert abs(got.value - per_node.sum() / 4) < 4.5 * got.standard_error
    assert got.per_node is not None
    assert got.per_node_standard_error is not None
    assert_close_to(got.per_node.numpy(), got.per_node_standard_error.numpy(), per_node)


@pytest.mark.parametrize("deflation", [0, 2])
@pytest.mark.parametrize(
    ("count", "graph", "expected"),
    [
        (count_triangles, nx.complete_graph(4), 4),
        (count_cycles4, nx.complete_graph(4), 3),
        (partial(count_walks, length=4), nx.path_graph(3), 8),  # of A^4 the diagonal is 2, 4, 2
    ],
)
def test_equal_graphs_of_a_batch_count_as_different_ones(
    count: Any, graph: nx.Graph, expected: int, deflation: int
) -> None:
    found = count([graph] * 6, num_samples=4000, deflation=deflation, seed=0)
    assert 0 < found.standard_error < 0.05 * 6 * expected
    assert abs(found.value - 6 * expected) < 4 * found.standard_error


def test_epsilon_bounds_the_count_not_the_trace(clustered: nx.Graph) -> None:
    expected = cycles4_at(clustered).sum() / 4
    got = count_cycles4(clustered, epsilon=0.05, deflation=16, seed=0)
    assert got.reached
    assert got.half_width <= 0.05 * got.value
    assert abs(got.value - expected) < 0.1 * expected


def test_full_deflation_is_exact_on_every_awkward_graph(awkward: nx.Graph) -> None:
    n = awkward.number_of_nodes()
    triangles = np.array([nx.triangles(awkward, v) for v in awkward])
    squares = cycles4_at(awkward)
    got = count_triangles(awkward, num_samples=32, deflation=n, per_node=True)
    assert got.value == pytest.approx(triangles.sum() / 3, abs=1e-8)
    np.testing.assert_allclose(got.per_node, triangles, atol=1e-8)
    got = count_cycles4(awkward, num_samples=32, deflation=n, per_node=True)
    assert got.value == pytest.approx(squares.sum() / 4, abs=1e-7)
    np.testing.assert_allclose(got.per_node, squares, atol=1e-7)


@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_walks_with_self_loops(length: int) -> None:
    graph = nx.path_graph(6)
    graph.add_edge(2, 2)
    power = np.linalg.matrix_power(nx.to_numpy_array(graph), length)
    got = count_walks(graph, length=length, num_samples=32, deflation=6, per_node=True)
    assert got.value == pytest.approx(np.trace(power), abs=1e-9)
    np.testing.assert_allclose(got.per_node, np.diag(power), atol=1e-9)


def test_the_bound_holds_over_repeated_trials() -> None:
    """Corollary C.6 with eps = 1: at most 10 % of 40 trials may be off by more, and in fact none is."""
    graph = nx.complete_graph(8)
    samples = num_samples(eps=1.0, delta=0.1, rho=rho(graph), rank=rank(graph))
    errors = [abs(count_triangles(graph, num_samples=samples, seed=s).value - 56) / 56 for s in range(40)]
    assert samples == 34  # 6 (350 / 336)^2 ln(160) = 33.04
    assert sum(error > 1.0 for error in errors) <= 4
    assert max(errors) > 0.05  # the trials do vary


def test_no_edges_and_one_node() -> None:
    for n in (1, 4):
        got = count_triangles(nx.empty_graph(n), epsilon=0.1, per_node=True)
        assert (got.value, got.reached, got.num_samples) == (0.0, True, 32)
        assert count_cycles4(nx.empty_graph(n), epsilon=0.1).value == 0.0


def test_a_graph_without_triangles_never_reaches_a_relative_error() -> None:
    got = count_triangles(nx.complete_bipartite_graph(4, 5), epsilon=0.1, num_samples=200, seed=0)
    assert not got.reached
    assert got.num_samples == 200
    assert abs(got.value) < 4.5 * got.standard_error


@pytest.mark.parametrize("count", [count_triangles, count_cycles4, lambda g, **k: count_walks(g, length=3, **k)])
def test_what_is_not_a_simple_graph_is_refused(count, directed: Graph) -> None:  # type: ignore[no-untyped-def]
    edges = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(GraphError, match=r"unweighted graph, got weight 1\.5 at edge 0"):
        count(Graph(edges, 2, torch.tensor([1.5, 1.5])))
    with pytest.raises(GraphError, match="in both directions"):
        count(Graph(edges[:, :1], 2))
    with pytest.raises(GraphError, match="0 -> 1 2 times"):
        count(Graph(edges[:, [0, 0, 1, 1]], 2))
    with pytest.raises(GraphError, match="simplify"):
        count(directed)
    with pytest.raises(ArgumentError, match="epsilon must be above 0"):
        count(nx.path_graph(3), epsilon=0)


def test_self_loops_are_refused_where_they_make_no_sense() -> None:
    loop = Graph(torch.tensor([[0, 1, 1], [1, 0, 1]]), 2)
    for count in (count_triangles, count_cycles4):
        with pytest.raises(GraphError, match="without self-loops, got one at node 1"):
            count(loop)


def test_weights_of_one_are_no_weights() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    got = count_triangles(Graph(edges, 3, torch.ones(6)), num_samples=32, deflation=3)
    assert got.value == pytest.approx(1.0)


def test_negative_length_is_refused() -> None:
    with pytest.raises(ArgumentError, match="at least 0, got -1"):
        count_walks(nx.path_graph(3), length=-1)


def test_a_count_of_zero_that_is_exact_needs_no_more_samples() -> None:
    tree = nx.Graph([(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (2, 6)])
    for count in (count_triangles, count_cycles4):
        got = count(tree, epsilon=0.01, deflation=8)
        assert abs(got.value) < 1e-9
        assert got.reached
        assert got.num_samples == 32
    # Without all directions nobody knows that there are none.
    sampled = count_triangles(tree, epsilon=0.01, num_samples=96)
    assert not sampled.reached
    assert sampled.num_samples == 96
    # How many samples are drawn is as asked for, where no error is.
    assert count_triangles(tree, num_samples=96, deflation=8).num_samples == 96
