"""The sparse product of GCN layers against PyG's gather and scatter."""

import pytest
import torch
from torch_geometric.nn import GCNConv

from rfp.graph import Graph
from rfp.nn.gcn import GCNMatrix, gcn_matrix, gcn_sum

EDGES = torch.tensor([[0, 1, 1, 2, 3, 3, 0, 0], [1, 0, 2, 1, 3, 1, 1, 4]])  # a self-loop, a double edge, a direction


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_equals_gcn_conv_and_its_gradient(weighted: bool, leading: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    weight = torch.rand(EDGES.size(1)) + 0.1 if weighted else None
    graph = Graph(EDGES, 6, weight)  # node 5 is isolated
    conv = GCNConv(4, 3)
    x = torch.randn(*leading, 6, 4, requires_grad=True)
    expected = conv(x, EDGES, weight)
    direction = torch.randn_like(expected)
    (expected_grad,) = torch.autograd.grad((expected * direction).sum(), x)
    out = GCNMatrix(graph).propagate(conv.lin(x)) + conv.bias
    (grad,) = torch.autograd.grad((out * direction).sum(), x)
    assert torch.allclose(out, expected, atol=1e-6)
    assert torch.allclose(grad, expected_grad, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sum_of_a_graph_seen_once(weighted: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    weight = torch.rand(EDGES.size(1), dtype=dtype) + 0.1 if weighted else None
    if weight is not None:
        weight[[1, 6, 0]] = 0  # of the edges into nodes 0 and 1
    conv = GCNConv(4, 3).to(dtype)
    x = torch.randn(6, 4, dtype=dtype, requires_grad=True)
    expected = conv(x, EDGES, weight)
    direction = torch.randn_like(expected)
    (expected_grad,) = torch.autograd.grad((expected * direction).sum(), x)
    out = gcn_sum(conv.lin(x), Graph(EDGES, 6, weight)) + conv.bias
    (grad,) = torch.autograd.grad((out * direction).sum(), x)
    assert torch.allclose(out, expected, atol=1e-6)
    assert torch.allclose(grad, expected_grad, atol=1e-6)


def test_a_self_loop_of_weight_zero_has_no_degree() -> None:
    graph = Graph(torch.tensor([[0], [0]]), 2, torch.zeros(1))
    x = torch.ones(2, 1)
    assert torch.equal(gcn_sum(x, graph), torch.tensor([[0.0], [1.0]]))
    conv = GCNConv(1, 1, bias=False)
    conv.lin.weight.data.fill_(1.0)
    assert torch.equal(conv(x, graph.edge_index, graph.edge_weight), torch.tensor([[0.0], [1.0]]))


def test_gradient_by_finite_differences() -> None:
    matrix = GCNMatrix(Graph(EDGES, 6))
    x = torch.randn(2, 6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(matrix.propagate, (x,))


def test_a_kept_graph_is_sorted_once() -> None:
    graph = Graph(EDGES, 6)
    assert gcn_matrix(graph) is gcn_matrix(graph)
    assert gcn_matrix(graph) is not gcn_matrix(Graph(EDGES.clone(), 6))
