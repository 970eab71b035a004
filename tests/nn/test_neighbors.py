"""Sums over neighbours: the plain path against PyG's layers, the kernels (interpreted) against the plain path."""

import pytest
import torch
from tests.interpreter import run_interpreted
from torch import nn
from torch_geometric.nn import GINConv, GINEConv

from rfp.graph import Graph
from rfp.nn.backbones import Backbone, Edges
from rfp.nn.neighbors import add_neighbors, keep_sorted, sort_edges, sorted_edges

# Node 4 has no edges, 2 has a self-loop, 0 -> 1 is there twice, 3 has an edge in but none out.
EDGES = torch.tensor([[0, 0, 1, 2, 2, 1, 0], [1, 1, 0, 2, 3, 3, 2]])


def test_by_hand() -> None:
    x = torch.tensor([[1.0], [2.0], [-4.0], [8.0], [16.0]])
    eps = torch.tensor([0.5])
    # 0: 1.5 + 2; 1: 3 + 1 + 1; 2: -6 - 4 + 1; 3: 12 - 4 + 2; 4: 24
    assert add_neighbors(x, EDGES, eps).flatten().tolist() == [3.5, 5.0, -9.0, 10.0, 24.0]
    attr = torch.tensor([[0.0], [-3.0], [1.0], [5.0], [0.0], [0.0], [0.0]])
    # ReLU of 0 -> 1: 1 and 0; 1 -> 0: 3; 2 -> 2: 1; 2 -> 3: 0; 1 -> 3: 2; 0 -> 2: 1
    assert add_neighbors(x, EDGES, eps, attr).flatten().tolist() == [4.5, 4.0, -4.0, 14.0, 24.0]


@pytest.mark.parametrize("shape", [(5, 6), (3, 5, 6), (2, 3, 5, 6)])
@pytest.mark.parametrize("with_attr", [True, False])
def test_equals_the_layers_of_pyg(shape: tuple[int, ...], with_attr: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, requires_grad=True)
    attr = torch.randn(EDGES.size(1), 6, requires_grad=True) if with_attr else None
    conv = (GINEConv if with_attr else GINConv)(nn.Identity(), train_eps=True)
    with torch.no_grad():
        conv.eps.fill_(0.3)
    arguments = (EDGES,) if attr is None else (EDGES, attr)
    inputs = [x, conv.eps] if attr is None else [x, conv.eps, attr]
    theirs, ours = conv(x, *arguments), add_neighbors(x, EDGES, conv.eps, attr)
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn(shape)
    for mine, other in zip(
        torch.autograd.grad((ours * weight).sum(), inputs),
        torch.autograd.grad((theirs * weight).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(mine, other)


def test_a_backbone_of_gine_is_pygs() -> None:
    torch.manual_seed(0)
    backbone = Backbone("gine", 6, 1, residual=False, norm="none", act="none")
    x, attr = torch.randn(5, 6), torch.randn(EDGES.size(1), 6)
    expected = backbone.layers[0].conv(x, EDGES, attr)
    torch.testing.assert_close(backbone(x, Edges(EDGES, attr)), expected)


def test_sorted_edges() -> None:
    edges = sort_edges(EDGES, 5)
    assert edges.target_ptr.tolist() == [0, 1, 3, 5, 7, 7]
    assert edges.by_target.tolist() == [2, 0, 1, 3, 6, 4, 5]
    assert edges.source_ptr.tolist() == [0, 3, 5, 7, 7, 7]
    assert edges.by_source.tolist() == [0, 1, 6, 2, 5, 3, 4]


def test_the_order_is_kept_with_the_graph() -> None:
    first, second = Graph(EDGES, 5), Graph(EDGES, 5)
    given = sort_edges(EDGES, 5)
    keep_sorted(first, given)
    assert sorted_edges(first) is given
    assert sorted_edges(second) is not given
    assert sorted_edges(second) is sorted_edges(second)


KERNELS = """
import torch
from rfp.nn.neighbors import NeighborSum, add_neighbors, sort_edges
torch.manual_seed(0)
edges = torch.tensor({edges})
order = sort_edges(edges, 5)
for shape in ((5, 6), (2, 5, 6), (5, 1)):
    for with_attr in (True, False):
        x = torch.randn(shape, requires_grad=True)
        eps = torch.full((1,), 0.3, requires_grad=True)
        attr = torch.randn(edges.size(1), shape[-1], requires_grad=True) if with_attr else None
        inputs = [x, eps] + ([attr] if with_attr else [])
        plain, kernel = add_neighbors(x, edges, eps, attr), NeighborSum.apply(x, eps, attr, edges, order)
        torch.testing.assert_close(kernel, plain)
        weight = torch.randn(shape)
        for mine, other in zip(torch.autograd.grad((kernel * weight).sum(), inputs),
                               torch.autograd.grad((plain * weight).sum(), inputs), strict=True):
            torch.testing.assert_close(mine, other)
print("equal")
"""


def test_kernels_equal_the_plain_path() -> None:
    run_interpreted(KERNELS.format(edges=EDGES.tolist()))
