"""Reductions over nodes and over trajectories, by hand."""

from __future__ import annotations

import pytest
import torch

from rfp.errors import ArgumentError
from rfp.nn import DeepSets, aggregate_trajectories, pool_nodes

X = torch.tensor([[1.0, -2.0], [3.0, -5.0], [10.0, 4.0]])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("sum", [[4.0, -7.0], [0, 0], [10, 4]]),
        ("mean", [[2, -3.5], [0, 0], [10, 4]]),
        ("max", [[3, -2], [0, 0], [10, 4]]),
    ],
)
def test_by_hand_with_an_empty_graph_and_leading_dimensions(kind: str, expected: list[list[float]]) -> None:
    ptr = torch.tensor([0, 2, 2, 3])
    assert torch.equal(pool_nodes(X, ptr, kind), torch.tensor(expected))
    stacked = pool_nodes(torch.stack([X, -X, X]), ptr, kind)
    assert stacked.shape == (3, 3, 2)
    assert torch.equal(stacked[2], torch.tensor(expected))


@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_gradients(kind: str) -> None:
    x = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: pool_nodes(t, torch.tensor([0, 2, 5]), kind), x)


@pytest.mark.parametrize(("kind", "expected"), [("sum", 9.0), ("mean", 3.0), ("max", 5.0)])
def test_over_trajectories(kind: str, expected: float) -> None:
    x = torch.tensor([1.0, 5.0, 3.0]).view(3, 1, 1).expand(3, 2, 2)
    assert torch.equal(aggregate_trajectories(x, kind), torch.full((2, 2), expected))


@pytest.mark.parametrize("kind", ["sum", "mean", "max"])
def test_deep_sets_are_invariant_and_the_formula(kind: str) -> None:
    torch.manual_seed(0)
    net = DeepSets(4, aggregation=kind)
    x = torch.randn(3, 2, 4)
    out = net(x)
    assert out.shape == (2, 4)
    assert torch.allclose(net(x[[2, 0, 1]]), out, atol=1e-6)
    phi = torch.stack([net.phi(one) for one in x])
    joined = {"sum": phi.sum(0), "mean": phi.mean(0), "max": phi.max(0).values}[kind]
    assert torch.allclose(net.rho(joined), out, atol=1e-6)


def test_unknown_kinds() -> None:
    with pytest.raises(ArgumentError, match="readout must be one of"):
        pool_nodes(X, torch.tensor([0, 3]), "median")
    with pytest.raises(ArgumentError, match="trajectory_readout must be one of"):
        aggregate_trajectories(X[None], "median")
    with pytest.raises(ArgumentError, match="trajectory_readout must be one of"):
        DeepSets(4, aggregation="median")
