"""The fused kernel equals the reference, on a GPU or in Triton's interpreter."""

from typing import Any

import networkx as nx
import pytest
import torch

from rfp.backends import choose
from rfp.backends.start import begin
from rfp.bench.gate import step_errors
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.features import random_features
from rfp.graph import Graph
from rfp.normalization import count_events
from tests.backends import triton_cases
from tests.backends.against_reference import check_equal, check_ill_conditioned, expected
from tests.conftest import awkward_graphs
from tests.contracts.backends import awkward_batch

pytestmark = pytest.mark.slow
CASES = triton_cases.fused_cases()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return triton_cases.solved("fused", tmp_path_factory.mktemp("triton"))


@pytest.mark.parametrize("name", [name for name in CASES if name != "ill-conditioned"])
def test_equals_the_reference(results: Any, name: str) -> None:
    check_equal(CASES[name], *results[name])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.storage == torch.float32])
def test_every_step_passes_the_gate(results: Any, name: str) -> None:
    """Among them noise amplified to a hundredth below and above its limit."""
    errors = step_errors(results[name][0], CASES[name].problem("cpu"))
    assert errors.acceptable, errors


def test_columns_nearly_in_the_span_of_the_panel_before_are_orthonormal(results: Any) -> None:
    """Freed of it once they would be off by 3e-5: q is of float32, orthonormal to 6e-8 only."""
    q = results["nearly spanned"][0][:, 0, 0, 1].double()
    torch.testing.assert_close(q.T @ q, torch.eye(18, dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("name", "when"), [("wide graph", "found"), ("directed", "left alone")])
def test_without_the_lanes_of_a_warp(results: Any, name: str, when: str) -> None:
    got, tally = results[when]
    want, reference_tally = expected(CASES[name])
    torch.testing.assert_close(got, want, atol=2e-5, rtol=2e-5)
    assert tally.get("dependent_columns", 0) == reference_tally["dependent_columns"]


@pytest.mark.parametrize(("k", "lanes"), [(3, ""), (3, ", left alone"), (18, "")])
def test_a_state_that_is_not_finite_is_seen_as_such_and_harms_no_other(results: Any, k: int, lanes: str) -> None:
    """NaN of either sign and infinity make all of a graph's state NaN, never zero."""
    case = triton_cases.not_finite_cases()[f"k = {k}"]
    got = results[f"k = {k}{lanes}"][:, 0, 0, 1]
    assert got[:-5].isnan().all()
    assert case.features is not None
    alone = triton_cases.Case(as_graph(nx.cycle_graph(5)), steps=1, features=case.features[:, -5:])
    torch.testing.assert_close(got[-5:], expected(alone)[0][:, 0, 0, 1], atol=2e-6, rtol=0)


@pytest.mark.parametrize("name", triton_cases.watched_cases())
def test_what_is_not_finite_is_told_to_the_caller(results: Any, name: str) -> None:
    """Also where every step is normalised, and where the steps after it are finite."""
    assert "the state of step 1 is not finite: torch.float32" in results["watched"][name]


def test_ill_conditioned_columns_are_taken_one_by_one(results: Any) -> None:
    got, tally = results["ill-conditioned"]
    check_ill_conditioned(got, tally["dependent_columns"])


@pytest.mark.parametrize("distribution", ["normal", "rademacher", "uniform"])
def test_features_drawn_in_the_kernel(results: Any, distribution: str) -> None:
    graph = awkward_batch(list(awkward_graphs().values()))
    want = random_features(graph, num_channels=5, num_trajectories=2, distribution=distribution, seed=5)
    got = results[f"draw {distribution}"][:, :, 0, 0].transpose(0, 1)
    tolerance = 2e-6 if distribution == "normal" else 0.0
    torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)
    assert not results[f"drawn before, {distribution}"]  # no tensor of features was made


def test_programs_that_share_a_problem_draw_their_own_channels(results: Any) -> None:
    want = random_features(awkward_batch(list(awkward_graphs().values())), num_channels=21, seed=5)
    torch.testing.assert_close(results["draw panels apart"][:, :, 0, 0].transpose(0, 1), want, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("k", triton_cases.ORTHONORMAL_CHANNELS)
def test_an_orthonormal_start_is_a_step_without_propagation(results: Any, k: int) -> None:
    graph = triton_cases.orthonormal_batch()
    want, events = begin(random_features(graph, num_channels=k, seed=5), graph.offsets, "orthonormal", plain=True)
    got, dependent = results[f"orthonormal start, k = {k}"]
    torch.testing.assert_close(got, want, atol=2e-5, rtol=2e-5)
    assert dependent == count_events([events])["dependent_columns"] > 0


def test_draws_with_given_keys_and_propagates(results: Any) -> None:
    path = as_graph(nx.path_graph(6))
    start = random_features(path, num_channels=4, graph_keys=torch.tensor([3]))
    case = triton_cases.Case(Graph(path.edge_index, 6), ("adjacency",), steps=1, features=start)
    got, tally = results["draw and propagate"]
    torch.testing.assert_close(got, expected(case)[0], atol=2e-6, rtol=2e-6)
    assert tally.get("dependent_columns", 0) == 0


def test_cannot_be_requested_on_a_cpu() -> None:
    with pytest.raises(ArgumentError, match="the states are not on a GPU"):
        choose(CASES["awkward"].problem("cpu"), "fused")
