"""Gradients made by hand are not differentiated again: those would be wrong and nothing would say so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradgradcheck

from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.backends.sparse.orthonormal_grad import orthonormalize
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn.gathered_products import GatheredProducts
from rfp.nn.gcn import GCNMatrix
from rfp.nn.masked_norm import masked_batch_norm
from rfp.nn.replicated import _GroupedProduct
from rfp.operators import DenseOperator
from rfp.propagate import propagate


def qr(x: Tensor) -> Tensor:
    return orthonormalize(Orthonormalizer.of(torch.tensor([0, 4]), 3), x[:, :, :3])[0]


def gathered(x: Tensor) -> Tensor:
    products = GatheredProducts(x)
    return products @ (products @ torch.ones(1, 4, 2, dtype=x.dtype))


def masked(x: Tensor) -> Tensor:
    return masked_batch_norm(x, torch.tensor([[1.0], [1.0], [1.0], [0.0]]), nn.BatchNorm1d(4))


def encoded(x: Tensor) -> Tensor:
    r = torch.arange(8.0, dtype=x.dtype).view(4, 2).sin()
    return propagate(DenseOperator(x[0]), r, num_steps=2, normalization="qr", backend="sparse").states


@pytest.mark.parametrize("function", [qr, gathered, masked, encoded])
def test_a_second_derivative_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 4, 4, dtype=torch.float64, requires_grad=True)
    # Nothing that comes in requires a gradient: all second derivatives are in the input.
    loss = function(x).exp().sum()
    assert torch.autograd.grad(loss, x, retain_graph=True)[0].isfinite().all()
    with pytest.raises(ArgumentError, match="cannot be differentiated again, as create_graph=True asks for"):
        torch.autograd.grad(loss, x, create_graph=True)


def test_the_plain_loop_has_second_derivatives() -> None:
    torch.manual_seed(0)
    r = torch.randn(4, 2, dtype=torch.float64)

    def plain(x: Tensor) -> Tensor:
        return propagate(DenseOperator(x), r, num_steps=2, normalization="qr", backend="reference").states

    assert gradgradcheck(plain, torch.randn(4, 4, dtype=torch.float64, requires_grad=True))


def test_linear_maps_have_second_derivatives() -> None:
    torch.manual_seed(0)
    x, weight = (torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 5))
    assert gradgradcheck(lambda x, weight: _GroupedProduct.apply(x, weight, None), (x, weight))
    edges = torch.tensor([[0, 1, 2, 2], [1, 0, 3, 2]])
    matrix = GCNMatrix(Graph(edges, 4))
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda x: matrix.propagate(x).square(), (x,), atol=1e-4)
