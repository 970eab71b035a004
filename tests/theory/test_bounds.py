"""The sample bound and the quantities in it, by hand and from NumPy's spectrum."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.theory import epsilon, num_samples, rank, rho
from rfp.theory.bounds import MAX_DENSE_NODES, dense_eigenvalues


def test_bound_by_hand() -> None:
    # 6 * 100 * 4 * ln(2400) = 2400 * 7.7832...
    assert num_samples(eps=0.1, delta=0.05, rho=2.0, rank=60) == math.ceil(2400 * math.log(2400)) == 18680


@pytest.mark.parametrize(
    ("eps", "delta", "ratio", "r"), [(0.1, 0.05, 2.0, 60), (0.5, 0.01, 1.0, 1), (2.0, 0.3, 7.5, 400)]
)
def test_inverse(eps: float, delta: float, ratio: float, r: int) -> None:
    samples = num_samples(eps=eps, delta=delta, rho=ratio, rank=r)
    # The number is rounded up, so it gives eps or a little better, and one sample less gives worse.
    assert epsilon(num_samples=samples, delta=delta, rho=ratio, rank=r) <= eps
    if samples > 1:
        assert epsilon(num_samples=samples - 1, delta=delta, rho=ratio, rank=r) > eps


@pytest.mark.parametrize("power", [1, 2, 3, 4, 5])
def test_rho_from_numpy(power: int) -> None:
    graph = nx.barbell_graph(5, 2)
    values = np.linalg.eigvalsh(nx.to_numpy_array(graph))
    if power == 1:
        with pytest.raises(ArgumentError, match="rho is infinite"):
            rho(graph, power=1)  # no self-loops: the trace of A is 0
        return
    expected = (np.abs(values) ** power).sum() / abs((values**power).sum())
    assert rho(graph, power=power) == pytest.approx(expected)
    assert rho(graph, power=power) >= 1


def test_rho_of_another_operator() -> None:
    graph = nx.star_graph(4)
    assert rho(graph, power=1, operator="normalized_laplacian") == pytest.approx(1.0)  # positive semi-definite


@pytest.mark.parametrize(
    ("graph", "expected"),
    [(nx.empty_graph(3), 0), (nx.complete_graph(6), 6), (nx.star_graph(7), 2), (nx.path_graph(5), 4)],
)
def test_rank(graph: nx.Graph, expected: int) -> None:
    assert rank(graph) == expected


def test_no_triangle_has_no_relative_bound() -> None:
    for graph in (nx.cycle_graph(4), nx.empty_graph(3)):
        with pytest.raises(ArgumentError, match="no triangle"):
            rho(graph)


def test_eigenvalues_are_ascending() -> None:
    assert dense_eigenvalues(nx.complete_graph(3)).tolist() == pytest.approx([-1, -1, 2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": 0.0}, "eps must be above 0, got 0.0"),
        ({"eps": -0.1}, "eps must be above 0"),
        ({"delta": 0.0}, "delta must be a failure probability"),
        ({"delta": 1.0}, "delta must be a failure probability"),
        ({"rho": 0.5}, "rho must be finite and at least 1"),
        ({"rho": math.inf}, "rho must be finite"),
        ({"rank": 0}, "rank must be at least 1"),
    ],
)
def test_bad_arguments(change: dict[str, float], message: str) -> None:
    good = {"eps": 0.1, "delta": 0.05, "rho": 1.0, "rank": 3}
    with pytest.raises(ArgumentError, match=message):
        num_samples(**(good | change))  # type: ignore[arg-type]
    if "eps" not in change:
        del good["eps"]
        with pytest.raises(ArgumentError, match=message):
            epsilon(num_samples=10, **(good | change))  # type: ignore[arg-type]


def test_no_samples_is_refused() -> None:
    with pytest.raises(ArgumentError, match="num_samples must be at least 1"):
        epsilon(num_samples=0, delta=0.1, rho=1.0, rank=1)


def test_large_and_directed_graphs_are_refused(directed: Graph) -> None:
    with pytest.raises(ArgumentError, match=f"at most {MAX_DENSE_NODES} nodes"):
        rank(nx.empty_graph(MAX_DENSE_NODES + 1))
    with pytest.raises(ArgumentError, match="must be symmetric"):
        rho(directed)


def test_the_power_is_an_integer_numpy_s_too() -> None:
    graph = nx.complete_graph(4)
    assert rho(graph, power=np.int64(3)) == rho(graph, power=3)
    for power in (-1, 2.5, True):
        with pytest.raises(ArgumentError, match="power must be an integer of at least 0, got"):
            rho(graph, power=power)
