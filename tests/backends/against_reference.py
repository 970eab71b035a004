"""What kernels are held to: the reference, on a CPU; and features that say they are on a GPU."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor

from rfp.backends.reference.plain_loop import reference_steps
from rfp.normalization import count_events
from tests.backends import triton_cases


def expected(case: triton_cases.Case) -> tuple[Tensor, Counter[str]]:
    """The trajectory of a case by the reference, and its events."""
    problem = case.problem("cpu")
    steps = [list(reference_steps(problem, S)) for S in problem.operators]
    states = [torch.stack([step.state.transpose(0, 1) for step in of_one], dim=2) for of_one in steps]
    return torch.stack(states, dim=2), count_events(step.events for of_one in steps for step in of_one)


def check_equal(case: triton_cases.Case, got: Tensor, tally: dict[str, int]) -> None:
    """Trajectory and dropped columns are the reference's."""
    want, reference_tally = expected(case)
    assert got.dtype == case.storage
    tolerance = 1e-3 if case.storage == torch.float16 else 2e-5
    torch.testing.assert_close(got.float(), want, atol=tolerance, rtol=tolerance)
    for kind in ("dependent_columns", "zero_columns"):
        assert tally.get(kind, 0) == reference_tally[kind]


def check_ill_conditioned(got: Tensor, dropped: int) -> None:
    """Orthonormal to 1e-6, zero where Householder's decomposition in float64 finds a column dependent, the same
    span.
    """
    q = got[:, 0, 0, 1].double()
    want = expected(triton_cases.fused_cases()["ill-conditioned"])[0][:, 0, 0, 1].double()
    kept = want.norm(dim=0) > 0
    assert dropped == int((~kept).sum()) >= 2
    torch.testing.assert_close(q.T @ q, torch.diag(kept.double()), atol=1e-6, rtol=0)
    torch.testing.assert_close(q @ (q.T @ want), want, atol=2e-3, rtol=0)


class OnGpu:
    """Features that say they are on a GPU: what is chosen is asked of their description alone."""

    def __init__(self, features: Tensor) -> None:
        self._features = features
        self.device = torch.device("cuda")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._features, name)
