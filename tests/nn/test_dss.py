"""DSS layers: the formula by hand, equivariance in trajectories and nodes, convolutions that do not broadcast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import (
    MLP,
    GATConv,
    GCNConv,
    GINConv,
    GINEConv,
    GPSConv,
    GraphConv,
    LEConv,
    MessagePassing,
    SAGEConv,
    SGConv,
    TAGConv,
)

from rfp.errors import ArgumentError
from rfp.nn import DSS
from rfp.nn.dss import BROADCASTING

D = 6
MAKERS: dict[str, Callable[[], nn.Module]] = {
    "gcn": lambda: GCNConv(D, D),
    "graph_conv": lambda: GraphConv(D, D),
    "gin": lambda: GINConv(nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, D)), train_eps=True),
    "gine": lambda: GINEConv(nn.Linear(D, D), edge_dim=3),
    "sage": lambda: SAGEConv(D, D),
    "le": lambda: LEConv(D, D),
    "tag": lambda: TAGConv(D, D, K=2),
    "sg": lambda: SGConv(D, D, K=2),
    "gat": lambda: GATConv(D, D),
    "max": lambda: GraphConv(D, D, aggr="max"),
    "min": lambda: GraphConv(D, D, aggr="min"),
    "perceptron": lambda: GINConv(MLP([D, D, D], norm=None)),
    "gps": lambda: GPSConv(D, GCNConv(D, D), heads=2, norm=None),
}


def random_graph(n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.rand(n, n, generator=generator) < 0.4
    edge_index = (dense | dense.T).nonzero().T.contiguous()
    return edge_index, torch.randn(edge_index.size(1), 3, generator=generator)


def extra(name: str, edge_attr: Tensor) -> dict[str, Tensor]:
    return {"edge_attr": edge_attr} if name == "gine" else {}


def test_every_broadcasting_type_is_tested() -> None:
    assert {type(MAKERS[name]()) for name in MAKERS} >= set(BROADCASTING)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_equals_the_formula_one_trajectory_at_a_time(name: str, aggregation: str) -> None:
    torch.manual_seed(0)
    edge_index, edge_attr = random_graph(7, seed=1)
    layer = DSS(MAKERS[name](), aggregation=aggregation).eval()
    x = torch.randn(4, 7, D)
    joined = x[0] + x[1] + x[2] + x[3]
    joined = joined / 4 if aggregation == "mean" else joined
    second = layer.shared(joined, edge_index, **extra(name, edge_attr))
    expected = torch.stack([layer.each(f, edge_index, **extra(name, edge_attr)) + second for f in x])
    out = layer(x, edge_index, **extra(name, edge_attr))
    assert torch.allclose(out, expected, atol=1e-5)
    stacked = layer(torch.stack([x, 2 * x]), edge_index, **extra(name, edge_attr))
    assert torch.allclose(stacked[0], expected, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(name=st.sampled_from(sorted(MAKERS)), seed=st.integers(0, 10_000), n=st.integers(1, 9), b=st.integers(1, 4))
def test_equivariant_in_trajectories_and_in_nodes(name: str, seed: int, n: int, b: int) -> None:
    torch.manual_seed(seed)
    edge_index, edge_attr = random_graph(n, seed)
    layer = DSS(MAKERS[name]()).eval()
    x = torch.randn(b, n, D)
    out = layer(x, edge_index, **extra(name, edge_attr))
    trajectories, nodes = torch.randperm(b), torch.randperm(n)
    shuffled = layer(x[trajectories], edge_index, **extra(name, edge_attr))
    assert torch.allclose(shuffled, out[trajectories], atol=1e-4)
    place = torch.empty_like(nodes)
    place[nodes] = torch.arange(n)
    renamed = layer(x[:, nodes], place[edge_index], **extra(name, edge_attr))
    assert torch.allclose(renamed, out[:, nodes], atol=1e-4)


def test_the_copy_is_drawn_anew_and_both_learn() -> None:
    layer = DSS(GraphConv(D, D))
    assert not torch.equal(layer.each.lin_rel.weight, layer.shared.lin_rel.weight)
    edge_index, _ = random_graph(5, seed=3)
    layer(torch.randn(2, 5, D), edge_index).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())


def test_two_given_convolutions() -> None:
    each, shared = GraphConv(D, 4), GCNConv(D, 4)
    layer = DSS(each, shared=shared)
    assert layer.each is each
    assert layer.shared is shared
    edge_index, _ = random_graph(5, seed=3)
    assert layer(torch.randn(2, 5, D), edge_index).shape == (2, 5, 4)


class _Plain(MessagePassing):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D, D))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.propagate(edge_index, x=x @ self.weight)


def test_a_convolution_without_reset_parameters_must_come_in_pairs() -> None:
    with pytest.raises(ArgumentError, match="_Plain has no reset_parameters"):
        DSS(_Plain())
    layer = DSS(_Plain(), shared=_Plain(), broadcast=True)
    # Node 1 receives node 0: (1 + 2) columns of ones times D, from each trajectory and from their sum.
    out = layer(torch.ones(2, 3, D), torch.tensor([[0], [1]]))
    assert torch.equal(out[:, 1], torch.full((2, D), 3.0 * D))
    assert not out[:, [0, 2]].any()


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="aggregation must be one of 'sum', 'mean', got 'max'"):
        DSS(GraphConv(D, D), aggregation="max")
    with pytest.raises(ArgumentError, match=r"x must have shape \[..., B, n, d\], got \[3, 6\]"):
        DSS(GraphConv(D, D))(torch.ones(3, D), torch.tensor([[0], [1]]))


def with_batch_norm() -> nn.Module:
    return GINConv(nn.Sequential(nn.Linear(D, D), nn.BatchNorm1d(D), nn.ReLU(), nn.Linear(D, D)))


class _Derived(GCNConv):
    pass


@pytest.mark.parametrize(
    "make",
    [with_batch_norm, lambda: GINConv(MLP([D, D, D])), lambda: _Derived(D, D), lambda: GraphConv(D, D, "median")],
)
def test_what_mixes_nodes_or_is_not_known_is_called_once_a_trajectory(make: Callable[[], nn.Module]) -> None:
    """With as many nodes as channels a batch normalisation would take the ones for the others and say nothing."""
    edge_index, _ = random_graph(D, seed=2)
    layer = DSS(make())
    assert not layer.broadcast
    for _ in range(3):
        layer(torch.randn(4, D, D), edge_index)
    x = torch.randn(4, D, D)
    layer.eval()
    expected = torch.stack([layer.each(f, edge_index) for f in x]) + layer.shared(x.sum(0), edge_index)
    assert torch.allclose(layer(x, edge_index), expected, atol=1e-5)


def test_a_sparse_matrix_in_the_place_of_edges() -> None:
    edge_index, _ = random_graph(5, seed=2)
    matrix = torch.sparse_coo_tensor(edge_index.flip(0), torch.ones(edge_index.size(1)), (5, 5)).to_sparse_csr()
    layer = DSS(GraphConv(D, D))
    assert layer.broadcast
    x = torch.randn(2, 5, D)
    assert torch.allclose(layer(x, matrix), layer(x, edge_index), atol=1e-5)
