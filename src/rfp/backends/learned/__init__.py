"""``learned``: learned operators of small graphs on a GPU, a trajectory and its gradient a kernel each (Triton)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rfp.available import triton_available
from rfp.backends.backend import NOT_DIFFERENTIATED, Backend
from rfp.backends.problem import Problem
from rfp.normalization import Events
from rfp.operators import blocks_of

# The widest block of dense matrices and the widest k of the kernels that are differentiated through.
LEARNED_MAX_NODES = 64
LEARNED_MAX_CHANNELS = 32
# The widest block beside those: a few large molecules of a batch would hold up all others, which the kernels serve. A
# batch of wide ones alone goes step by step, by products of the library's.
LEARNED_WIDEST = 256
# With more channels than the first number that takes shared memory of the second, in bytes, or blocks half as wide.
_WIDE_CHANNELS, _WIDE_SHARED_MEMORY = 16, 172_032


def _obstacle(problem: Problem) -> str:
    """Why this backend cannot run a problem; empty if it can."""
    if not problem.differentiable:
        return NOT_DIFFERENTIATED
    if problem.device.type != "cuda":
        return "the states are not on a GPU"
    if problem.dtype != torch.float32:
        return f"states in {problem.dtype}"
    if problem.normalization not in ("none", "l2", "qr"):
        return f"normalization {problem.normalization!r}"
    if problem.shape[2] > LEARNED_MAX_CHANNELS:
        return f"more than {LEARNED_MAX_CHANNELS} channels"
    if problem.features.requires_grad and torch.is_grad_enabled():
        return "the features require a gradient"
    for operator in problem.operators:
        blocks = blocks_of(operator)
        if blocks is None:
            return "an operator is not formed as dense blocks"
        if any(block.matrix.dtype != torch.float32 for block in blocks):
            return "an operator is not in float32"
        widths = [block.rows.size(1) for block in blocks]
        if widths and min(widths) > LEARNED_MAX_NODES:
            return f"graphs of more than {LEARNED_MAX_NODES} nodes alone"
        if widths and max(widths) > LEARNED_MAX_NODES and max(widths) > (widest := _widest(problem)):
            return f"a graph of more than {widest} nodes"
    return "" if triton_available() else "Triton is not installed"


def _widest(problem: Problem) -> int:
    """The widest block that the kernels can hold in the GPU's shared memory."""
    if problem.shape[2] <= _WIDE_CHANNELS:
        return LEARNED_WIDEST
    from rfp.triton_launch import active_driver  # which a program without a GPU does not load

    found = active_driver().utils.get_device_properties(problem.device.index)
    return LEARNED_WIDEST if found["max_shared_mem"] >= _WIDE_SHARED_MEMORY else LEARNED_WIDEST // 2


def _whole(problem: Problem, dtype: torch.dtype, done: Callable[[int], None]) -> tuple[Tensor, Events]:
    """The driver, loaded when it is first called: it needs Triton."""
    from rfp.backends.learned.learned_trajectory import learned_trajectory

    return learned_trajectory(problem, dtype, done)


LEARNED = Backend(
    "learned",
    _obstacle,
    whole=_whole,
    serves="learned operators of small graphs on a GPU",
    passed_over="a learned operator is differentiated through; no kernel for it: {}",
)
