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
