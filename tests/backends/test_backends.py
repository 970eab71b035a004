"""Every backend equals the reference; the choice between them is explained."""

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rfp
from rfp.available import compiled_available
from rfp.backends import choose
from rfp.backends.compiled import COMPILED_MAX_NODES
from rfp.backends.problem import Problem
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, NumericalError
from rfp.graph import Graph
from rfp.operators import DenseOperator, from_name
from rfp.settings import Settings
from tests.conftest import awkward_graphs
from tests.contracts.backends import OPERATORS, awkward_batch, check_backend, graphs

FAST = ["sparse", "compiled"]


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("normalization", ["qr", "l2", "none"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_awkward_graphs_in_one_batch(backend: str, normalization: str, operator: str) -> None:
    check_backend(
        backend,
        awkward_batch(list(awkward_graphs().values())),
        num_channels=6,
        num_steps=5,
        num_trajectories=2,
        operators=[operator],
        normalization=normalization,
    )


@pytest.mark.parametrize("backend", FAST)
@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(),
    operator=st.sampled_from(["normalized_adjacency", "normalized_laplacian"]),
    every=st.integers(1, 2),
    channels=st.integers(1, 6),
    trajectories=st.integers(1, 2),
)
def test_random_graphs(backend: str, graph, operator: str, every: int, channels: int, trajectories: int) -> None:
    # In float64 a state is either clearly dependent or clearly not, so both paths branch alike.
    check_backend(
        backend,
        graph,
        tolerance=1e-6,
        num_channels=channels,
        num_steps=4,
        num_trajectories=trajectories,
        operators=[operator],
        normalize_every=every,
        dtype=torch.float64,
    )


@pytest.mark.parametrize("backend", FAST)
@pytest.mark.parametrize("steps", [0, 1, 7])
@pytest.mark.parametrize("every", [1, 3])
def test_any_number_of_steps_and_interval(backend: str, steps: int, every: int) -> None:
    graph = as_graph(nx.karate_club_graph())
    operators = ["normalized_adjacency", "normalized_laplacian", "adjacency.T"]
    check_backend(backend, graph, num_channels=5, num_steps=steps, operators=operators, normalize_every=every)


def problem(graph=None, **changes) -> Problem:
    graph = graph or as_graph(nx.karate_club_graph())
    fields = {
        "operators": (from_name("adjacency", graph),),
        "source": torch.ones(1, graph.num_nodes, 2),
        "ptr": graph.offsets,
    }
    given = {name: changes.pop(name) for name in list(changes) if name in fields}
    return Problem(**{**fields, **given}, settings=Settings(**{"num_steps": 1, **changes}))


def chosen(*arguments: object, **options: object) -> tuple[str, str]:
    backend, reason = choose(*arguments, **options)
    return backend.name, reason


def test_choice_and_its_reason() -> None:
    if compiled_available():
        assert chosen(problem()) == ("compiled", f"graphs of at most {COMPILED_MAX_NODES} nodes on a CPU")
    assert chosen(problem(normalization="inverse_gram"))[0] == "sparse"
    large = as_graph(nx.path_graph(COMPILED_MAX_NODES + 1))
    assert chosen(problem(large)) == (
        "sparse",
        f"a graph of {COMPILED_MAX_NODES + 1} nodes, more than {COMPILED_MAX_NODES}",
    )
    dense = problem(operators=(DenseOperator(torch.eye(34)),))
    assert chosen(dense) == ("sparse", "an operator is not a sparse matrix")
    assert chosen(problem(), "reference") == ("reference", "requested")


def test_impossible_or_unknown_backends_are_refused() -> None:
    with pytest.raises(ArgumentError, match="'auto', 'learned', 'fused'"):
        choose(problem(), "cuda")
    with pytest.raises(ArgumentError, match="cannot run here: normalization 'inverse_gram'"):
        choose(problem(normalization="inverse_gram"), "compiled")


def test_without_numba_the_sparse_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with_numba = rfp.encode(nx.karate_club_graph(), num_channels=4, num_steps=3)
    for module in ("rfp.backends.compiled", "rfp.backends.sparse.fast_loop", "rfp.backends.sparse.segments"):
        monkeypatch.setattr(f"{module}.compiled_available", lambda: False)
    without = rfp.encode(nx.karate_club_graph(), num_channels=4, num_steps=3)
    assert without.report.backend == "sparse"
    assert without.report.reason == "Numba is not installed"
    torch.testing.assert_close(without.storage, with_numba.storage, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operators": ()}, "at least one operator"),
        ({"num_steps": -1}, "at least 0"),
        ({"normalize_every": 0}, 'normalization="none"'),
        ({"source": torch.ones(34, 2)}, r"\[B, n, k\]"),
        ({"source": torch.ones(1, 34, 2, dtype=torch.half)}, "float32 or float64"),
        ({"source": torch.ones(1, 33, 2)}, "34 rows but the features have 33 nodes"),
    ],
)
def test_bad_problems(changes: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        problem(**changes)


@pytest.mark.parametrize("backend", FAST)
def test_overflow_is_an_error_not_a_result(backend: str) -> None:
    steep = Graph(torch.tensor([[0, 1], [1, 0]]), 2, torch.tensor([1e20, 1e20]))
    arguments = {"operators": ["adjacency"], "num_steps": 4, "num_channels": 1, "backend": backend}
    with pytest.raises(NumericalError, match=r"step [23] is not finite: torch\.float32 .* normalise more often"):
        rfp.encode(steep, normalize_every=3, **arguments)
    assert rfp.encode(steep, normalize_every=1, **arguments).states.isfinite().all()
