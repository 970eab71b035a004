"""The head of links: symmetric, exact where it can be, and part of every kind of model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn import RFPModel, link_head
from rfp.nn.embeddings import DrawnShape
from rfp.nn.link_head import LinkHead, LinkHeadOptions
from rfp.nn.model_config import ModelConfig

ENCODING = {
    "name": "rfp",
    "num_channels": 8,
    "num_steps": 2,
    "operators": ["adjacency", "normalized_adjacency"],
    "normalization": "none",
}
PAIRS = torch.tensor([[0, 5, 3, 33], [33, 2, 19, 0]])


@pytest.fixture
def club() -> Graph:
    return rfp.theory.simplify(nx.karate_club_graph())


def link_model(**more: Any) -> RFPModel:
    torch.manual_seed(0)
    values = {"task": "link", "out_channels": 1, "in_channels": 1, "encodings": [ENCODING], "pair_products": True}
    return RFPModel({**values, "backbone": "gcn", "norm": "none", "hidden_channels": 16, "num_layers": 2, **more})


def data(pairs: torch.Tensor = PAIRS) -> SimpleNamespace:
    return SimpleNamespace(x=torch.ones(34, 1), edge_attr=None, pairs=pairs)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"embed": "products"},
        {"pair_products": False},
        {"pair_degrees": False},
        {"trajectories": "dss", "encodings": [{**ENCODING, "num_trajectories": 3}]},
        {"encodings": [{**ENCODING, "num_trajectories": 3}]},
        {"encodings": [{**ENCODING, "operators": ["adjacency", "learned"]}]},
        {"backbone": "gin", "norm": "batch"},
        {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 4}], "pair_products": False},
        {"encodings": [], "pair_products": False},
    ],
    ids=lambda more: "-".join(more) or "plain",
)
def test_every_model_scores_pairs_the_same_either_way_round(club: Graph, more: dict[str, Any]) -> None:
    model = link_model(**more)
    model.train()
    loss = model(data(), graph=club).square().sum()
    loss.backward()
    got = [name for name, p in model.named_parameters() if p.grad is not None]
    assert any(name.startswith("head.answer") for name in got)
    model.eval()
    with torch.no_grad():
        out = model(data(), graph=club)
        assert out.shape == (4, 1)
        torch.testing.assert_close(model(data(PAIRS.flip(0)), graph=club), out, rtol=1e-4, atol=1e-5)
        assert float((out[0] - out[3]).abs()) < 1e-5  # (0, 33) and (33, 0)


def test_a_learned_operator_learns_from_pairs(club: Graph) -> None:
    model = link_model(encodings=[{**ENCODING, "operators": ["adjacency", "learned"]}])
    model(data(), graph=club).sum().backward()
    assert any(float(p.grad.abs().sum()) > 0 for p in model.drawn.parameters() if p.grad is not None)


@pytest.mark.parametrize("trajectories", [1, 2])
def test_products_of_a_spanning_trajectory_are_walks(club: Graph, trajectories: int) -> None:
    """With k >= n and an orthonormal start the features are logarithms of entries of powers of A, whatever the draw."""
    adjacency = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    shape = DrawnShape(3, 40, trajectories)
    head = LinkHead(LinkHeadOptions(4, drawn=(shape,)), starts=("orthonormal",))
    t = rfp.encode(
        club,
        num_channels=40,
        num_steps=2,
        operators=["adjacency"],
        normalization="none",
        start="orthonormal",
        num_trajectories=trajectories,
    ).flat()
    degree = torch.from_numpy(adjacency.sum(0)).float()
    of_degrees = degree[PAIRS[0]] * degree[PAIRS[1]]
    found = head.pair_features([t], PAIRS, of_degrees).numpy()
    powers = [np.linalg.matrix_power(adjacency, p) for p in range(5)]
    rows, columns = np.triu_indices(3)
    for i, (u, v) in enumerate(PAIRS.T.tolist()):
        walks = np.array([powers[s + t][u, v] for s, t in zip(rows, columns, strict=True)])
        expected = np.log1p(np.concatenate([walks, walks * np.sqrt(float(of_degrees[i]))]))
        np.testing.assert_allclose(found[i], expected, atol=2e-3)


def test_drawn_features_estimate_the_same(club: Graph) -> None:
    shape = DrawnShape(2, 4000)
    head = LinkHead(LinkHeadOptions(4, drawn=(shape,)), starts=("drawn",))
    t = rfp.encode(club, num_channels=4000, num_steps=1, operators=["adjacency"], normalization="none").flat()
    found = head.pair_features([t], torch.tensor([[0], [33]]), torch.ones(1))[0, 2].exp() - 1
    assert abs(float(found) - 4) < 1.2  # four common neighbours; the standard error is 0.27


def test_blocks_of_pairs_do_not_matter(club: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    model = link_model().eval()
    pairs = torch.randint(34, (2, 50), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = model(data(pairs), graph=club)
        monkeypatch.setattr(link_head, "_PAIR_BYTES", 1 << 12)
        torch.testing.assert_close(model(data(pairs), graph=club), whole)
        assert model(data(pairs[:, :0]), graph=club).shape == (0, 1)


def test_nodes_without_edges(club: Graph) -> None:
    lonely = Graph(club.edge_index, 36)
    model = link_model().eval()
    out = model(
        SimpleNamespace(x=torch.ones(36, 1), edge_attr=None, pairs=torch.tensor([[34, 0], [35, 34]])), graph=lonely
    )
    assert bool(out.isfinite().all())


def test_what_does_not_go_together() -> None:
    with pytest.raises(ArgumentError, match="pair_products is for links"):
        ModelConfig(1, task="node", in_channels=1, pair_products=True)
    with pytest.raises(ArgumentError, match='add an encoding named "rfp"'):
        ModelConfig(1, task="link", in_channels=1, encodings=(), pair_products=True)
