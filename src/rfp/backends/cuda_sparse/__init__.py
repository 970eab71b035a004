"""``cuda_sparse``: one large graph on a GPU, few passes over memory and no host in the loop (Triton)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from rfp.backends.backend import Backend, kernel_obstacle
from rfp.backends.problem import Problem, Step
from rfp.normalization import Events
from rfp.operators import Operator

# The widest k of its kernels. On one graph of arXiv's size they are six times as fast as library calls
# (benchmarks/results/nvidia-h200.csv).
CUDA_SPARSE_MAX_CHANNELS = 64


def _obstacle(problem: Problem) -> str:
    """Why this backend cannot run a problem; empty if it can."""
    general = kernel_obstacle(problem, CUDA_SPARSE_MAX_CHANNELS)
    return general or ("several graphs" if len(problem.ptr) != 2 else "")


def _steps(problem: Problem, operator: Operator) -> Iterator[Step]:
    """The driver, loaded when it is first called: it needs Triton."""
    from rfp.backends.cuda_sparse.gpu_steps import cuda_sparse_steps

    return cuda_sparse_steps(problem, operator)


def _whole(problem: Problem, dtype: torch.dtype, done: Callable[[int], None]) -> tuple[Tensor, Events]:
    """The driver, loaded when it is first called: it needs Triton."""
    from rfp.backends.cuda_sparse.gpu_steps import cuda_sparse_trajectory

    return cuda_sparse_trajectory(problem, dtype, done)


CUDA_SPARSE = Backend("cuda_sparse", _obstacle, steps=_steps, whole=_whole, serves="one graph on a GPU", qr_tells=True)
