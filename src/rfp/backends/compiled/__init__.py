"""``compiled``: many small graphs on a CPU, the whole trajectory of a graph in cache (Numba)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rfp.available import compiled_available
from rfp.backends.backend import DIFFERENTIATED, NOT_ON_A_CPU, Backend
from rfp.backends.problem import Problem
from rfp.normalization import Events
from rfp.operators import MatrixOperator

# The largest graph whose states the compiled backend keeps in cache, and its widest k. Beside plain loops over small
# graphs it is 45 to 86 times as fast (benchmarks/results/neoverse-n1-2-cores.csv, case small).
COMPILED_MAX_NODES = 512
COMPILED_MAX_CHANNELS = 128


def _obstacle(problem: Problem) -> str:
    """Why this backend cannot run a problem; empty if it can."""
    if problem.device.type != "cpu":
        return NOT_ON_A_CPU
    if problem.differentiable:
        return DIFFERENTIATED
    if not all(isinstance(operator, MatrixOperator) for operator in problem.operators):
        return "an operator is not a sparse matrix"
    if problem.normalization not in ("none", "l2", "qr"):
        return f"normalization {problem.normalization!r}"
    if problem.shape[2] > COMPILED_MAX_CHANNELS:
        return f"more than {COMPILED_MAX_CHANNELS} channels"
    _, largest = problem.size_range
    if largest > COMPILED_MAX_NODES:
        return f"a graph of {largest} nodes, more than {COMPILED_MAX_NODES}"
    return "" if compiled_available() else "Numba is not installed"


def _whole(problem: Problem, dtype: torch.dtype, done: Callable[[int], None]) -> tuple[Tensor, Events]:
    """The driver, loaded when it is first called: it needs Numba."""
    from rfp.backends.compiled.small_graphs import compiled_trajectory

    return compiled_trajectory(problem, dtype, done)


COMPILED = Backend("compiled", _obstacle, whole=_whole, serves=f"graphs of at most {COMPILED_MAX_NODES} nodes on a CPU")
