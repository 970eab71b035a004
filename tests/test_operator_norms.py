"""Norms of operators, declared and bounded."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rfp.conversion import as_graph
from rfp.operator_norms import norm_of
from rfp.operators import NORMS, from_matrix, from_name


def test_declared_norms_bound_those_of_the_absolute_values() -> None:
    for name, norm in NORMS.items():
        for graph in (nx.path_graph(9), nx.complete_graph(7), nx.star_graph(20)):
            largest = np.linalg.norm(np.abs(from_name(name, as_graph(graph), torch.float64).to_dense().numpy()), 2)
            assert norm / 2 < largest <= norm + 1e-12


def test_the_norm_of_a_signed_matrix_is_that_of_its_absolute_values() -> None:
    rotation = from_matrix(sp.csr_array(np.array([[1.0, -1.0], [1.0, 1.0]])), torch.float64)
    assert float(norm_of(rotation, torch.tensor([0, 2]))) == pytest.approx(2.0)  # of all ones
