"""Every predefined operator against a dense twin written from its definition."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import get_laplacian, to_dense_adj

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.operator_norms import norm_of
from rfp.operators import (
    NORMS,
    OPERATORS,
    DenseOperator,
    FunctionOperator,
    MatrixOperator,
    as_operator,
    factors,
    from_matrix,
    from_name,
)
from tests.contracts.operators import check_operator


def twin(name: str, a: np.ndarray) -> np.ndarray:
    """The definition in the table of :mod:`rfp.operators`, in NumPy."""
    identity = np.eye(len(a))
    loops = a + np.diag((np.diag(a) == 0).astype(float))
    with np.errstate(divide="ignore"):
        out, into = np.abs(loops).sum(1), np.abs(loops).sum(0)
        degree = np.abs(a).sum(1)
        walk = np.where(degree[:, None] > 0, a / np.where(degree > 0, degree, 1)[:, None], 0)
    hat = loops / np.sqrt(out)[:, None] / np.sqrt(into)[None, :]
    return {
        "adjacency": a,
        "normalized_adjacency": hat,
        "normalized_laplacian": identity - hat,
        "random_walk": walk,
    }[name]


@pytest.mark.parametrize("name", OPERATORS)
def test_awkward_graphs(name: str, awkward: nx.Graph) -> None:
    check_operator(from_name(name, as_graph(awkward), torch.float64), twin(name, nx.to_numpy_array(awkward)))


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("suffix", ["", ".T", ".sym", ".sym.T", "^3", ".T^2"])
def test_directed_weighted_duplicate_loop_isolated(name: str, suffix: str, directed: Graph) -> None:
    a = np.zeros((5, 5))
    a[0, 1], a[1, 2], a[2, 0], a[2, 2], a[3, 1], a[0, 3] = 3, 0.5, 3, 4, -1, 2.5
    if ".sym" in suffix:
        a = np.where(np.abs(a.T) > np.abs(a), a.T, a)
    matrix = twin(name, a)
    if ".T" in suffix:
        matrix = matrix.T
    power = int(suffix[-1]) if "^" in suffix else 1
    operator = from_name(name + suffix, directed, torch.float64)
    check_operator(operator, np.linalg.matrix_power(matrix, power))


def test_path_of_three_by_hand() -> None:
    path = as_graph(nx.path_graph(3))
    s = 1 / np.sqrt(6)
    hat = [[1 / 2, s, 0], [s, 1 / 3, s], [0, s, 1 / 2]]
    np.testing.assert_allclose(from_name("normalized_adjacency", path, torch.float64).to_dense(), hat, atol=1e-15)
    laplacian = [[1 / 2, -s, 0], [-s, 2 / 3, -s], [0, -s, 1 / 2]]
    np.testing.assert_allclose(from_name("normalized_laplacian", path, torch.float64).to_dense(), laplacian, atol=1e-15)


def test_equals_pyg_where_pyg_is_the_same_and_not_where_it_differs() -> None:
    graph = as_graph(nx.karate_club_graph())
    unweighted = Graph(graph.edge_index, 34)
    index, weight = gcn_norm(unweighted.edge_index, num_nodes=34)
    gcn = to_dense_adj(index, edge_attr=weight, max_num_nodes=34)[0]
    torch.testing.assert_close(from_name("normalized_adjacency", unweighted).to_dense(), gcn)
    index, weight = get_laplacian(unweighted.edge_index, normalization="sym", num_nodes=34)
    without_loops = to_dense_adj(index, edge_attr=weight, max_num_nodes=34)[0]
    ours = from_name("normalized_laplacian", unweighted).to_dense()
    assert (ours - without_loops).abs().max() > 0.1


def test_spectrum_is_bounded_even_for_signed_and_directed(directed: Graph) -> None:
    hat = from_name("normalized_adjacency", directed, torch.float64).to_dense()
    assert torch.linalg.matrix_norm(hat, 2) <= 1 + 1e-12
    signed = from_name("normalized_laplacian.sym", directed, torch.float64).to_dense()
    eigenvalues = torch.linalg.eigvalsh(signed)
    assert eigenvalues.min() > -1e-12
    assert eigenvalues.max() < 2 + 1e-12


def test_predefined_operators_share_one_pattern() -> None:
    graph = as_graph(nx.karate_club_graph())
    first, second = from_name("normalized_adjacency", graph), from_name("normalized_laplacian", graph)
    assert first.csr.col is second.csr.col
    assert first.csr.col.dtype == torch.int32


@pytest.mark.parametrize("layout", ["dense", "coo", "csr", "scipy"])
def test_matrices_of_any_kind(layout: str) -> None:
    matrix = np.array([[0, 2.0, 0], [1.5, 0, 0], [0, 0, -1.0]])
    tensor = torch.from_numpy(matrix)
    given = {
        "dense": tensor,
        "coo": tensor.to_sparse_coo(),
        "csr": tensor.to_sparse_csr(),
        "scipy": sp.csc_matrix(matrix),
    }[layout]
    operator = from_matrix(given, torch.float64)
    assert isinstance(operator, DenseOperator if layout == "dense" else MatrixOperator)
    check_operator(operator, matrix)
    np.testing.assert_allclose(operator.to_dense(), matrix)


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


BAD_NAMES = ["laplacian", "Adjacency", "adjacency.t", "adjacency^", "adjacency^0", "adjacency.T.sym"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_unknown_names_list_the_choices(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"normalized_adjacency|at least 1"):
        from_name(name, as_graph(nx.path_graph(3)))


def test_wrong_sizes_and_types_are_refused() -> None:
    graph = as_graph(nx.path_graph(3))
    with pytest.raises(ArgumentError, match="2 rows but the graph has 3 nodes"):
        as_operator(torch.eye(2), graph)
    with pytest.raises(ArgumentError, match="square"):
        as_operator(torch.ones(2, 3), graph)
    with pytest.raises(ArgumentError, match="got int"):
        as_operator(3, graph)


def test_declared_norms_bound_those_of_the_absolute_values() -> None:
    for name, norm in NORMS.items():
        for graph in (nx.path_graph(9), nx.complete_graph(7), nx.star_graph(20)):
            largest = np.linalg.norm(np.abs(from_name(name, as_graph(graph), torch.float64).to_dense().numpy()), 2)
            assert norm / 2 < largest <= norm + 1e-12


def test_the_norm_of_a_signed_matrix_is_that_of_its_absolute_values() -> None:
    rotation = from_matrix(sp.csr_array(np.array([[1.0, -1.0], [1.0, 1.0]])), torch.float64)
    assert float(norm_of(rotation, torch.tensor([0, 2]))) == pytest.approx(2.0)  # of all ones


def test_a_power_is_so_many_factors() -> None:
    S = from_name("adjacency^3", as_graph(nx.path_graph(3)))
    assert [one is S.base for one in factors(S)] == [True] * 3
