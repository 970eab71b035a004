"""Proposition 4.2: rates, ties, ± pairs and features of low rank, against spectra known in closed form."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.theory import convergence


@pytest.fixture(scope="module")
def communities() -> nx.Graph:
    """Four groups: the normalised adjacency has four large eigenvalues and then a gap."""
    return nx.planted_partition_graph(4, 30, 0.5, 0.02, seed=0)


def normalized_spectrum(graph: nx.Graph) -> np.ndarray:
    A = nx.to_numpy_array(graph) + np.eye(len(graph))
    scale = A.sum(0) ** -0.5
    values = np.linalg.eigvalsh(scale[:, None] * A * scale)
    return values[np.argsort(-np.abs(values))]


@pytest.mark.parametrize("num_channels", [1, 4])
def test_rate_is_the_ratio_of_eigenvalues(communities: nx.Graph, num_channels: int) -> None:
    values = np.abs(normalized_spectrum(communities))
    result = convergence(communities, num_channels=num_channels, num_steps=150 if num_channels == 1 else 40)
    assert result.rate == pytest.approx(values[num_channels] / values[num_channels - 1])
    # Eigenvalues just below the (k + 1)-th still fade out, so the fit comes from below.
    assert 0.94 * result.rate < result.measured_rate() < 1.01 * result.rate
    assert not result.tie
    np.testing.assert_allclose(result.eigenvalues.abs(), values, atol=1e-12)


def with_spectrum(values: np.ndarray) -> tuple[Graph, torch.Tensor, np.ndarray]:
    """A graph without edges to stand for the nodes, a symmetric matrix, and its eigenvectors."""
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(len(values), len(values))))
    S = torch.from_numpy(Q @ np.diag(values) @ Q.T)
    return Graph(torch.zeros(2, 0, dtype=torch.long), len(values)), (S + S.T) / 2, Q


@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8])
def test_rate_with_a_second_gap(ratio: float) -> None:
    values = np.concatenate([[1.0, -0.9, 0.8, -0.8 * ratio], np.linspace(0.1, 0.0, 20)])
    graph, S, _ = with_spectrum(values)
    result = convergence(graph, operator=S, num_channels=3, num_steps=60)
    assert result.rate == pytest.approx(ratio)
    assert result.measured_rate(below=1e-2) == pytest.approx(ratio, rel=0.01)


def test_angles_fall_to_rounding_and_ritz_values_to_eigenvalues(communities: nx.Graph) -> None:
    result = convergence(communities, num_channels=4, num_steps=60)
    assert result.angles.shape == (61, 4)
    assert float(result.angles[0, -1]) > 1.0
    assert float(result.angles[-1, -1]) < 1e-12
    assert float(result.step_angles[-1]) < 1e-12
    np.testing.assert_allclose(result.ritz_values[-1], normalized_spectrum(communities)[:4], atol=1e-12)
    # Ritz values of a symmetric matrix are accurate to the square of the angle.
    p = int((result.angles[:, -1] < 1e-3).nonzero()[0])
    assert float((result.ritz_values[p] - result.eigenvalues[:4]).abs().max()) < 1e-5


def test_columns_converge_to_eigenvectors_up_to_sign() -> None:
    """Well separated eigenvalues: the statement of the proposition."""
    graph, S, Q = with_spectrum(0.7 ** np.arange(30))
    result = convergence(graph, operator=S, num_channels=3, num_steps=120)
    assert float(result.column_angles[-1].max()) < 1e-7
    # Against NumPy's eigenvectors, not ours.
    a = rfp.encode(graph, operators=[S], num_channels=3, num_steps=120, dtype=torch.float64).last()[0].numpy()
    np.testing.assert_allclose(np.abs(a.T @ Q[:, :3]), np.eye(3), atol=1e-7)


def test_l2_sends_every_column_to_the_first_eigenvector(communities: nx.Graph) -> None:
    result = convergence(communities, num_channels=3, num_steps=400, normalization="l2")
    first = result.column_angles[-1, 0]
    assert float(first) < 1e-6
    assert float(result.column_angles[-1, 1:].min()) > 1.5  # the others are orthogonal to their eigenvector


def test_tie_of_equal_eigenvalues() -> None:
    """A of the complete graph: 1 and then -1/(n-1), all equal. With k = 2 any vector of the rest will do."""
    result = convergence(nx.complete_graph(8), operator="adjacency", num_channels=2, num_steps=40)
    assert result.tie
    assert result.dominant_dimension == 8
    assert result.rate == 0.0
    assert float(result.angles.max()) < 1e-7  # every span lies in the whole space


def test_ring_tie_at_k_converges_into_the_larger_space() -> None:
    # Eigenvalues 2 cos(2 pi j / 9), in pairs: magnitudes 2, then 1.879 twice (j = 4), 1.532 twice (j = 1).
    result = convergence(nx.cycle_graph(9), operator="adjacency", num_channels=2, num_steps=100)
    assert result.tie
    assert result.dominant_dimension == 3
    assert result.rate == pytest.approx(math.cos(math.tau / 9) / math.cos(math.pi / 9))
    assert result.measured_rate() == pytest.approx(result.rate, rel=0.02)
    # Within the pair the limit depends on the draw.
    other = convergence(nx.cycle_graph(9), operator="adjacency", num_channels=2, num_steps=100, seed=1)
    assert abs(float(result.column_angles[-1, 1] - other.column_angles[-1, 1])) > 0.01


def test_plus_minus_pair_of_a_bipartite_graph() -> None:
    """Eigenvalues come as ±. With k = 1 the state alternates for ever in the plane of a pair; k = 2 converges."""
    graph = nx.complete_bipartite_graph(3, 5)
    one = convergence(graph, operator="adjacency", num_channels=1, num_steps=30)
    assert one.tie
    assert one.dominant_dimension == 2
    assert float(one.angles[-1, 0]) < 1e-7
    assert float(one.step_angles[-1]) > 0.1
    assert float(one.step_angles[-1]) == pytest.approx(float(one.step_angles[-2]))
    two = convergence(graph, operator="adjacency", num_channels=2, num_steps=30)
    assert not two.tie
    assert float(two.step_angles[-1]) < 1e-7
    assert sorted(two.ritz_values[-1].tolist()) == pytest.approx([-math.sqrt(15), math.sqrt(15)])


def test_input_features_of_low_rank_stall_and_random_ones_do_not(communities: nx.Graph) -> None:
    generator = torch.Generator().manual_seed(0)
    two = torch.randn(120, 2, dtype=torch.float64, generator=generator)
    features = two @ torch.randn(2, 4, dtype=torch.float64, generator=generator)
    stalled = convergence(communities, num_steps=60, features=features)
    assert float(stalled.angles[-1, -1]) == pytest.approx(math.pi / 2)
    assert float(stalled.angles[-1, 1]) < 1e-10  # the two directions there are do converge
    assert stalled.ritz_values[-1, 2:].tolist() == [0.0, 0.0]
    assert float(convergence(communities, num_channels=4, num_steps=60).angles[-1, -1]) < 1e-12


def test_constant_features_keep_one_direction() -> None:
    graph = nx.random_regular_graph(4, 20, seed=0)
    result = convergence(graph, operator="adjacency", num_steps=5, features=torch.ones(20, 3))
    assert float(result.angles[-1, 0]) < 1e-12
    assert result.angles[-1, 1:].tolist() == pytest.approx([math.pi / 2] * 2)


def test_no_steps_and_no_edges() -> None:
    result = convergence(nx.path_graph(5), num_channels=2, num_steps=0)
    assert result.angles.shape == (1, 2)
    assert result.step_angles.shape == (0,)
    empty = convergence(nx.empty_graph(4), operator="adjacency", num_channels=2, num_steps=3)
    assert empty.rate == 0.0
    assert empty.angles[-1].tolist() == pytest.approx([math.pi / 2] * 2)  # the states are zero
    assert empty.step_angles.tolist() == pytest.approx([math.pi / 2, 0.0, 0.0])


def test_refusals(directed: Graph, communities: nx.Graph) -> None:
    with pytest.raises(ArgumentError, match="must be symmetric"):
        convergence(directed, operator="adjacency")
    with pytest.raises(ArgumentError, match="batch of 2"):
        convergence([nx.path_graph(3), nx.path_graph(3)])
    with pytest.raises(ArgumentError, match="at most the number of nodes, 3, got 4"):
        convergence(nx.path_graph(3), num_channels=4)
    with pytest.raises(ArgumentError, match="at least 3 are needed"):
        convergence(communities, num_channels=1, num_steps=1).measured_rate()
