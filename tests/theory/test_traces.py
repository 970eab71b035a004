"""Traces and diagonals against eigenvalues and matrix powers in NumPy."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, NumericalError
from rfp.graph import Graph
from rfp.operators import FunctionOperator, from_name
from rfp.theory import SampleEstimate, exact_trace, trace


def dense(graph: nx.Graph) -> np.ndarray:
    return nx.to_numpy_array(graph, weight=None)


@pytest.fixture(scope="module")
def clustered() -> nx.Graph:
    return nx.powerlaw_cluster_graph(60, 3, 0.6, seed=1)


@pytest.mark.parametrize("power", [0, 1, 2, 3, 4, 5, 6])
def test_exact_trace(awkward: nx.Graph, power: int) -> None:
    expected = np.trace(np.linalg.matrix_power(dense(awkward), power))
    assert exact_trace(awkward, power=power, block_size=5) == expected


@pytest.mark.parametrize("power", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("distribution", ["rademacher", "normal"])
def test_estimate_is_unbiased_and_its_error_is_right(clustered: nx.Graph, power: int, distribution: str) -> None:
    matrix = np.linalg.matrix_power(dense(clustered) / 4, power)
    got = trace(as_scaled(clustered), power=power, num_samples=4000, distribution=distribution, seed=3)
    # The exact variance of one sample; 4.5 standard errors are passed once in 150,000 draws.
    off = 0.0 if distribution == "normal" else (np.diag(matrix) ** 2).sum()
    deviation = math.sqrt(2 * max((matrix**2).sum() - off, 0.0) / 4000)
    assert abs(got.value - np.trace(matrix)) <= 4.5 * deviation + 1e-9
    assert got.standard_error == pytest.approx(deviation, rel=0.2, abs=1e-9)


def as_scaled(graph: nx.Graph) -> Graph:
    read = as_graph(graph)
    return Graph(read.edge_index, read.num_nodes, torch.full((read.num_edges,), 0.25, dtype=torch.float64))


def test_power_zero_counts_nodes_without_error() -> None:
    got = trace(nx.path_graph(9), power=0, num_samples=8)
    assert (got.value, got.standard_error) == (9.0, 0.0)


@pytest.mark.parametrize("operator", ["adjacency", "normalized_adjacency", "normalized_laplacian"])
def test_any_symmetric_operator(clustered: nx.Graph, operator: str) -> None:
    S = from_name(operator, as_graph(clustered), torch.float64).to_dense().numpy()  # type: ignore[attr-defined]
    expected = (np.linalg.eigvalsh(S) ** 5).sum()
    assert exact_trace(clustered, power=5, operator=operator) == pytest.approx(expected)
    got = trace(clustered, power=5, operator=operator, num_samples=2000, seed=1)
    assert abs(got.value - expected) < 5 * got.standard_error


def test_samples_are_the_library_s_trajectories(clustered: nx.Graph) -> None:
    r = rfp.random_features(
        as_graph(clustered), num_channels=8, num_trajectories=3, distribution="rademacher", seed=9, dtype=torch.float64
    )
    columns = r.permute(1, 0, 2).reshape(60, 24).numpy()[:, :20]
    cube = np.linalg.matrix_power(dense(clustered), 3)
    forms = [column @ cube @ column for column in columns.T]
    got = trace(clustered, power=3, num_samples=20, seed=9)
    assert got.value == pytest.approx(np.mean(forms), rel=1e-12)
    assert got.standard_error == pytest.approx(np.std(forms, ddof=1) / math.sqrt(20))


@pytest.mark.parametrize("block_size", [1, 8, 24, 1000])
def test_block_size_does_not_change_the_estimate(clustered: nx.Graph, block_size: int) -> None:
    whole = trace(clustered, power=3, num_samples=77, seed=2, per_node=True)
    blocks = trace(clustered, power=3, num_samples=77, seed=2, per_node=True, block_size=block_size)
    assert blocks.value == pytest.approx(whole.value, rel=1e-12)
    assert blocks.num_samples == whole.num_samples == 77
    assert blocks.per_node is not None
    assert whole.per_node is not None
    torch.testing.assert_close(blocks.per_node, whole.per_node)


@pytest.mark.parametrize("deflation", [0, 6])
@pytest.mark.parametrize("power", [1, 2, 3, 4])
def test_diagonal(clustered: nx.Graph, power: int, deflation: int) -> None:
    expected = np.diag(np.linalg.matrix_power(dense(clustered), power))
    got = trace(clustered, power=power, num_samples=6000, seed=5, per_node=True, deflation=deflation)
    assert got.per_node is not None
    assert got.per_node_standard_error is not None
    error = np.abs(got.per_node.numpy() - expected) / (got.per_node_standard_error.numpy() + 1e-9)
    assert error.max() < 5  # 60 nodes: passed by chance once in 30,000
    assert 0.5 < np.sqrt((error**2).mean()) < 1.5 or power == 1  # the errors are neither too large nor too small
    assert float(got.per_node.sum()) == pytest.approx(got.value, rel=1e-9, abs=1e-6)


def test_diagonal_beside_a_hub_varies_less_than_the_plain_estimator() -> None:
    """A leaf of a star with D leaves: r_i (A^3 r)_i has variance about D^2, ours about D."""
    star = nx.star_graph(100)
    got = trace(star, power=3, num_samples=400, per_node=True)
    assert got.per_node_standard_error is not None
    leaf_deviation = float(got.per_node_standard_error[1]) * 20
    assert leaf_deviation < 15  # sqrt(100) = 10; the plain one would be near 100


def test_deflation_removes_the_variance_of_the_largest_eigenvalues(clustered: nx.Graph) -> None:
    values = np.linalg.eigvalsh(dense(clustered))
    expected = (values**3).sum()
    plain = trace(clustered, power=3, num_samples=512, seed=0)
    deflated = trace(clustered, power=3, num_samples=512, seed=0, deflation=10)
    assert abs(deflated.value - expected) < 5 * deflated.standard_error
    assert deflated.standard_error < plain.standard_error / 4


def test_basis_is_independent_of_the_samples(clustered: nx.Graph) -> None:
    """Were both drawn from the same trajectory, A r would lie in the span of the basis and every sample would be 0."""
    graph = as_graph(clustered)
    expected = 0.0  # the trace of A
    runs = np.array([
        trace(graph, power=1, num_samples=8, deflation=8, distribution="normal", seed=s).value for s in range(150)
    ])  # fmt: skip
    assert abs(runs.mean() - expected) < 4.5 * runs.std() / math.sqrt(150)


def test_deflation_of_all_directions_is_exact(awkward: nx.Graph) -> None:
    n = awkward.number_of_nodes()
    for power in (0, 1, 3, 4):
        expected = np.linalg.matrix_power(dense(awkward), power)
        got = trace(awkward, power=power, num_samples=32, deflation=n + 3, per_node=True)
        assert got.value == pytest.approx(np.trace(expected), abs=1e-8)
        assert got.per_node is not None
        if np.linalg.matrix_rank(dense(awkward)) == n or power > 0:
            np.testing.assert_allclose(got.per_node, np.diag(expected), atol=1e-8)


def test_early_stop(clustered: nx.Graph) -> None:
    seen: list[SampleEstimate] = []
    got = trace(clustered, power=2, epsilon=0.05, seed=0, progress=seen.append)
    assert got.reached
    assert got.half_width <= 0.05 * got.value
    assert got.num_samples % 32 == 0
    assert [s.num_samples for s in seen] == list(range(32, got.num_samples + 1, 32))
    assert all(not s.reached for s in seen[:-1])
    assert seen[-1] == got
    fewer = trace(clustered, power=2, epsilon=0.001, num_samples=40)
    assert (fewer.num_samples, fewer.reached) == (40, False)


def test_coverage_of_the_interval() -> None:
    """Over 200 seeds the 90 % interval holds the trace as often as it says; stopping early costs a little."""
    graph = nx.gnp_random_graph(40, 0.3, seed=0)
    expected = np.trace(np.linalg.matrix_power(dense(graph), 2))
    fixed = [trace(graph, power=2, num_samples=64, confidence=0.9, seed=s).interval for s in range(200)]
    early = [trace(graph, power=2, epsilon=0.12, confidence=0.9, seed=s).interval for s in range(200)]
    # 180 of 200 expected, deviation 4.2; four deviations below.
    assert sum(low <= expected <= high for low, high in fixed) >= 163
    assert sum(low <= expected <= high for low, high in early) >= 158


def test_batch_is_counted_as_one() -> None:
    batch = as_graph([nx.complete_graph(4), nx.complete_graph(3)])
    assert exact_trace(batch, power=3) == 24 + 6
    assert trace(batch, power=3, num_samples=32, deflation=7).value == pytest.approx(30)


def test_overflow_is_refused() -> None:
    with pytest.raises(NumericalError, match=r"S\^400 has entries beyond 1e308.*an operator of norm at most 1"):
        trace(nx.complete_graph(40), power=400, num_samples=8)


def test_asymmetric_operator_is_refused(directed: Graph) -> None:
    for operator in ("adjacency", "random_walk", lambda a: a):
        with pytest.raises(ArgumentError, match="must be symmetric"):
            trace(directed, power=2, operator=operator)
        with pytest.raises(ArgumentError, match="must be symmetric"):
            exact_trace(directed, power=2, operator=operator)
    assert exact_trace(directed, power=0, operator="adjacency.sym") == 5
    declared = FunctionOperator(lambda a: 2 * a, 5, symmetric=True)
    assert exact_trace(directed, power=3, operator=declared) == 40


def test_equal_graphs_of_a_batch_are_independent() -> None:
    edge = as_graph(nx.path_graph(2))  # A^4 = I
    found = trace([edge] * 6, power=4, deflation=2, num_samples=2000, per_node=True)
    assert abs(found.value - 12) < 4 * found.standard_error
    assert torch.allclose(found.per_node, torch.ones(12, dtype=torch.float64), atol=0.2)


@pytest.mark.parametrize("power", [-1, 2.5, True])
def test_bad_power_is_refused(power: int) -> None:
    with pytest.raises(ArgumentError, match="power must be an integer of at least 0"):
        trace(nx.path_graph(3), power=power)


def test_integers_of_other_kinds_count() -> None:
    path = nx.path_graph(3)  # eigenvalues sqrt(2), 0, -sqrt(2)
    assert exact_trace(path, power=np.int64(4)) == 8
    assert trace(path, power=np.int64(4), deflation=np.int64(3), num_samples=2).value == pytest.approx(8)
