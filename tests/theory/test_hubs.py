"""Hubs counted exactly: with the rest counted too, the parts make the whole; with it sampled, an estimate."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.theory import count_cycles4, count_triangles, exact_count, node_counts
from rfp.theory.hubs import LARGEST_SHARE, WORK_PER_ENTRY, split_hubs


@pytest.fixture(scope="module")
def skewed() -> nx.Graph:
    """Three hubs over a clustered graph."""
    graph = nx.powerlaw_cluster_graph(100, 3, 0.6, seed=4)
    graph.add_edges_from((hub, v) for hub in (100, 101, 102) for v in range(hub - 100, 95))
    return graph


@pytest.mark.parametrize("pattern", ["triangle", "cycle4"])
@pytest.mark.parametrize("hubs", [0, 1, 3, 20, 103, 500, None])
def test_parts_make_the_whole(skewed: nx.Graph, pattern: str, hubs: int | None) -> None:
    split = split_hubs(as_graph(skewed), pattern, hubs, per_node=True)
    assert split.count + exact_count(split.rest, pattern) == exact_count(skewed, pattern)
    assert split.per_node is not None
    nodes = split.per_node.clone()
    nodes[split.nodes] += node_counts(split.rest, pattern)[:, 0]
    assert nodes.tolist() == node_counts(skewed, pattern)[:, 0].tolist()


def test_the_hubs_are_the_nodes_of_highest_degree(skewed: nx.Graph) -> None:
    split = split_hubs(as_graph(skewed), "triangle", 3)
    names = list(skewed.nodes)
    assert sorted(set(range(103)) - set(split.nodes.tolist())) == sorted(names.index(v) for v in (100, 101, 102))
    assert split.per_node is None
    # The rest keeps its edges, in the new numbers.
    edges = {frozenset(split.nodes[e].tolist()) for e in split.rest.edge_index.T}
    assert edges == {frozenset(e) for e in skewed.subgraph(set(skewed) - {100, 101, 102}).edges}


def test_automatic_number_is_bounded(skewed: nx.Graph) -> None:
    sparse = split_hubs(as_graph(skewed), "triangle", None)
    assert 1 <= 103 - sparse.rest.num_nodes <= int(LARGEST_SHARE * 103)
    ring = split_hubs(as_graph(nx.cycle_graph(80)), "triangle", None)
    assert ring.rest.num_nodes == 60  # two terms a node: only the share bounds it
    complete = nx.complete_graph(60)  # listing the triangles of one node takes 59 * 58 terms and more
    split = split_hubs(as_graph(complete), "triangle", None)
    assert 1 <= 60 - split.rest.num_nodes <= WORK_PER_ENTRY["triangle"] * 60 * 59 / (59 * 58)


def test_no_hubs_leave_the_graph_alone(skewed: nx.Graph) -> None:
    graph = as_graph(skewed)
    assert split_hubs(graph, "cycle4", 0).rest is graph


@pytest.mark.parametrize(("count", "pattern"), [(count_triangles, "triangle"), (count_cycles4, "cycle4")])
@pytest.mark.parametrize("hubs", [3, None])
def test_estimates(skewed: nx.Graph, count, pattern: str, hubs: int | None) -> None:  # type: ignore[no-untyped-def]
    expected = node_counts(skewed, pattern)[:, 0].numpy()
    total = exact_count(skewed, pattern)
    plain = count(skewed, num_samples=3000, seed=0)
    got = count(skewed, num_samples=3000, seed=0, hubs=hubs, per_node=True)
    assert abs(got.value - total) < 4.5 * got.standard_error
    assert got.standard_error < plain.standard_error / (3 if hubs else 1.5)
    assert got.per_node.shape == (103,)
    error = np.abs(got.per_node.numpy() - expected) / (got.per_node_standard_error.numpy() + 1e-9)
    assert error.max() < 5
    assert (got.per_node_standard_error == 0).sum() >= (hubs or 1)


def test_everything_a_hub_is_exact(awkward: nx.Graph) -> None:
    n = awkward.number_of_nodes()
    got = count_triangles(awkward, epsilon=0.1, hubs=n, per_node=True)
    assert (got.value, got.standard_error, got.reached) == (exact_count(awkward, "triangle"), 0.0, True)
    assert torch.equal(got.per_node, node_counts(awkward, "triangle")[:, 0].double())
    assert count_cycles4(awkward, epsilon=0.1, hubs=n).value == exact_count(awkward, "cycle4")


@pytest.mark.parametrize("hubs", [-1, 2.0])
def test_what_is_no_number_of_hubs_is_refused(hubs: int) -> None:
    with pytest.raises(ArgumentError, match="hubs must be an integer of at least 0"):
        count_triangles(nx.path_graph(3), hubs=hubs)
