"""Return probabilities against dense powers of D⁻¹A, and against PyG where PyG is right (no weights)."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.transforms import AddRandomWalkPE
from torch_geometric.utils import from_networkx

from rfp.baselines import random_walk, random_walk_pe
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph


def dense(graph: Graph, length: int) -> np.ndarray:
    a = np.zeros((graph.num_nodes, graph.num_nodes))
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.numpy()
    np.add.at(a, tuple(graph.edge_index.numpy()), weight)
    degree = np.abs(a).sum(1, keepdims=True)
    walk = np.divide(a, degree, out=np.zeros_like(a), where=degree > 0)
    return np.stack([np.linalg.matrix_power(walk, p).diagonal() for p in range(1, length + 1)], axis=1)


def test_awkward_graphs(awkward: nx.Graph) -> None:
    graph = as_graph(awkward)
    out = random_walk_pe(graph, walk_length=5, dtype=torch.float64)
    assert np.allclose(out, dense(graph, 5), atol=1e-12)


def test_weights_and_direction(directed: Graph) -> None:
    assert np.allclose(random_walk_pe(directed, walk_length=4, dtype=torch.float64), dense(directed, 4), atol=1e-12)


def test_weighted_values_are_probabilities() -> None:
    rng = np.random.default_rng(0)
    weights = rng.random((12, 12)) * 40
    out = random_walk_pe(as_graph(nx.from_numpy_array((weights + weights.T) / 2)), walk_length=6)
    assert float(out.min()) >= 0
    assert float(out.max()) <= 1


def test_agrees_with_pyg_without_weights() -> None:
    data = from_networkx(nx.Graph(nx.karate_club_graph().edges))
    expected = AddRandomWalkPE(8, attr_name="pe")(data).pe
    assert torch.allclose(random_walk_pe(data, walk_length=8), expected, atol=1e-6)


def test_batches_and_column_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [as_graph(g) for g in (nx.cycle_graph(5), nx.karate_club_graph(), nx.empty_graph(1), nx.star_graph(12))]
    expected = np.concatenate([dense(g, 3) for g in graphs])
    assert np.allclose(random_walk_pe(graphs, walk_length=3), expected, atol=1e-6)
    monkeypatch.setattr(random_walk, "_COLUMNS", 7)
    assert np.allclose(random_walk_pe(graphs, walk_length=3), expected, atol=1e-6)


def test_walk_length_must_be_positive() -> None:
    with pytest.raises(ArgumentError, match="walk_length must be an integer of at least 1, got 0"):
        random_walk_pe(nx.path_graph(2), walk_length=0)
