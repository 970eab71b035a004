"""``fused``: many small graphs on a GPU, the whole trajectory of a graph in registers (Triton)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rfp.backends.backend import Backend, kernel_obstacle
from rfp.backends.problem import Problem
from rfp.normalization import Events

# The largest graph and the widest k that the registers of the fused kernel hold; larger graphs of a batch take the
# sparse path beside it. On ZINC's graphs it is some ninety times as fast as that path
# (benchmarks/results/nvidia-h200.csv): so a GPU takes a kernel wherever one can run.
FUSED_MAX_NODES = 128
FUSED_MAX_CHANNELS = 64


def _obstacle(problem: Problem) -> str:
    """Why this backend cannot run a problem; empty if it can."""
    if general := kernel_obstacle(problem, FUSED_MAX_CHANNELS):
        return general
    smallest, _ = problem.size_range
    return f"every graph has more than {FUSED_MAX_NODES} nodes" if smallest > FUSED_MAX_NODES else ""


def _whole(problem: Problem, dtype: torch.dtype, done: Callable[[int], None]) -> tuple[Tensor, Events]:
    """The driver, loaded when it is first called: it needs Triton."""
    from rfp.backends.fused.kernel_launches import fused_trajectory

    return fused_trajectory(problem, dtype, done)


FUSED = Backend("fused", _obstacle, whole=_whole, serves=f"graphs of at most {FUSED_MAX_NODES} nodes on a GPU")
