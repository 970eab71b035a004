"""What a backend is: its name, what stands in its way, and how it computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.available import triton_available
from rfp.backends.problem import Problem, Step
from rfp.normalization import Events
from rfp.operators import MatrixOperator, Operator

# The states of one operator, one at a time: a^(0) as it is in the problem, then P steps.
Steps = Callable[[Problem, Operator], Iterator[Step]]
# Where the state of a step is kept, [n, B, k]; None: nowhere. Who asks for a place fills it.
Place = Callable[[int], Tensor | None]
# As Steps, for a caller who is done with a state before it asks for the next: memory is used again, and a state may be
# written where it is kept.
StepsInPlace = Callable[[Problem, Operator, Place], Iterator[Step]]
# The trajectory of all operators in one call, [n, B, O, P + 1, k] of the given type; the last argument is told how many
# steps are done, as they are.
Whole = Callable[[Problem, torch.dtype, Callable[[int], None]], tuple[Tensor, Events]]


class OtherKind(str):
    """An obstacle that says that the problem is not of the kind the backend is for: no news to who reads the report."""


NOT_ON_A_GPU = OtherKind("the states are not on a GPU")
NOT_ON_A_CPU = OtherKind("the states are not on a CPU")
DIFFERENTIATED = OtherKind("an operator is differentiated through")
NOT_DIFFERENTIATED = OtherKind("no operator is differentiated through")


@dataclass(frozen=True)
class Backend:
    """A way to run the one loop.

    Args:
        name: As it is asked for.
        obstacle: Why it cannot run a problem; empty if it can.
        steps: Computes step by step; ``None`` if it computes whole trajectories only.
        steps_in_place: The same for a caller who holds no state; ``None`` if there is nothing to be won by it.
        whole: Computes the whole trajectory in one call; ``None`` if it goes step by step only.
        serves: What it is chosen for, as :class:`rfp.Report` states it; empty for those that take what others leave.
        passed_over: How its obstacle reads in the report of the one that runs instead.
        qr_tells: Whether its QR looks at every product, and raises :class:`rfp.backends.finite.NotFiniteError`.
    """

    name: str
    obstacle: Callable[[Problem], str]
    steps: Steps | None = None
    steps_in_place: StepsInPlace | None = None
    whole: Whole | None = None
    serves: str = ""
    passed_over: str = "{}"
    qr_tells: bool = False


def kernel_obstacle(problem: Problem, max_channels: int) -> str:
    """Why no Triton kernel for predefined operators can run this problem; empty if one can."""
    if problem.differentiable:
        return DIFFERENTIATED
    if problem.device.type != "cuda":
        return NOT_ON_A_GPU
    if problem.dtype != torch.float32:
        return f"states in {problem.dtype}"
    if not all(isinstance(operator, MatrixOperator) for operator in problem.operators):
        return "an operator is not a sparse matrix"
    if problem.normalization not in ("none", "l2", "qr"):
        return f"normalization {problem.normalization!r}"
    if problem.shape[2] > max_channels:
        return f"more than {max_channels} channels"
    return "" if triton_available() else "Triton is not installed"
