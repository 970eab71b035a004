"""The gate: it passes what is right, stops what is wrong, and knows which columns may be judged either way."""

import pytest
import torch

import rfp
from rfp.backends.problem import Problem
from rfp.bench import gate, generated_graphs
from rfp.conversion import as_graph
from rfp.graph import Graph
from rfp.operators import from_matrix
from rfp.rounding import rounding_unit
from rfp.settings import Settings
from tests.backends.triton_cases import amplified

OPERATORS_OF_ZINC = ("normalized_adjacency", "normalized_laplacian")


@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
@pytest.mark.parametrize("trajectories", [1, 2])
def test_gate_passes_what_is_right(normalization: str, trajectories: int) -> None:
    graph = generated_graphs.random_batch(40, 30, seed=0)
    options = {"operators": ["normalized_adjacency", "adjacency"], "num_trajectories": trajectories}
    errors = gate.gate(graph, num_channels=6, num_steps=4, normalization=normalization, **options)
    assert errors.acceptable
    assert (errors.orthogonality > 0) == (normalization == "qr")


def _spoil_features(states: torch.Tensor) -> None:
    states[..., 0, :] += 0.01


def _spoil_length(states: torch.Tensor) -> None:
    states[..., -1, :] *= 1.01


def _spoil_sign(states: torch.Tensor) -> None:
    states[..., -1, :] *= -1


def _spoil_subspace(states: torch.Tensor) -> None:
    states[..., -1, :] = states[..., -1, :].roll(1, dims=0)


def _zero_a_column(states: torch.Tensor) -> None:
    states[..., -1, 2] = 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_spoil_features, "the features differ by 0.01"),
        (_spoil_length, "differs from the definition"),
        (_spoil_sign, "wrong columns"),
        (_spoil_subspace, "differs from the definition"),
        (_zero_a_column, "wrong columns"),
    ],
)
def test_gate_stops_a_wrong_result(monkeypatch: pytest.MonkeyPatch, spoil, message: str) -> None:
    right = rfp.encode

    def wrong(graph, **settings):
        trajectory = right(graph, **settings)
        spoil(trajectory.storage)
        return trajectory

    monkeypatch.setattr("rfp.bench.gate.rfp.encode", wrong)
    with pytest.raises(gate.GateError, match=message):
        gate.gate(generated_graphs.molecule_like(5), num_channels=4, num_steps=3)


def wrong_columns(matrix: torch.Tensor, before: torch.Tensor, after: torch.Tensor, normalization: str) -> int:
    """Of one step by ``matrix``, from ``before`` to ``after``, both ``[n, k]``."""
    settings = Settings(num_steps=1, normalization=normalization)
    problem = Problem.from_objects(from_matrix(matrix.to_sparse()), before, None, settings)
    errors = gate.step_errors(torch.stack([before, after], dim=1)[:, None, None], problem)
    assert errors.rounding <= gate.ROUNDINGS
    return errors.wrong_columns


@pytest.mark.parametrize(
    ("times", "kept", "wrong"),
    [
        (0.99, False, 0),
        (0.99, True, 1),  # noise of unit length, where the tolerance alone, a hundredth of that, would let it pass
        (1.01, True, 0),
        (1.01, False, 1),  # a direction lost
        (1.0, True, 0),  # nearer to the limit than rounding: either way
        (1.0, False, 0),
    ],
)
@pytest.mark.parametrize("k", [3, 18])
def test_a_column_of_amplified_noise_is_zero(k: int, times: float, kept: bool, wrong: int) -> None:
    q = torch.eye(k)
    q[-1, -1] = float(kept)
    assert wrong_columns(torch.eye(k), amplified(k, times)[0], q, "qr") == wrong


@pytest.mark.parametrize("normalization", ["l2", "qr"])
@pytest.mark.parametrize(("times", "wrong_kept", "wrong_zero"), [(0.99, 1, 0), (1.01, 0, 1), (1.0, 0, 0)])
def test_a_product_of_nothing_but_noise_is_zero(
    normalization: str, times: float, wrong_kept: int, wrong_zero: int
) -> None:
    """All of the product is as short as rounding makes it, so that no column of it looks small beside the others."""
    matrix = torch.diag(torch.tensor([1.0, times * rounding_unit(torch.float32)]))
    before = torch.tensor([[0.0], [1.0]])
    assert wrong_columns(matrix, before, before, normalization) == wrong_kept
    assert wrong_columns(matrix, before, torch.zeros(2, 1), normalization) == wrong_zero


def molecules(*numbers: int) -> Graph:
    """Some of those that are benchmarked."""
    batch = generated_graphs.molecule_like(500)
    graphs = []
    for first, last in (batch.offsets[number : number + 2].tolist() for number in numbers):
        inside = (batch.edge_index[0] >= first) & (batch.edge_index[0] < last)
        graphs.append(Graph(batch.edge_index[:, inside] - first, last - first))
    return as_graph(graphs)


@pytest.mark.parametrize("backend", ["compiled", "sparse", "reference"])
def test_molecules_with_columns_of_amplified_noise_pass(backend: str) -> None:
    """In two of 500 columns are dropped of which more is left than the tolerance asks for, up to five times as much."""
    settings = {"num_channels": 16, "num_steps": 16, "operators": OPERATORS_OF_ZINC, "seed": 4}
    assert gate.gate(molecules(288, 345), **settings, backend=backend).acceptable
