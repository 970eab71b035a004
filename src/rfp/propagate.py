"""The loop with all its states kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from torch import Tensor

from rfp.backends.problem import Problem
from rfp.one_loop import Record, StepsTold, run_problem
from rfp.one_loop import states as states
from rfp.operators import Operator
from rfp.settings import LoopArguments, Settings, shows_settings
from rfp.sinks import Memory
from rfp.trajectory import Trajectory


@shows_settings(LoopArguments)
def propagate(
    operators: Operator | Sequence[Operator],
    features: Tensor,
    settings: Settings | None = None,
    *,
    ptr: Tensor | None = None,
    record: Record | None = None,
    progress: StepsTold | None = None,
    **arguments: Unpack[LoopArguments],
) -> Trajectory:
    r"""Keep the whole trajectory :math:`t = r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}` (Eq. 2) of each operator.

    Args are those of :func:`states`, and:
        operators: One S or several; each starts from the same features.
        progress: Called with 1 after each step of each operator.

    Returns:
        A :class:`Trajectory`; its storage is ``[n, B, O, P + 1, k]``.
    """
    problem = Problem.from_objects(operators, features, ptr, Settings.of(settings, arguments)).checked()
    memory = Memory(problem)
    report = run_problem(problem, memory, record=record, progress=progress)
    return Trajectory(memory.storage, report)
