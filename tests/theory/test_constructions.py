"""Propositions 4.1 and C.7: the networks' outputs are compared with quadratic forms in NumPy on every small graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GraphConv
from torch_geometric.nn.pool import global_add_pool

import rfp
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn import DSS
from rfp.theory.constructions import (
    DSSTriangles,
    GraphConvTriangles,
    early_steps,
    graph_conv,
    product_layers,
    random_node_initialization,
)

MAX_NODES = 6


@pytest.fixture(scope="module")
def all_small_graphs() -> tuple[list[nx.Graph], Graph]:
    """All 208 graphs with one to six nodes, up to isomorphism, as one batch."""
    graphs = [g for g in nx.graph_atlas_g() if 1 <= g.number_of_nodes() <= MAX_NODES]
    assert len(graphs) == 208
    return graphs, as_graph([as_graph(g) for g in graphs])


def trace_triangle(graphs: list[nx.Graph], batch: Graph, r: np.ndarray) -> np.ndarray:  # r: [B, n]
    """The algorithm as it is written in section C.1: y = A r, T = y^T A y / 6, averaged."""
    etas = []
    for graph, start, stop in zip(graphs, batch.offsets[:-1].tolist(), batch.offsets[1:].tolist(), strict=True):
        A = nx.to_numpy_array(graph)
        etas.append(np.mean([(A @ r_i) @ A @ (A @ r_i) / 6 for r_i in r[:, start:stop]]))
    return np.array(etas)


@pytest.mark.parametrize("network", [GraphConvTriangles, DSSTriangles])
@pytest.mark.parametrize(("num_trajectories", "num_steps", "num_inputs"), [(1, 2, 0), (5, 4, 3)])
def test_proposition_4_1(
    all_small_graphs: tuple[list[nx.Graph], Graph],
    network: type[nn.Module],
    num_trajectories: int,
    num_steps: int,
    num_inputs: int,
) -> None:
    graphs, batch = all_small_graphs
    t = rfp.encode(
        batch,
        num_channels=1,
        num_steps=num_steps,
        num_trajectories=num_trajectories,
        operators=["adjacency"],
        normalization="qr",
        normalize_every=3,  # the proof needs w >= 3: steps 1 and 2 are then A r and A^2 r
        distribution="rademacher",
        dtype=torch.float64,
        seed=11,
    ).flat()
    x = torch.randn(batch.num_nodes, num_inputs, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model = network(num_trajectories=num_trajectories, num_steps=num_steps, num_inputs=num_inputs, max_nodes=MAX_NODES)
    with torch.no_grad():
        y = model(t, x, batch.edge_index, batch.batch, batch.num_graphs)
    expected = trace_triangle(graphs, batch, t[:, :, 0].numpy())
    assert set(t[:, :, 0].unique().tolist()) == {-1.0, 1.0}
    assert np.abs(expected).max() > 10
    np.testing.assert_allclose(y, expected, rtol=1e-15, atol=1e-15)


def test_average_over_all_features_counts_the_triangles(all_small_graphs: tuple[list[nx.Graph], Graph]) -> None:
    """All 64 sign vectors as trajectories: the average is the expectation, and that is the number of triangles."""
    graphs, _ = all_small_graphs
    six = [g for g in graphs if g.number_of_nodes() == 6]
    batch = as_graph([as_graph(g) for g in six])
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 6)  # [64, 6]
    t = rfp.encode(
        batch,
        num_steps=2,
        operators=["adjacency"],
        normalization="none",
        dtype=torch.float64,
        features=signs.repeat(1, len(six))[:, :, None],
    ).flat()
    x = torch.zeros(batch.num_nodes, 0, dtype=torch.float64)
    model = DSSTriangles(num_trajectories=64, max_nodes=6)
    with torch.no_grad():
        y = model(t, x, batch.edge_index, batch.batch, batch.num_graphs)
    np.testing.assert_allclose(y, [sum(nx.triangles(g).values()) / 3 for g in six], atol=1e-12)


def test_the_same_weights_in_the_library_s_dss_layer(all_small_graphs: tuple[list[nx.Graph], Graph]) -> None:
    _, batch = all_small_graphs
    reference = DSSTriangles(num_trajectories=3, max_nodes=MAX_NODES)
    layers = [DSS(each, shared=shared) for each, shared in zip(reference.each, reference.shared, strict=True)]
    r = rfp.random_features(batch, num_channels=1, num_trajectories=3, distribution="rademacher", dtype=torch.float64)
    t = rfp.encode(
        batch, num_steps=2, operators=["adjacency"], normalization="none", dtype=torch.float64, features=r
    ).flat()
    x = torch.zeros(batch.num_nodes, 0, dtype=torch.float64)
    with torch.no_grad():
        h = reference.embed(t)
        for layer in layers:
            h = torch.relu(layer(h, batch.edge_index))
        pooled = torch.stack([global_add_pool(h_b, batch.batch, batch.num_graphs) for h_b in h])
        y = reference.psi(reference.rho(pooled).sum(0))[:, 0]
        assert torch.equal(y, reference(t, x, batch.edge_index, batch.batch, batch.num_graphs))


@pytest.mark.parametrize("max_nodes", [1, 2, 3, 6])
def test_product_is_exact_on_its_range(max_nodes: int) -> None:
    first, second = max_nodes - 1, (max_nodes - 1) ** 2
    x, y = torch.meshgrid(
        torch.arange(-first, first + 1).double(), torch.arange(-second, second + 1).double(), indexing="ij"
    )
    h = torch.stack([x.flatten(), y.flatten()], dim=1)
    layers = product_layers(max_nodes)
    assert len(layers) == 3
    for weight, bias in layers:
        h = torch.relu(h @ weight.T + bias)
    assert torch.equal(h[:, 0] - h[:, 1], (x * y).flatten())


def test_graph_conv_with_these_weights_ignores_neighbours() -> None:
    conv = graph_conv((torch.eye(2, dtype=torch.float64), torch.tensor([1.0, -1.0], dtype=torch.float64)))
    assert isinstance(conv, GraphConv)
    x = torch.randn(3, 2, dtype=torch.float64)
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    assert torch.equal(conv(x, ring), x + torch.tensor([1.0, -1.0], dtype=torch.float64))


def test_selection_matrix_of_the_proof() -> None:
    embed = early_steps(num_steps=3, num_inputs=2, copies=2)
    row = torch.tensor([10.0, 11, 12, 13, 20, 21, 22, 23, 98, 99], dtype=torch.float64)
    assert embed(row).tolist() == [11, 12, 21, 22]


@pytest.mark.parametrize("num_steps", [0, 1])
def test_too_few_steps_are_refused(num_steps: int) -> None:
    with pytest.raises(ArgumentError, match="num_steps must be at least 2"):
        GraphConvTriangles(num_trajectories=1, num_steps=num_steps, max_nodes=4)


def test_no_nodes_is_refused() -> None:
    with pytest.raises(ArgumentError, match="max_nodes must be at least 1"):
        product_layers(0)


class Backbone(nn.Module):
    """Some message-passing network g(A, h), the same for both models below."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = GraphConv(width, 16).double(), GraphConv(16, 1).double()

    def forward(self, h: Tensor, edge_index: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        h = torch.relu(self.first(h, edge_index))
        return global_add_pool(self.second(h, edge_index), batch, num_graphs)


@pytest.mark.parametrize("num_steps", [0, 1, 5])
@pytest.mark.parametrize("num_inputs", [0, 3])
def test_proposition_c_7(all_small_graphs: tuple[list[nx.Graph], Graph], num_steps: int, num_inputs: int) -> None:
    """With B = 1, this K_embed and sigma = identity, RFP is RNI: y = g(A, f_in + r), equal bit for bit."""
    _, batch = all_small_graphs
    torch.manual_seed(0)
    backbone = Backbone(num_inputs + 4)
    f_in = torch.randn(batch.num_nodes, num_inputs, dtype=torch.float64)
    settings = {"num_channels": 4, "distribution": "uniform", "seed": 5, "dtype": torch.float64}
    t = rfp.encode(batch, num_steps=num_steps, operators=["normalized_adjacency"], **settings).flat()[0]
    r = rfp.random_features(batch, **settings)[0]
    embed = random_node_initialization(num_inputs, num_channels=4, num_steps=num_steps)
    with torch.no_grad():
        rfp_model = backbone(embed(torch.cat([f_in, t], dim=1)), batch.edge_index, batch.batch, batch.num_graphs)
        rni_model = backbone(torch.cat([f_in, r], dim=1), batch.edge_index, batch.batch, batch.num_graphs)
    assert rni_model.std() > 0
    assert torch.equal(rfp_model, rni_model)
