"""Ways to run the one loop. ``reference`` defines the result; the others are faster and equal to it.

===============  ================================================================================
``learned``      learned operators of small graphs on a GPU: a whole trajectory and its gradient, a kernel each (Triton)
``fused``        many small graphs on a GPU: the whole trajectory of a graph in registers (Triton)
``cuda_sparse``  one large graph on a GPU: product and Gram matrix in one pass, no host in the loop (Triton)
``compiled``     many small graphs on a CPU: the whole trajectory of a graph in cache (Numba)
``sparse``       CSR product and Gram-matrix QR: one large graph, or any batch
``reference``    plain PyTorch, any operator, any device, autograd
===============  ================================================================================

Each is a folder with its kernels and a :class:`~rfp.backends.backend.Backend` that says what it can do.
"""

from __future__ import annotations

from rfp.backends.backend import Backend, OtherKind
from rfp.backends.compiled import COMPILED
from rfp.backends.cuda_sparse import CUDA_SPARSE
from rfp.backends.fused import FUSED
from rfp.backends.learned import LEARNED
from rfp.backends.problem import Problem
from rfp.backends.reference import REFERENCE
from rfp.backends.sparse import SPARSE
from rfp.errors import ArgumentError, unknown_choice

# In order of preference: the first without an obstacle runs.
BACKENDS: tuple[Backend, ...] = (LEARNED, FUSED, CUDA_SPARSE, COMPILED, SPARSE, REFERENCE)


def choose(problem: Problem, requested: str = "auto", *, stepping: bool = False) -> tuple[Backend, str]:
    """The backend to run and the reason, as :class:`rfp.Report` states it.

    Args:
        problem: What is to be computed.
        requested: A backend's name, or ``"auto"``.
        stepping: Whether it must be able to go step by step.
    """
    if requested == "auto":
        return _first(problem, stepping)
    named = {backend.name: backend for backend in BACKENDS}
    if requested not in named:
        raise unknown_choice("backend", requested, ("auto", *named))
    backend = named[requested]
    if obstacle := backend.obstacle(problem):
        raise ArgumentError(f'backend="{requested}" cannot run here: {obstacle}; use backend="auto"')
    if stepping and backend.steps is None:
        steppers = ", ".join(f'"{other.name}"' for other in BACKENDS if other.steps is not None)
        raise ArgumentError(
            f'backend="{requested}" computes whole trajectories and cannot go step by step; '
            f'use backend="auto" or one of {steppers}'
        )
    return backend, "requested"


def _first(problem: Problem, stepping: bool) -> tuple[Backend, str]:
    reason = ""
    for backend in BACKENDS:
        if stepping and backend.steps is None:
            continue
        obstacle = backend.obstacle(problem)
        if not obstacle:
            return backend, backend.serves or reason or "step by step"
        if not isinstance(obstacle, OtherKind):
            reason = backend.passed_over.format(obstacle)
    raise AssertionError("the reference runs everything")
