"""One rule for states that are not finite, in every backend: an error that names the step, and nothing is returned."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import rfp
from rfp.backends.finite import FiniteWatch, NotFiniteError, all_finite
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, GraphError, NumericalError
from rfp.graph import Graph
from rfp.operators import from_matrix, from_name
from rfp.streaming import stream

COMPLETE = as_graph(nx.complete_graph(11))  # A has the eigenvalue 10 for constant features
ONES = torch.ones(11, 2)


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
def test_the_first_step_that_overflows_is_named(backend: str) -> None:
    # 10^38 < 3.4e38 < 10^39
    arguments = {"features": ONES, "operators": ["adjacency"], "normalization": "none", "backend": backend}
    assert rfp.encode(COMPLETE, num_steps=38, **arguments).storage.isfinite().all()
    with pytest.raises(NumericalError, match=r"step 39 is not finite: torch.float32 holds numbers up to 3.4e\+38"):
        rfp.encode(COMPLETE, num_steps=60, **arguments)


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
def test_what_the_stored_type_does_not_hold(backend: str) -> None:
    arguments = {"features": ONES, "operators": ["adjacency"], "normalization": "none", "backend": backend}
    with pytest.raises(NumericalError, match=r"step 5 is not finite: torch.float16 .* 6.55e\+04"):
        rfp.encode(COMPLETE, num_steps=6, storage_dtype=torch.float16, **arguments)


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
@pytest.mark.parametrize("normalization", ["qr", "l2"])
def test_an_overflow_between_normalisations(backend: str, normalization: str) -> None:
    with pytest.raises(NumericalError, match=r"step .* is not finite"):
        rfp.encode(
            COMPLETE, num_channels=2, num_steps=50, operators=["adjacency"], normalization=normalization,
            normalize_every=50, backend=backend,
        )  # fmt: skip


def test_step_by_step_and_streamed() -> None:
    S = from_name("adjacency", COMPLETE)
    taken = rfp.states(S, ONES, num_steps=60, normalization="none")
    for _ in range(39):  # steps 0 to 38
        assert next(taken).isfinite().all()
    with pytest.raises(NumericalError, match="step 39 is not finite"):
        next(taken)
    with pytest.raises(NumericalError, match=r"is not finite: torch.float16"):
        stream(
            COMPLETE, io.BytesIO(), num_channels=2, num_steps=6, operators=["adjacency"], normalization="none",
            storage_dtype=torch.float16, backend="sparse",
        )  # fmt: skip


def test_nan_of_either_sign_and_nothing_at_all() -> None:
    states = torch.zeros(3, 4, 2)
    assert all_finite(states)
    assert all_finite(states[:0])
    states[1, 2, 0] = -torch.tensor(float("nan"))
    assert not all_finite(states)


def test_complex_matrices_are_refused() -> None:
    matrix = np.array([[0, 1j], [-1j, 0]])
    for given in (sp.csr_array(matrix), torch.from_numpy(matrix), torch.from_numpy(matrix).to_sparse()):
        with pytest.raises(ArgumentError, match=r"must be a real matrix, got .*complex128"):
            from_matrix(given)
    with pytest.raises(GraphError, match="the matrix is complex; real weights are needed"):
        as_graph(sp.csr_array(matrix))
    with pytest.raises(GraphError, match="edge_weight must be real"):
        Graph(torch.tensor([[0], [1]]), 2, torch.tensor([1j]))


def test_a_device_whose_qr_has_told_is_not_asked_again() -> None:
    """But where steps are not all normalised by QR, are kept in another type, or there are none."""
    broken = torch.full((3, 1, 1, 2, 4), float("nan"))
    usual: dict[str, Any] = {"operators": (None,), "normalization": "qr", "normalize_every": 1, "num_steps": 1}
    usual |= {"device": torch.device("meta"), "dtype": torch.float32, "kept_dtype": torch.float32}

    def look(qr_tells: bool = True, **others: Any) -> None:
        problem: Any = SimpleNamespace(**{**usual, **others})
        FiniteWatch(problem, qr_tells=qr_tells).see_all(broken)

    look()
    others: list[dict[str, Any]] = [{"normalization": "l2"}, {"normalize_every": 2}, {"num_steps": 0}]
    others += [{"kept_dtype": torch.float16}, {"qr_tells": False}, {"device": torch.device("cpu")}]
    for other in others:
        with pytest.raises(NotFiniteError):
            look(**other)


def weighted(weight: float) -> Graph:
    return Graph(COMPLETE.edge_index, 11, torch.full((COMPLETE.num_edges,), weight, dtype=torch.float64))


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
@pytest.mark.parametrize("normalization", ["l2", "qr"])
def test_normalised_states_do_not_depend_on_the_scale_of_the_weights(backend: str, normalization: str) -> None:
    arguments: dict[str, Any] = {
        "num_channels": 3, "num_steps": 3, "operators": ["adjacency"], "normalization": normalization,
        "backend": backend,
    }  # fmt: skip
    for dtype, scales in ((torch.float32, (1e-36, 1e-30, 1e30)), (torch.float64, (1e-150, 1e150))):
        expected = rfp.encode(weighted(1.0), dtype=dtype, **arguments).states
        for scale in scales:
            found = rfp.encode(weighted(scale), dtype=dtype, **arguments).states
            torch.testing.assert_close(found, expected, rtol=0, atol=2e-6 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
@pytest.mark.parametrize("normalization", ["l2", "qr"])
def test_columns_that_vanish_before_they_are_normalised_are_told(backend: str, normalization: str) -> None:
    arguments: dict[str, Any] = {"num_channels": 3, "num_steps": 4, "normalization": normalization, "backend": backend}
    with pytest.raises(NumericalError, match="the operator has a norm of about 1e-29: 2 products with it"):
        rfp.encode(weighted(1e-30), operators=["adjacency"], normalize_every=2, **arguments)
    with pytest.raises(NumericalError, match=r"2 products with it before a normalisation are less than torch.float32"):
        rfp.encode(weighted(1e-30), operators=["adjacency^2"], **arguments | {"backend": "auto"})
    with pytest.raises(NumericalError, match=r"less than torch.float64 holds; multiply the weights by about"):
        rfp.encode(weighted(1e-200), operators=["adjacency"], dtype=torch.float64, **arguments)
    batch = [weighted(1.0), weighted(1e-30), Graph(torch.zeros(2, 0, dtype=torch.long), 3)]
    with pytest.raises(NumericalError, match="the operator on graph 1 has a norm"):
        rfp.encode(batch, operators=["adjacency"], normalize_every=2, **arguments)
    # Quotients of weights have no scale.
    rfp.encode(weighted(1e-200), operators=["random_walk", "normalized_adjacency"], normalize_every=2, **arguments)


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
@pytest.mark.parametrize("normalization", ["l2", "qr"])
def test_squares_that_overflow_are_told(backend: str, normalization: str) -> None:
    with pytest.raises(NumericalError, match="step 1 is not finite"):
        rfp.encode(
            weighted(1e200), num_channels=3, num_steps=2, operators=["adjacency"], normalization=normalization,
            dtype=torch.float64, backend=backend,
        )  # fmt: skip


def test_weights_that_the_type_does_not_hold_are_told() -> None:
    for weight in (1e-40, 1e-60):
        with pytest.raises(
            GraphError, match=rf"at most {weight:.0e}, and torch.float32 holds no numbers below 1.2e-38"
        ):
            from_name("adjacency", weighted(weight))
        assert from_name("adjacency", weighted(weight), torch.float64).to_dense().max() == weight
        assert from_name("random_walk", weighted(weight)).to_dense().max() == pytest.approx(0.1)
    with pytest.raises(GraphError, match=r"the weights of graph 1 are at most 1e-310, and torch.float64"):
        rfp.encode([weighted(1.0), weighted(1e-310)], num_channels=2, num_steps=1, operators=["random_walk"])
    few = Graph(torch.tensor([[0, 1], [1, 0]]), 2, torch.tensor([1.0, 1e-60], dtype=torch.float64))
    assert from_name("adjacency", few).to_dense().tolist() == [[0.0, 1.0], [0.0, 0.0]]
