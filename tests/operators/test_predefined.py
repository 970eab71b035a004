"""Every predefined operator against a dense twin written from its definition."""

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.utils import get_laplacian, to_dense_adj

import rfp
from rfp.conversion import as_graph
from rfp.errors import GraphError
from rfp.graph import Graph
from rfp.operators import OPERATORS, from_name
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


@pytest.mark.parametrize("name", ["normalized_adjacency", "normalized_laplacian", "random_walk"])
def test_weights_that_add_up_to_more_than_there_is_are_refused(name: str) -> None:
    graph = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, torch.full((4,), 1e308, dtype=torch.float64))
    with pytest.raises(GraphError, match="the weights at node 1 add up to more than float64 holds"):
        rfp.encode(graph, num_channels=2, num_steps=2, operators=[name])


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
