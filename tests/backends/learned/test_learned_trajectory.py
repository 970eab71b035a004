"""The kernels of learned operators: states and gradients by other backends in float64; when they are chosen."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from rfp import triton_launch
from rfp.backends import choose
from rfp.backends.learned import LEARNED_MAX_CHANNELS, LEARNED_MAX_NODES, LEARNED_WIDEST
from rfp.backends.reference import plain_loop as reference
from rfp.backends.sparse import fast_loop as sparse
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.backends.sparse.orthonormal_grad import GRADIENT_FLOOR, orthonormalize
from rfp.errors import ArgumentError
from rfp.normalization import count_events, qr
from rfp.operators import DenseOperator, blocks_of
from tests.backends import learned_cases, triton_cases
from tests.backends.against_reference import OnGpu
from tests.backends.test_backends import chosen

pytest.importorskip("triton")

pytestmark = pytest.mark.slow
CASES = learned_cases.cases()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return triton_cases.solved("learned", tmp_path_factory.mktemp("triton"))


def expected(case: learned_cases.Case) -> tuple[Tensor, list[Tensor], Counter[str]]:
    """By autograd (the reference) or the guarded gradient (the sparse loop), a step at a time in float64."""
    problem = case.problem(torch.float64)
    loop = reference.reference_steps if case.against == "reference" else sparse.sparse_steps
    steps = [list(loop(problem, operator)) for operator in problem.operators]
    states = [torch.stack([step.state for step in of_one], dim=2) for of_one in steps]
    tally = count_events(step.events for of_one in steps for step in of_one)
    out = torch.stack(states, dim=2).transpose(0, 1)
    matrices = [block.matrix for operator in problem.operators for block in blocks_of(operator) or []]
    if not matrices or not out.requires_grad:
        return out, [torch.zeros_like(matrix) for matrix in matrices], tally
    loss = (out * case.weight(out.shape)).sum()
    return out.detach(), list(torch.autograd.grad(loss, matrices)), tally


@pytest.mark.parametrize("name", CASES)
def test_states_and_gradients(results: Any, name: str) -> None:
    case = CASES[name]
    states, grads, tally = results[name]
    right, right_grads, right_tally = expected(case)
    assert states.dtype == case.storage
    torch.testing.assert_close(states.double(), right, atol=case.tolerance, rtol=case.tolerance)
    assert tally.get("dependent_columns", 0) == right_tally["dependent_columns"]
    assert len(grads) == len(right_grads)
    for got, want in zip(grads, right_grads, strict=True):
        largest = float(want.abs().max())
        torch.testing.assert_close(got.double(), want, atol=5 * case.tolerance * max(largest, 1e-9), rtol=0)


@pytest.mark.parametrize("name", learned_cases.zero_products())
def test_a_product_that_is_zero_stays_zero(results: Any, name: str) -> None:
    """As in the sparse loop in the same precision: in float64 the rounding of the matrix would be no rounding."""
    case = learned_cases.zero_products()[name]
    states, grads, tally = results[name]
    problem = case.problem(torch.float32)
    steps = list(sparse.sparse_steps(problem, problem.operators[0]))
    want = torch.stack([step.state for step in steps], dim=2).transpose(0, 1)[:, :, None]
    matrices = [block.matrix for block in blocks_of(problem.operators[0]) or []]
    right = torch.autograd.grad((want * case.weight(want.shape)).sum(), matrices)
    assert not states[..., case.every, [0, 2]].any()
    torch.testing.assert_close(states, want.detach(), atol=2e-6, rtol=2e-6)
    for got, grad in zip(grads, right, strict=True):
        torch.testing.assert_close(got, grad, atol=2e-5 * float(grad.abs().max()), rtol=0)
    events = count_events(step.events for step in steps)
    for kind in ("dependent_columns", "zero_columns"):
        assert tally.get(kind, 0) == events[kind]
    assert tally


def test_dependent_columns_are_met_in_the_cases() -> None:
    assert expected(CASES["dependent columns"])[2]["dependent_columns"] == 9  # three at each of three steps
    assert expected(CASES["fewer nodes than channels"])[2]["dependent_columns"] == 2 * 3 * (3 + 5)
    assert expected(CASES["rank two"])[2]["dependent_columns"] == 2 * 3 * 3


def test_both_guards_are_met_in_a_case() -> None:
    """Pivots below the floor, the longest gradient allowed, and a longer one by autograd without guards."""
    case = CASES["nearly dependent"]
    a = learned_cases.nearly_dependent().float().double()[None].requires_grad_()
    alone = a.detach()[0, :, :8]  # the last column is dropped
    largest = float(alone.norm(dim=0).max())
    pivots = torch.linalg.qr(alone)[1].diagonal().abs()
    assert 2e-5 * largest < float(pivots.min()) < GRADIENT_FLOOR * largest
    weight = case.weight(torch.Size([30, 1, 1, 2, 9]))[:, 0, 0, 1]
    ptr = torch.tensor([0, 30])
    guarded = torch.autograd.grad((orthonormalize(Orthonormalizer.of(ptr, 9), a)[0] * weight).sum(), a)[0]
    free = torch.autograd.grad((qr(a, ptr)[0] * weight).sum(), a)[0]
    longest = float(weight.norm()) / (GRADIENT_FLOOR * largest)
    assert float(guarded.norm()) == pytest.approx(longest, rel=1e-3)
    assert float(free.norm()) > 1.5 * longest


def test_a_batch_without_nodes(results: Any) -> None:
    states, grads, _ = results["no nodes"]
    assert states.shape == (0, 1, 1, 4, 2)
    assert not grads


def test_states_that_overflow_are_not_taken_for_dependent(results: Any) -> None:
    states, _, _ = results["overflow"]
    assert states[..., 0, :].isfinite().all()
    assert states[..., 3, :].isnan().all()


@pytest.mark.parametrize("name", learned_cases.watched_cases())
def test_what_is_not_finite_is_told_to_the_caller(results: Any, name: str) -> None:
    """Although the result is differentiated through."""
    assert "the state of step 1 is not finite: torch.float32" in results["watched"][name]


def test_nothing_flows_into_the_padding(results: Any) -> None:
    _, (grad,), _ = results["one block"]
    for graph, size in enumerate(CASES["one block"].sizes):
        assert not grad[graph, size:].any()
        assert not grad[graph, :, size:].any()
        assert grad[graph, :size, :size].any()


def test_is_not_chosen_on_a_cpu() -> None:
    problem = CASES["one block"].problem(torch.float32)
    assert chosen(problem) == (
        "sparse",
        "a learned operator is differentiated through; no kernel for it: the states are not on a GPU",
    )
    with pytest.raises(ArgumentError, match="the states are not on a GPU"):
        choose(problem, "learned")


@pytest.mark.parametrize(("shared", "widest"), [(101_376, 128), (232_448, 256)])
def test_many_channels_of_wide_blocks_take_shared_memory(
    monkeypatch: pytest.MonkeyPatch, shared: int, widest: int
) -> None:
    known = SimpleNamespace(get_device_properties=lambda index: {"max_shared_mem": shared})
    monkeypatch.setattr(triton_launch, "active_driver", lambda: SimpleNamespace(utils=known))
    for size in (widest, widest + 1):
        for channels in (16, 17):
            problem = learned_cases.Case([3, size], [[0], [1]], channels=channels, steps=1).problem(torch.float32)
            here: Any = OnGpu(problem.features)
            name, reason = chosen(replace(problem, source=here))
            if size > (LEARNED_WIDEST if channels == 16 else widest):
                assert (name, reason[-9:]) == ("sparse", f"{widest} nodes")
            else:
                assert name == "learned"


def test_chosen_for_small_dense_blocks_only() -> None:
    problem = CASES["one block"].problem(torch.float32)
    here: Any = OnGpu(problem.features)
    problem = replace(problem, source=here)
    assert chosen(problem) == ("learned", "learned operators of small graphs on a GPU")
    wide: Any = OnGpu(torch.zeros(1, 43, LEARNED_MAX_CHANNELS + 1))
    double: Any = OnGpu(problem.features.double())
    followed: Any = OnGpu(problem.features.clone().requires_grad_())
    alone, huge = (
        learned_cases.Case([3, size], groups).problem(torch.float32)
        for size, groups in ((LEARNED_MAX_NODES + 1, [[0, 1]]), (LEARNED_WIDEST + 1, [[0], [1]]))
    )
    beside = learned_cases.Case([3, LEARNED_MAX_NODES + 1], [[0], [1]]).problem(torch.float32)
    alone, huge, beside = (
        replace(other, source=OnGpu(other.features))  # type: ignore[arg-type]
        for other in (alone, huge, beside)
    )
    assert chosen(beside)[0] == "learned"
    one = DenseOperator(torch.zeros(43, 43, requires_grad=True))
    refused = {
        "more than 32 channels": replace(problem, source=wide),
        "states in torch.float64": replace(problem, source=double),
        "the features require a gradient": replace(problem, source=followed),
        "normalization 'inverse_gram'": replace(
            problem, settings=replace(problem.settings, normalization="inverse_gram")
        ),
        "graphs of more than 64 nodes alone": alone,
        "a graph of more than 256 nodes": huge,
        "an operator is not formed as dense blocks": replace(problem, operators=(one, *problem.operators)),
        "an operator is not in float32": replace(
            problem, operators=CASES["one block"].problem(torch.float64).operators
        ),
    }
    for obstacle, other in refused.items():
        assert chosen(other) == (
            "sparse",
            f"a learned operator is differentiated through; no kernel for it: {obstacle}",
        )
