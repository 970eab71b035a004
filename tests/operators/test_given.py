"""Operators from matrices and names; what is none is refused."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rfp.conversion import as_graph
from rfp.errors import ArgumentError, GraphError
from rfp.operators import DenseOperator, MatrixOperator, as_operator, from_matrix, from_name
from tests.contracts.operators import check_operator


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


def test_a_matrix_with_masked_entries_is_refused() -> None:
    with pytest.raises(GraphError, match="an operator is a masked array with missing"):
        from_matrix(np.ma.masked_array(np.ones((3, 3)), np.eye(3) > 0), torch.float64)


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


@pytest.mark.parametrize("layout", ["dense", "coo", "scipy", "operator"])
def test_a_matrix_that_joins_two_graphs_of_a_batch_is_refused(layout: str) -> None:
    batch = as_graph([nx.path_graph(2), nx.path_graph(3)])
    matrix = torch.block_diag(torch.ones(2, 2), torch.ones(3, 3))

    def given(matrix: torch.Tensor) -> object:
        if layout == "scipy":
            return sp.csr_array(matrix.numpy())
        return {"dense": matrix, "coo": matrix.to_sparse(), "operator": from_matrix(matrix.to_sparse())}[layout]

    np.testing.assert_allclose(as_operator(given(matrix), batch).to_dense(), matrix)  # type: ignore[attr-defined]
    matrix[1, 4] = 1.0
    with pytest.raises(GraphError, match="joins the nodes 1 and 4, which are of two graphs of the batch"):
        as_operator(given(matrix), batch)
