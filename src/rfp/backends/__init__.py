"""Ways to run the one loop. ``reference`` defines the result; the others are faster and equal to it.

===============  ================================================================================
``reference``    plain PyTorch, any operator, any device, autograd
``sparse``       CSR product and Gram-matrix QR: one large graph, or any batch
``compiled``     many small graphs on a CPU: the whole trajectory of a graph in cache (Numba)
===============  ================================================================================
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

from rfp.backends.problem import Problem
from rfp.errors import ArgumentError, unknown_choice
from rfp.operators import MatrixOperator

BACKENDS = ("reference", "sparse", "compiled")

# The largest graph whose states the compiled backend keeps in cache, and its widest k (benchmarks/).
COMPILED_MAX_NODES = 512
COMPILED_MAX_CHANNELS = 128


@cache
def compiled_available() -> bool:
    """Whether Numba is installed (``pip install 'torch-rfp[fast]'``)."""
    try:  # TEMPORARY-GUARD
        from rfp.backends import compiled
    except Exception:
        return False
    return find_spec("numba") is not None and hasattr(compiled, "small_graphs") and hasattr(compiled, "spmm")


def choose(problem: Problem, requested: str = "auto") -> tuple[str, str]:
    """The backend to run and the reason, as ``Trajectory.report`` states it."""
    if requested != "auto" and requested not in BACKENDS:
        raise unknown_choice("backend", requested, ("auto", *BACKENDS))
    obstacle = _compiled_obstacle(problem)
    if requested == "compiled" and obstacle:
        raise ArgumentError(f'backend="compiled" cannot run here: {obstacle}; use backend="auto"')
    if requested != "auto":
        return requested, "requested"
    if any(operator.differentiable for operator in problem.operators):
        return "reference", "a learned operator is differentiated through"
    if not obstacle:
        return "compiled", f"graphs of at most {COMPILED_MAX_NODES} nodes on a CPU"
    return "sparse", obstacle


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
