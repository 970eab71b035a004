"""Steps in memory that is used again: the same bits as steps that are held, and nothing is held beyond the call."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import networkx as nx
import pytest
import torch

import rfp
from rfp.backends.problem import Problem
from rfp.backends.sparse.fast_loop import sparse_steps
from rfp.bench.generated_graphs import power_law
from rfp.conversion import as_graph
from rfp.encode import encode_steps
from rfp.graph import Graph
from rfp.settings import Settings

pytest.importorskip("numba")

STAR = as_graph(nx.star_graph(30))  # of rank 2: columns are dropped, by vectors in float64
EDGELESS = Graph(torch.zeros(2, 0, dtype=torch.long), 7)
SKEWED = power_law(700, 3000)
CASES: dict[str, tuple[Graph, dict[str, Any]]] = {
    "qr": (SKEWED, {}),
    "whole cache lines": (SKEWED, {"num_channels": 16}),
    "every second step": (SKEWED, {"normalize_every": 2}),
    "ill-conditioned": (SKEWED, {"normalize_every": 5}),
    "trajectories": (SKEWED, {"num_trajectories": 3}),
    "powers and two operators": (SKEWED, {"operators": ["normalized_adjacency^3", "normalized_laplacian"]}),
    "none": (SKEWED, {"normalization": "none"}),
    "l2": (SKEWED, {"normalization": "l2"}),
    "float64": (SKEWED, {"dtype": torch.float64}),
    "orthonormal start": (SKEWED, {"start": "orthonormal"}),
    "dependent columns": (STAR, {"operators": ["adjacency"]}),
    "dependent columns in float64": (STAR, {"operators": ["adjacency"], "dtype": torch.float64}),
    "no edges": (EDGELESS, {"operators": ["adjacency", "normalized_adjacency"]}),
    "fewer nodes than channels": (as_graph(nx.path_graph(3)), {}),
    "no steps": (SKEWED, {"num_steps": 0}),
}


def settings_of(arguments: dict[str, Any]) -> Settings:
    return Settings.of(None, {"num_channels": 5, "num_steps": 6, "backend": "sparse", **arguments})


@pytest.mark.parametrize("case", CASES)
def test_states_are_those_of_steps_that_are_held(case: str) -> None:
    graph, arguments = CASES[case]
    settings = settings_of(arguments)
    found = rfp.encode(graph, settings)
    problem = Problem.of(settings, graph)
    if settings.start != "drawn":
        from rfp.backends.start import begun

        problem, _ = begun(problem)
    for o, operator in enumerate(problem.operators):
        steps = list(sparse_steps(problem, operator))
        for p, step in enumerate(steps):
            assert torch.equal(found.storage[:, :, o, p], step.state.transpose(0, 1)), (o, p)
    plain = rfp.encode(graph, settings, backend="reference")
    if case != "ill-conditioned":
        torch.testing.assert_close(found.storage, plain.storage, atol=2e-4, rtol=1e-3)


def test_another_type_and_some_steps_are_kept() -> None:
    whole = rfp.encode(SKEWED, settings_of({}))
    rounded = rfp.encode(SKEWED, settings_of({"storage_dtype": torch.float16}))
    assert torch.equal(rounded.storage, whole.storage.half())
    some, _ = encode_steps(SKEWED, settings_of({}), [0, 2, 5])
    assert torch.equal(some, whole.storage[:, :, 0, [0, 2, 5]].flatten(2))


def test_states_that_are_yielded_stay() -> None:
    graph, settings = SKEWED, settings_of({})
    problem = Problem.of(settings, graph)
    held = list(rfp.states(problem.operators[0], problem.features, settings))
    assert torch.equal(torch.stack(held, 2), rfp.encode(graph, settings).states)


def test_same_bits_on_any_number_of_threads() -> None:
    graph, before = power_law(20_000, 100_000), torch.get_num_threads()
    found = []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(rfp.encode(graph, num_channels=32, num_steps=3).storage)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_result_is_gone_with_its_last_name() -> None:
    gc.collect()
    gc.disable()  # a ring of references would wait for it
    try:
        result = rfp.encode(SKEWED, settings_of({}))
        storage = weakref.ref(result.storage.untyped_storage())
        state = weakref.ref(result.storage)
        del result
        assert state() is None
        assert storage() is None
    finally:
        gc.enable()
