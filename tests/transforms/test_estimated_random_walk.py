"""Estimated return probabilities: those of the exact encoding on small graphs, within their errors on larger ones."""

from __future__ import annotations

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddRandomWalkPE

from rfp import products
from rfp.baselines import random_walk_pe
from rfp.graph import Graph
from rfp.transforms import AddEstimatedRandomWalkPE


def grid(side: int) -> Data:
    """A square grid with one diagonal in each square: not bipartite, degrees 2 to 6."""
    number = torch.arange(side * side).view(side, side)
    ends = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:]), (number[:-1, :-1], number[1:, 1:])]
    edges = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in ends], dim=1)
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=side * side)


def test_small_graphs_have_what_pyg_adds() -> None:
    data = grid(6)
    expected = AddRandomWalkPE(walk_length=8, attr_name="pe")(data.clone()).pe
    assert torch.allclose(AddEstimatedRandomWalkPE(walk_length=8)(data).estimated_random_walk_pe, expected, atol=1e-5)


def test_larger_graphs_within_their_errors() -> None:
    data = grid(15)
    exact = random_walk_pe(data, walk_length=8, dtype=torch.float64)
    found = products.return_probabilities(data, walk_length=8, num_channels=64, num_trajectories=4, dtype=torch.float64)
    assert torch.allclose(found.value[:, :2], exact[:, :2], atol=1e-12)  # one and two steps cost nothing
    assert (found.standard_error[:, :2] == 0).all()
    z = (found.value - exact)[:, 2:] / found.standard_error[:, 2:]
    assert z.abs().max() < 6
    assert 0.5 < z.square().mean() < 1.5
    even = ((found.value - exact) / exact)[:, 3::2]
    assert even.square().mean().sqrt() < 1.3 * (2 / 256) ** 0.5


def test_directed_and_weighted_graphs() -> None:
    """A directed ring of four nodes with a way back of weight 3 between 0 and 1: exact, since k >= n."""
    edges = torch.tensor([[0, 1, 2, 3, 1], [1, 2, 3, 0, 0]])
    graph = Graph(edges, 4, torch.tensor([1.0, 1.0, 1.0, 1.0, 3.0]))
    expected = random_walk_pe(graph, walk_length=6)
    assert torch.allclose(products.return_probabilities(graph, walk_length=6).value, expected, atol=1e-5)


def test_all_arguments_are_shown() -> None:
    shown = repr(AddEstimatedRandomWalkPE(walk_length=3, num_channels=8, num_trajectories=2, seed=5, attr_name="pe"))
    assert shown == (
        "AddEstimatedRandomWalkPE(walk_length=3, num_channels=8, num_trajectories=2, seed=5, attr_name='pe')"
    )
