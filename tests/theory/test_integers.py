"""Exact traces beyond 2^53, against Python's own integers."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from rfp.errors import ArgumentError, NumericalError
from rfp.operators import from_matrix
from rfp.theory import count_walks, exact_trace
from rfp.theory.integers import as_integer_matrix, count_primes, integer_trace


def by_python(matrix: np.ndarray, power: int) -> int:
    """trace(A^P) in integers of any size."""
    base = matrix.astype(object)
    result = np.eye(len(matrix), dtype=object)
    for _ in range(power):
        result = result.dot(base)
    return int(np.trace(result))


@pytest.mark.parametrize("power", [0, 1, 2, 5, 17, 18, 19, 40, 151])
def test_equals_python_integers(power: int) -> None:
    matrix = nx.to_numpy_array(nx.karate_club_graph(), weight=None, dtype=int)
    got = exact_trace(nx.from_numpy_array(matrix, edge_attr=None), power=power)
    assert isinstance(got, int)
    assert got == by_python(matrix, power)


def test_weights_that_are_negative() -> None:
    rng = np.random.default_rng(0)
    half = rng.integers(-9, 10, size=(7, 7))
    matrix = half + half.T
    sparse = sp.csr_array(matrix)
    for power in (21, 22):
        assert count_primes(sparse, power) > 1
        assert integer_trace(sparse, power) == by_python(matrix, power)
        assert exact_trace(sparse, power=power) == by_python(matrix, power)


def test_eigenvalues_two_and_minus_one() -> None:
    assert exact_trace(nx.complete_graph(3), power=2000) == 2**2000 + 2


def test_what_is_not_integer_stays_a_number_of_float64() -> None:
    assert as_integer_matrix(from_matrix(sp.csr_array([[0.5, 1.0], [1.0, 0.0]]))) is None
    assert exact_trace(sp.csr_array([[0.5, 0.0], [0.0, 2.0]]), power=3) == 8.125


def test_work_counts_the_primes_and_is_refused_before_they_are_sought() -> None:
    with pytest.raises(ArgumentError, match="an exact trace takes"):
        exact_trace(nx.complete_graph(30), power=10_000_000)


def test_an_estimate_beyond_float64_is_one_clear_line() -> None:
    with pytest.raises(NumericalError, match=r"beyond 1e308.*--exact"):
        count_walks(nx.complete_graph(30), length=2000, num_samples=32, deflation=4)
