"""The kernels for one large graph equal the reference, on a GPU or in Triton's interpreter."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import rfp
from rfp.backends import choose
from rfp.errors import ArgumentError
from tests.backends import triton_cases
from tests.backends.against_reference import OnGpu, check_equal, check_ill_conditioned

pytestmark = pytest.mark.slow
CASES = triton_cases.sparse_cases()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return triton_cases.solved("cuda_sparse", tmp_path_factory.mktemp("triton"))


BOTH_WAYS = pytest.mark.parametrize("way", ["", triton_cases.APART])
_NOT_EQUAL = ("ill-conditioned", "overflow")


@pytest.mark.parametrize("name", [name for name in CASES if name not in _NOT_EQUAL])
def test_equals_the_reference(results: Any, name: str) -> None:
    check_equal(CASES[name], *results[name])


@pytest.mark.parametrize("name", [name for name in triton_cases.SUMMED_APART if name not in _NOT_EQUAL])
def test_equals_the_reference_if_parts_are_added_up_by_a_kernel_of_its_own(results: Any, name: str) -> None:
    check_equal(CASES[name], *results[name + triton_cases.APART])


@BOTH_WAYS
def test_wide_states_that_are_split_for_the_tensor_cores_are_orthonormal(results: Any, way: str) -> None:
    # At the second step the Gram matrix is summed from bfloat16 parts and q multiplied in split float32.
    got, tally = results["nearly orthogonal" + way]
    assert tally["cholesky"] == 2
    for step in (1, 2):
        q = got[:, 0, 0, step].double()
        torch.testing.assert_close(q.T @ q, torch.eye(33, dtype=torch.float64), atol=1e-6, rtol=0)


@BOTH_WAYS
def test_an_ill_conditioned_step_takes_the_careful_path(results: Any, way: str) -> None:
    got, tally = results["ill-conditioned" + way]
    assert tally.get("cholesky_dropping", 0) + tally.get("cholesky_twice", 0) == 1
    check_ill_conditioned(got, tally["dependent_columns"])


@BOTH_WAYS
def test_states_that_overflow_are_an_error(results: Any, way: str) -> None:
    message, _ = results["overflow" + way]
    assert "the state of step 3 is not finite: torch.float32" in message


def test_the_order_of_the_rows_says_nothing_about_any_bit(results: Any) -> None:
    plainly, by_kernels = (results[f"none, {way}"][0] for way in triton_cases.PLANS)
    check_equal(CASES["none"], *results["none, planned by kernels"])
    assert torch.equal(plainly, by_kernels)


def test_the_states_one_at_a_time_are_those_of_the_whole(results: Any) -> None:
    whole, _ = results["l2"]
    assert torch.equal(results["loop"], whole[:, :, 0].permute(2, 1, 0, 3))


def test_streams_its_steps_to_a_file(results: Any) -> None:
    backend, rows = results["streamed"]
    assert backend == "cuda_sparse"
    want = rfp.encode(triton_cases.stream_graph(), triton_cases.STREAMED, backend="reference").node_first()
    torch.testing.assert_close(torch.from_numpy(rows), want, atol=2e-5, rtol=2e-5)


def test_cannot_be_requested_for_several_graphs() -> None:
    problem = triton_cases.fused_cases()["awkward"].problem("cpu")
    here: Any = OnGpu(problem.features)
    with pytest.raises(ArgumentError, match="several graphs"):
        choose(replace(problem, source=here), "cuda_sparse")
