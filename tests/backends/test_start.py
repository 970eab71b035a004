"""How the features begin: drawn, of unit length, orthonormal; by hand, by NumPy and in every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfp
from rfp.backends.start import begin
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, NumericalError
from rfp.graph import Graph


def ring(n: int) -> Graph:
    one = torch.arange(n)
    return Graph(torch.cat([torch.stack([one, (one + 1) % n]), torch.stack([(one + 1) % n, one])], dim=1), n)


def several() -> Graph:
    lonely = Graph(torch.zeros(2, 0, dtype=torch.long), 1)
    return as_graph([ring(9), lonely, ring(4), ring(23)])  # with k = 6: more and fewer nodes than channels


def test_by_hand() -> None:
    r = torch.tensor([[[3.0, 3.0, 6.0], [4.0, 4.0, 8.0], [0.0, 2.0, 0.0]]])
    ptr = torch.tensor([0, 3])
    assert begin(r, ptr, "drawn")[0] is r
    for plain in (False, True):
        unit, _ = begin(r, ptr, "unit", plain=plain)
        torch.testing.assert_close(unit[0, :, 0], torch.tensor([0.6, 0.8, 0.0]))
        torch.testing.assert_close(unit[0, :, 1], torch.tensor([3.0, 4.0, 2.0]) / 29**0.5)
        q, events = begin(r, ptr, "orthonormal", plain=plain)
        # The third column is twice the first: it is dropped.
        torch.testing.assert_close(q[0], torch.tensor([[0.6, 0.0, 0.0], [0.8, 0.0, 0.0], [0.0, 1.0, 0.0]]))
        assert events["dependent_columns"] == 1
    with pytest.raises(ArgumentError, match="start must be one of 'drawn', 'unit', 'orthonormal', got 'units'"):
        begin(r, ptr, "units")


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_step_0_is_q_of_the_features_own_qr(backend: str, distribution: str) -> None:
    graph, k = several(), 6
    arguments = {"num_channels": k, "num_steps": 2, "num_trajectories": 2, "distribution": distribution, "seed": 3}
    drawn = rfp.encode(graph, **{**arguments, "num_steps": 0}).states[:, :, 0].double()
    begun = rfp.encode(graph, **arguments, start="orthonormal", normalization="none", backend=backend)
    for b in range(2):
        for low, high in zip(graph.offsets[:-1].tolist(), graph.offsets[1:].tolist(), strict=True):
            q, upper = np.linalg.qr(drawn[b, low:high].numpy())
            expected = np.zeros((high - low, k))
            expected[:, : q.shape[1]] = q * np.sign(np.diagonal(upper))
            got = begun.states[b, low:high, 0].double().numpy()
            np.testing.assert_allclose(got, expected, atol=1e-5)
    # The steps follow from it: S applied to step 0.
    S = rfp.operators.from_name("normalized_adjacency", graph).to_dense()
    torch.testing.assert_close(begun.states[:, :, 2], S @ S @ begun.states[:, :, 0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("start", ["unit", "orthonormal"])
@pytest.mark.parametrize("normalization", ["none", "l2", "qr"])
def test_backends_agree(start: str, normalization: str) -> None:
    graph = several()
    arguments = {
        "num_channels": 6,
        "num_steps": 4,
        "start": start,
        "normalization": normalization,
        "normalize_every": 2,
    }
    arguments |= {"operators": ["normalized_adjacency", "adjacency"], "num_trajectories": 2}
    expected = rfp.encode(graph, **arguments, backend="reference")
    for backend in ("sparse", "compiled"):
        got = rfp.encode(graph, **arguments, backend=backend)
        torch.testing.assert_close(got.states, expected.states, atol=2e-5, rtol=1e-4)
        assert got.report.dependent_columns == expected.report.dependent_columns


@pytest.mark.parametrize("n", [3, 8])
def test_with_as_many_channels_as_nodes_products_are_exact(n: int) -> None:
    graph = ring(n)
    t = rfp.encode(
        graph, num_channels=8, num_steps=3, operators=["adjacency"], normalization="none", start="orthonormal"
    )
    A = torch.from_numpy(graph.to_scipy().toarray()).float()
    for i in range(4):
        for j in range(4):
            product = t.states[0, :, i] @ t.states[0, :, j].T
            torch.testing.assert_close(product, torch.linalg.matrix_power(A, i + j), atol=1e-4, rtol=1e-4)


def test_features_that_are_given_begin_alike_and_strict_sees_dependent_ones() -> None:
    graph = ring(5)
    given = torch.tensor([[1.0, 2.0]]).repeat(5, 1)
    t = rfp.encode(graph, features=given, num_steps=0, start="orthonormal")
    torch.testing.assert_close(t.states[0, :, 0, 0], torch.full((5,), 5**-0.5))
    assert torch.equal(t.states[0, :, 0, 1], torch.zeros(5))
    assert t.report.dependent_columns == 1
    with pytest.raises(NumericalError, match="1 dependent columns"):
        rfp.encode(graph, features=given, num_steps=0, start="orthonormal", strict=True)


def test_states_and_propagate_begin_alike() -> None:
    graph = several()
    S = rfp.operators.from_name("normalized_laplacian", graph)
    r = rfp.random_features(graph, num_channels=3)
    whole = rfp.propagate(S, r, num_steps=2, ptr=graph.offsets, start="orthonormal", backend="sparse").states
    steps = list(rfp.states(S, r, num_steps=2, ptr=graph.offsets, start="orthonormal", backend="sparse"))
    assert torch.equal(torch.stack(steps, dim=2), whole)
