"""RNF, NFP, SGC, SIGN, PowerEmbed against dense NumPy."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric import transforms
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx

import rfp
from rfp.baselines import nfp, power_embed, rnf, sgc, sign
from rfp.errors import ArgumentError
from rfp.graph import Graph


def dense_a_hat(nx_graph: nx.Graph) -> np.ndarray:
    a = nx.to_numpy_array(nx_graph) + np.eye(len(nx_graph))
    d = 1 / np.sqrt(a.sum(1))
    return d[:, None] * a * d[None, :]


@pytest.fixture
def karate() -> tuple[nx.Graph, Data, torch.Tensor]:
    nx_graph = nx.Graph(nx.karate_club_graph().edges)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((34, 5)))
    return nx_graph, from_networkx(nx_graph), x


def test_rnf_is_step_zero_of_rfp_and_standard_normal() -> None:
    path = (torch.tensor([[0, 1], [1, 0]]), 5000)
    drawn = rnf(path, num_channels=4, num_trajectories=2, seed=3)
    assert drawn.shape == (2, 5000, 4)
    full = rfp.encode(path, num_channels=4, num_trajectories=2, num_steps=1, seed=3, backend="reference")
    assert torch.equal(drawn, full.states[:, :, 0])
    assert abs(float(drawn.mean())) < 0.02
    assert abs(float(drawn.std()) - 1) < 0.02


def test_sign_and_sgc_are_powers_of_the_operator(karate: tuple[nx.Graph, Data, torch.Tensor]) -> None:
    nx_graph, data, x = karate
    s = dense_a_hat(nx_graph)
    expected = np.concatenate([np.linalg.matrix_power(s, p) @ x.numpy() for p in range(4)], axis=1)
    assert np.allclose(sign(data, x=x, num_steps=3, dtype=torch.float64), expected, atol=1e-12)
    assert np.allclose(sgc(data, x=x, num_steps=3, dtype=torch.float64), expected[:, -5:], atol=1e-12)
    assert np.allclose(sgc(data, x=x, num_steps=0, dtype=torch.float64), x)


def test_sign_agrees_with_pyg_where_the_operators_are_the_same(karate: tuple[nx.Graph, Data, torch.Tensor]) -> None:
    _, data, x = karate
    data = transforms.AddSelfLoops()(Data(x=x.float(), edge_index=data.edge_index))  # PyG's SIGN adds none itself
    theirs = transforms.SIGN(2)(data)
    assert torch.allclose(sign(data, num_steps=2), torch.cat([theirs.x, theirs.x1, theirs.x2], dim=1), atol=1e-5)


def test_nfp_is_qr_propagation_of_the_features(karate: tuple[nx.Graph, Data, torch.Tensor]) -> None:
    nx_graph, data, x = karate
    s, a = dense_a_hat(nx_graph), x.numpy()
    expected = [a]
    for _ in range(4):
        q, r = np.linalg.qr(s @ a)
        a = q * np.sign(np.diag(r))
        expected.append(a)
    data.x = x
    assert np.allclose(nfp(data, num_steps=4, dtype=torch.float64), np.concatenate(expected, axis=1), atol=1e-9)


def test_power_embed_carries_the_raw_matrix_and_records_unit_columns(
    karate: tuple[nx.Graph, Data, torch.Tensor],
) -> None:
    nx_graph, data, x = karate
    s, u = dense_a_hat(nx_graph), x.numpy()
    kept = [u]
    for _ in range(5):
        u = s @ u
        u = u @ np.linalg.inv(u.T @ u)
        kept.append(u / np.linalg.norm(u, axis=0))
    out = power_embed(data, x=x, num_steps=5, dtype=torch.float64)
    assert np.allclose(out, np.concatenate(kept, axis=1), atol=1e-8)


def test_power_embed_with_dependent_features_is_finite() -> None:
    ring = Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4).to_undirected()
    x = torch.ones(4, 6)
    x[:, 3] = torch.arange(4.0)
    assert power_embed(ring, x=x, num_steps=6).isfinite().all()


@pytest.mark.parametrize("function", [nfp, sign, sgc, power_embed])
def test_a_batch_is_its_graphs_alone(function: object) -> None:
    rng = np.random.default_rng(1)
    graphs = [from_networkx(g) for g in (nx.cycle_graph(6), nx.star_graph(7), nx.path_graph(9))]
    for g in graphs:
        g.x = torch.from_numpy(rng.standard_normal((g.num_nodes, 3)))
    x = torch.cat([g.x for g in graphs])
    together = function(graphs, x=x, num_steps=3, dtype=torch.float64)  # type: ignore[operator]
    alone = torch.cat([function(g, num_steps=3, dtype=torch.float64) for g in graphs])  # type: ignore[operator]
    assert torch.allclose(together, alone, atol=1e-9)


@pytest.mark.parametrize("function", [nfp, sign, sgc, power_embed])
def test_missing_and_misshapen_features(function: object) -> None:
    edge = Graph(torch.tensor([[0, 1], [1, 0]]), 2)
    with pytest.raises(ArgumentError, match="give x"):
        function(edge)  # type: ignore[operator]
    with pytest.raises(ArgumentError, match=r"x must have shape \[n, d\], got \[2, 1, 1\]"):
        function(edge, x=torch.ones(2, 1, 1))  # type: ignore[operator]
    assert function(edge, x=torch.tensor([1, 2])).isfinite().all()  # type: ignore[operator]
