"""Shared fixtures: small graphs of every awkward kind, and the data root."""

from __future__ import annotations

import os
from pathlib import Path

import networkx as nx
import pytest
import torch

from rfp.graph import Graph


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: side by side, none is left alone at the end (``--no-loadscope-reorder``)."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of raw data sets; tests that need it are skipped, by name, without ``RFP_DATA``."""
    root = os.environ.get("RFP_DATA")
    if not root:
        pytest.skip("RFP_DATA is not set")
    return Path(root)


def awkward_graphs() -> dict[str, nx.Graph]:
    """Graphs on which encodings usually break: no edges, one node, rank one, twins, ± pairs, several components."""
    return {
        "one_node": nx.empty_graph(1),
        "no_edges": nx.empty_graph(5),
        "one_edge": nx.path_graph(2),
        "path": nx.path_graph(12),
        "star": nx.star_graph(9),
        "complete": nx.complete_graph(8),
        "bipartite": nx.complete_bipartite_graph(3, 5),
        "ring": nx.cycle_graph(10),
        "disconnected": nx.disjoint_union(nx.cycle_graph(5), nx.star_graph(4)),
        "isolated": nx.disjoint_union(nx.path_graph(4), nx.empty_graph(3)),
        "twins": nx.Graph([(0, i) for i in range(2, 8)] + [(1, i) for i in range(2, 8)]),
        "karate": nx.karate_club_graph(),
    }


@pytest.fixture(params=awkward_graphs())
def awkward(request: pytest.FixtureRequest) -> nx.Graph:
    """Each awkward graph in turn, unweighted."""
    graph = nx.Graph()
    source = awkward_graphs()[request.param]
    graph.add_nodes_from(source.nodes)
    graph.add_edges_from(source.edges)
    return graph


@pytest.fixture
def directed() -> Graph:
    """Directed and weighted, with a duplicate edge, a self-loop, an isolated node and a negative weight."""
    edge_index = torch.tensor([[0, 0, 1, 2, 2, 3, 0], [1, 1, 2, 0, 2, 1, 3]])
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0, 4.0, -1.0, 2.5])
    return Graph(edge_index, 5, weight)
