"""Every backbone: keeps leading dimensions, equals one call a trajectory, equivariant, reads what it says it reads."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import GCN2Conv

from rfp import Graph
from rfp.errors import ArgumentError
from rfp.nn import BACKBONES, Backbone, Edges
from rfp.nn.gcn import GCNMatrix

D, N, B = 8, 7, 3


def edges(seed: int = 0) -> Edges:
    generator = torch.Generator().manual_seed(seed)
    dense = torch.rand(N, N, generator=generator) < 0.4
    dense[4:, :4] = dense[:4, 4:] = False  # two graphs, of 4 and 3 nodes
    index = (dense | dense.T).nonzero().T.contiguous()
    attr = torch.randn(index.size(1), D, generator=generator)
    weight = torch.rand(index.size(1), generator=generator)
    return Edges(index, attr, weight, torch.tensor([0] * 4 + [1] * 3))


def make(name: str, dss: str | None = None, **options: object) -> Backbone:
    torch.manual_seed(0)
    settings = {"num_heads": 2, "edge_features": True, **options}
    return Backbone(name, D, 2, dss=dss, **settings).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("norm", ["batch", "layer", "none"])
def test_leading_dimensions_are_independent_without_dss(name: str, norm: str) -> None:
    backbone, x = make(name, norm=norm), torch.randn(B, N, D)
    out = backbone(x, edges())
    assert out.shape == x.shape
    for b in range(B):
        assert torch.allclose(out[b], backbone(x[b], edges()), atol=1e-5)
    assert backbone(x[:, None], edges()).shape == (B, 1, N, D)


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("dss", ["sum", "mean"])
def test_inside_dss_it_is_equivariant_and_trajectories_meet(name: str, dss: str) -> None:
    backbone, x = make(name, dss), torch.randn(B, N, D)
    out = backbone(x, edges())
    order = torch.tensor([2, 0, 1])
    assert torch.allclose(backbone(x[order], edges()), out[order], atol=1e-4)
    changed = x.clone()
    changed[2] += 1
    assert not torch.allclose(backbone(changed, edges())[0], out[0], atol=1e-4)


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("dss", [None, "sum"])
@pytest.mark.parametrize("apart", [0, 1, 2])
def test_trajectories_are_pooled_after_some_layers(name: str, dss: str | None, apart: int) -> None:
    """The first layers as they are on B trajectories, the mean, the other layers on one state."""
    backbone, x, given = make(name, dss, apart=apart), torch.randn(B, N, D), edges()
    h = x
    for number in range(2):
        h = h.mean(0) if number == apart else h
        here = replace(given, start=x.mean(0) if number >= apart else x)
        h = h + backbone.act(backbone.norms[number](backbone.layers[number](h, here)))
    h = h.mean(0) if apart == 2 else h
    out = backbone(x, given)
    assert out.shape == (N, D)
    assert torch.allclose(out, h, atol=1e-5)
    assert torch.allclose(backbone(x.flip(0), given), out, atol=1e-5)


def test_layers_before_pooling_are_counted() -> None:
    with pytest.raises(ArgumentError, match="trajectory_layers must be from 0 to num_layers=2, got 3"):
        make("gin", apart=3)


@pytest.mark.parametrize("name", BACKBONES)
def test_equivariant_to_a_renaming_of_the_nodes(name: str) -> None:
    backbone, x, given = make(name), torch.randn(N, D), edges()
    order = torch.cat([torch.randperm(4), 4 + torch.randperm(3)])  # within each graph
    place = torch.empty_like(order)
    place[order] = torch.arange(N)
    renamed = Edges(place[given.index], given.attr, given.weight, given.batch)
    assert torch.allclose(backbone(x[order], renamed), backbone(x, given)[order], atol=1e-4)


@pytest.mark.parametrize("name", BACKBONES)
def test_graphs_of_a_batch_do_not_mix(name: str) -> None:
    backbone, x, given = make(name, "sum"), torch.randn(B, N, D), edges()
    changed = x.clone()
    changed[:, 4:] += 1
    assert torch.allclose(backbone(x, given)[:, :4], backbone(changed, given)[:, :4], atol=1e-5)


def reads(name: str, altered: Edges) -> bool:
    x = torch.randn(N, D, generator=torch.Generator().manual_seed(1))
    backbone = make(name)
    return not torch.allclose(backbone(x, edges()), backbone(x, altered), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "structure", "attr", "weight"),
    [
        ("mlp", False, False, False),
        ("gcn", True, False, True),
        ("gcnii", True, False, True),
        ("graph_conv", True, False, True),
        ("gin", True, False, False),
        ("gine", True, True, False),
        ("gps", True, True, False),
    ],
)
def test_what_each_backbone_reads(name: str, structure: bool, attr: bool, weight: bool) -> None:
    given = edges()
    assert given.attr is not None
    assert given.weight is not None
    other = edges(seed=5)
    assert reads(name, other) == structure
    assert reads(name, Edges(given.index, given.attr + 1, given.weight, given.batch)) == attr
    assert reads(name, Edges(given.index, given.attr, given.weight + 1, given.batch)) == weight


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("dss", [None, "sum"])
def test_every_parameter_learns(name: str, dss: str | None) -> None:
    backbone = make(name, dss, norm="layer").train()
    backbone(torch.randn(B, N, D), edges()).square().sum().backward()
    for parameter, tensor in backbone.named_parameters():
        assert tensor.grad is not None, parameter


@pytest.mark.parametrize("kept", [True, False], ids=["kept graph", "new graph"])
def test_gcnii_is_pygs_layer_by_layer(kept: bool) -> None:
    """:class:`torch_geometric.nn.GCN2Conv` with the same weights, each layer with its number."""
    given, x = edges(), torch.randn(N, D)
    plain = Edges(given.index, weight=given.weight)
    matrix = GCNMatrix(Graph(given.index, N, edge_weight=given.weight)) if kept else None
    torch.manual_seed(0)
    backbone = Backbone("gcnii", D, 3, norm="none", residual=False, initial_residual=0.3, identity_mapping=1.5)
    h = x
    for number, layer in enumerate(backbone.layers, start=1):
        conv = GCN2Conv(D, alpha=0.3, theta=1.5, layer=number)
        conv.weight1.data = layer.lin.weight.data.T  # type: ignore[union-attr]
        h = conv(h, x, given.index, given.weight).relu()
    assert torch.allclose(backbone(x, replace(plain, gcn=matrix)), h, atol=1e-5)


def test_gcnii_inside_dss_adds_a_map_of_the_sum() -> None:
    """The convolution of the sum has no identity and no start, which B trajectories would add up in every layer."""
    given = edges()
    torch.manual_seed(0)
    layer = Backbone("gcnii", D, 1, dss="sum", norm="none", residual=False, initial_residual=0.3).layers[0]
    x, start = torch.randn(B, N, D), torch.randn(B, N, D)
    propagate = GCNMatrix(Graph(given.index, N, edge_weight=given.weight)).propagate
    beta = math.log(1.5)
    h = 0.7 * propagate(x) + 0.3 * start
    expected = (1 - beta) * h + beta * layer.each.lin(h) + beta * layer.shared.lin(propagate(x.sum(0)))  # type: ignore[union-attr, operator]
    assert torch.allclose(layer(x, Edges(given.index, weight=given.weight, start=start)), expected, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in BACKBONES if name != "gcnii"])
def test_what_is_drawn_inside_dss_comes_after_the_convolutions(name: str) -> None:
    """A seed draws the convolutions that it draws without DSS, as it did for the committed results."""
    drawn = []
    for dss in (None, "sum"):
        torch.manual_seed(0)
        layers = Backbone(name, D, 3, dss=dss, num_heads=2, edge_features=True).layers
        convs = [layer if dss is None else layer.each for layer in layers]
        drawn.append([p for conv in convs for p in conv.parameters()])  # type: ignore[union-attr]
    assert all(torch.equal(one, other) for one, other in zip(*drawn, strict=True))


def test_residual_depth_and_plain_gps() -> None:
    x = torch.randn(N, D)
    assert torch.equal(Backbone("gin", D, 0)(x, edges()), x)
    torch.manual_seed(0)
    with_skip = Backbone("mlp", D, 1, norm="none")
    torch.manual_seed(0)
    without = Backbone("mlp", D, 1, norm="none", residual=False)
    assert torch.allclose(with_skip(x, edges()), x + without(x, edges()), atol=1e-6)
    plain = make("gps", edge_features=False)
    given = edges()
    assert plain(x, Edges(given.index, batch=given.batch)).shape == x.shape


def test_dropout_acts_in_training_only() -> None:
    backbone, x = make("gin", dropout=0.5), torch.randn(N, D)
    assert torch.equal(backbone(x, edges()), backbone(x, edges()))
    backbone.train()
    assert not torch.equal(backbone(x, edges()), backbone(x, edges()))


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="backbone must be one of 'mlp', 'gcn'"):
        Backbone("gat", D, 2)
    with pytest.raises(ArgumentError, match="num_heads=3 must divide the width 8 of a GPS layer; try 2 heads"):
        Backbone("gps", D, 2, num_heads=3)
    with pytest.raises(ArgumentError, match="got 0 and 2"):
        Backbone("gin", 0, 2)
    with pytest.raises(ArgumentError, match="reads edge features"):
        make("gine")(torch.ones(N, D), Edges(edges().index))
