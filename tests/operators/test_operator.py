"""Forms of operators: functions, dense matrices, powers."""

import networkx as nx
import numpy as np
import pytest
import torch

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.operators import DenseOperator, FunctionOperator, factors, from_name
from tests.contracts.operators import check_operator


def test_a_callable_and_its_checks() -> None:
    doubled = FunctionOperator(lambda a: 2 * a, 4, symmetric=True)
    check_operator(doubled, 2 * np.eye(4))
    with pytest.raises(ArgumentError, match="keep the shape"):
        FunctionOperator(lambda a: a[:2], 4) @ torch.ones(4, 1)


def test_dense_gradient_flows_and_sparse_does_not() -> None:
    matrix = torch.eye(3, requires_grad=True)
    assert DenseOperator(matrix).differentiable
    (DenseOperator(matrix) @ torch.ones(3, 1)).sum().backward()
    torch.testing.assert_close(matrix.grad, torch.ones(3, 3))
    assert not from_name("adjacency", as_graph(nx.path_graph(3))).differentiable


def test_a_power_is_so_many_factors() -> None:
    S = from_name("adjacency^3", as_graph(nx.path_graph(3)))
    assert [one is S.base for one in factors(S)] == [True] * 3
