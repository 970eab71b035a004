"""What the kernel draws against :func:`rfp.features.random_features`: the same bits."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("numba")
from rfp.backends.compiled.drawn_features import compiled_features, graph_keys_of
from rfp.backends.problem import Draw, draw_features
from rfp.features import _CHUNK_WORDS
from rfp.graph import Graph
from rfp.settings import Settings


def batch(edge_dtype: torch.dtype = torch.long) -> Graph:
    """Edges out of order, a self-loop at node 0 of a graph (whose word would be 0), no edges, no nodes, one node."""
    edges = torch.tensor([[7, 0, 1, 4, 4, 2, 8, 5], [8, 1, 0, 4, 5, 2, 7, 4]], dtype=edge_dtype)
    return Graph(edges, 12, ptr=torch.tensor([0, 4, 4, 7, 9, 10, 12]))


def one_graph() -> Graph:
    return Graph(torch.tensor([[0, 0, 1, 2], [0, 1, 2, 0]]), 5)


def same(graph: Graph, settings: Settings, graph_keys: torch.Tensor | None = None) -> None:
    fresh = Graph.unchecked(graph.edge_index, graph.num_nodes, graph.edge_weight, graph.ptr)
    right = draw_features(settings, graph, graph_keys).transpose(0, 1)
    found = compiled_features(Draw(settings, fresh, graph_keys))
    assert found.shape == right.shape
    assert found.dtype == right.dtype
    assert torch.equal(found, right)


@pytest.mark.parametrize("graph", [batch(), batch(torch.int32), one_graph(), Graph(torch.zeros(2, 0).long(), 0)])
def test_keys(graph: Graph) -> None:
    fresh = Graph.unchecked(graph.edge_index, graph.num_nodes, None, graph.ptr)
    assert torch.equal(graph_keys_of(fresh), graph.keys)
    assert fresh.keys is graph_keys_of(fresh)  # learned: nobody hashes the edges again


def test_known_keys_are_kept() -> None:
    keys = torch.arange(6)
    assert graph_keys_of(batch().with_keys(keys)) is keys


@pytest.mark.parametrize("distribution", ["normal", "rademacher", "uniform"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("num_channels", "num_trajectories"), [(1, 1), (5, 3), (16, 1)])
def test_same_bits(distribution: str, dtype: torch.dtype, num_channels: int, num_trajectories: int) -> None:
    settings = Settings(
        num_channels=num_channels, num_trajectories=num_trajectories, distribution=distribution, dtype=dtype, seed=-3
    )
    for graph in (batch(), one_graph(), Graph(torch.zeros(2, 0).long(), 0), Graph(torch.zeros(2, 0).long(), 3)):
        same(graph, settings)
        same(graph, settings, torch.arange(graph.num_graphs) * 5)


def test_a_distribution_of_ones_own() -> None:
    same(batch(), Settings(num_channels=3, distribution=torch.sign))


def test_more_than_a_chunk_on_any_number_of_threads() -> None:
    num_nodes = _CHUNK_WORDS // 4 + 1000
    edges = torch.randint(num_nodes, (2, 5000), generator=torch.Generator().manual_seed(0))
    before = torch.get_num_threads()
    try:
        for num_threads in (1, 2):
            torch.set_num_threads(num_threads)
            same(Graph(edges, num_nodes), Settings(num_channels=8))
    finally:
        torch.set_num_threads(before)
