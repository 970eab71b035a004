"""Ways to run the one loop. ``reference`` defines the result; the others are faster and equal to it.

===============  ================================================================================
``reference``    plain PyTorch, any operator, any device, autograd
``sparse``       CSR product and Gram-matrix QR: one large graph, or any batch
``compiled``     many small graphs on a CPU: the whole trajectory of a graph in cache (Numba)
``fused``        many small graphs on a GPU: the whole trajectory of a graph in registers (Triton)
``cuda_sparse``  one large graph on a GPU: product and Gram matrix in one pass, no host in the loop (Triton)
``dense``        learned operators of small graphs on a GPU: a whole trajectory and its gradient, a kernel each (Triton)
===============  ================================================================================
"""

from __future__ import annotations

import torch

from rfp.available import compiled_available, triton_available
from rfp.backends.problem import Problem
from rfp.errors import ArgumentError, unknown_choice
from rfp.operators import MatrixOperator, blocks_of

BACKENDS = ("reference", "sparse", "compiled", "fused", "cuda_sparse", "dense")

# The largest graph whose states the compiled backend keeps in cache, and its widest k. Beside plain loops over small
# graphs it is 45 to 86 times as fast (benchmarks/results/neoverse-n1-2-cores.csv, case small).
COMPILED_MAX_NODES = 512
COMPILED_MAX_CHANNELS = 128
# The largest graph and the widest k that the registers of the fused kernel hold; larger graphs of a batch take the
# sparse path beside it. On ZINC's graphs it is some ninety times as fast as that path, on one graph of arXiv's size the
# kernels for one large graph are six times as fast (benchmarks/results/nvidia-h200.csv): so a GPU takes a kernel
# wherever one of them can run.
FUSED_MAX_NODES = 128
FUSED_MAX_CHANNELS = 64
# The widest block of dense matrices and the widest k of the kernels that are differentiated through.
DENSE_MAX_NODES = 64
DENSE_MAX_CHANNELS = 32


def choose(problem: Problem, requested: str = "auto") -> tuple[str, str]:
    """The backend to run and the reason, as ``Trajectory.report`` states it."""
    if requested != "auto" and requested not in BACKENDS:
        raise unknown_choice("backend", requested, ("auto", *BACKENDS))
    if requested in _OBSTACLES and (obstacle := _OBSTACLES[requested](problem)):
        raise ArgumentError(f'backend="{requested}" cannot run here: {obstacle}; use backend="auto"')
    if requested != "auto":
        return requested, "requested"
    if any(operator.differentiable for operator in problem.operators):
        if obstacle := _dense_obstacle(problem):
            return "sparse", f"a learned operator is differentiated through; no kernel for it: {obstacle}"
        return "dense", f"learned operators of graphs of at most {DENSE_MAX_NODES} nodes on a GPU"
    if problem.features.device.type == "cuda":
        return _choose_on_gpu(problem)
    if obstacle := _compiled_obstacle(problem):
        return "sparse", obstacle
    return "compiled", f"graphs of at most {COMPILED_MAX_NODES} nodes on a CPU"


def _choose_on_gpu(problem: Problem) -> tuple[str, str]:
    if not _fused_obstacle(problem):
        return "fused", f"graphs of at most {FUSED_MAX_NODES} nodes on a GPU"
    if obstacle := _cuda_sparse_obstacle(problem):
        return "sparse", obstacle
    return "cuda_sparse", "one graph on a GPU"


def _compiled_obstacle(problem: Problem) -> str:
    """Why the compiled backend cannot run this problem; empty if it can."""
    if problem.features.device.type != "cpu":
        return "the states are not on a CPU"
    if not all(isinstance(operator, MatrixOperator) for operator in problem.operators):
        return "an operator is not a sparse matrix"
    if problem.normalization not in ("none", "l2", "qr"):
        return f"normalization {problem.normalization!r}"
    if problem.features.size(2) > COMPILED_MAX_CHANNELS:
        return f"more than {COMPILED_MAX_CHANNELS} channels"
    largest = int(problem.ptr.diff().max()) if len(problem.ptr) > 1 else 0
    if largest > COMPILED_MAX_NODES:
        return f"a graph of {largest} nodes, more than {COMPILED_MAX_NODES}"
    return "" if compiled_available() else "Numba is not installed"


def _kernel_obstacle(problem: Problem) -> str:
    """Why neither of the Triton kernels can run this problem; empty if they can."""
    if problem.features.device.type != "cuda":
        return "the states are not on a GPU"
    if problem.features.dtype != torch.float32:
        return f"states in {problem.features.dtype}"
    if not all(isinstance(operator, MatrixOperator) for operator in problem.operators):
        return "an operator is not a sparse matrix"
    if problem.normalization not in ("none", "l2", "qr"):
        return f"normalization {problem.normalization!r}"
    if problem.features.size(2) > FUSED_MAX_CHANNELS:
        return f"more than {FUSED_MAX_CHANNELS} channels"
    return "" if triton_available() else "Triton is not installed"


def _fused_obstacle(problem: Problem) -> str:
    """Why the fused backend cannot run this problem; empty if it can."""
    if obstacle := _kernel_obstacle(problem):
        return obstacle
    smallest, _ = problem.size_range
    return f"every graph has more than {FUSED_MAX_NODES} nodes" if smallest > FUSED_MAX_NODES else ""


def _cuda_sparse_obstacle(problem: Problem) -> str:
    """Why the backend for one large graph on a GPU cannot run this problem; empty if it can."""
    return "several graphs" if len(problem.ptr) != 2 else _kernel_obstacle(problem)


def _dense_obstacle(problem: Problem) -> str:
    """Why the backend for learned operators of small graphs cannot run this problem; empty if it can."""
    if problem.features.device.type != "cuda":
        return "the states are not on a GPU"
    if problem.features.dtype != torch.float32:
        return f"states in {problem.features.dtype}"
    if problem.normalization not in ("none", "l2", "qr"):
        return f"normalization {problem.normalization!r}"
    if problem.features.size(2) > DENSE_MAX_CHANNELS:
        return f"more than {DENSE_MAX_CHANNELS} channels"
    if problem.features.requires_grad and torch.is_grad_enabled():
        return "the features require a gradient"
    for operator in problem.operators:
        blocks = blocks_of(operator)
        if blocks is None:
            return "an operator is not formed as dense blocks"
        if any(block.matrix.dtype != torch.float32 for block in blocks):
            return "an operator is not in float32"
        if any(block.rows.size(1) > DENSE_MAX_NODES for block in blocks):
            return f"a graph of more than {DENSE_MAX_NODES} nodes"
    return "" if triton_available() else "Triton is not installed"


_OBSTACLES = {
    "compiled": _compiled_obstacle,
    "fused": _fused_obstacle,
    "cuda_sparse": _cuda_sparse_obstacle,
    "dense": _dense_obstacle,
}
