"""Which states an encoding is made of: each of the one before, by which operator, normalised how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rfp.partitioned.layout import step_name


@dataclass(frozen=True)
class StepPlan:
    """What one round of the loop makes of which state.

    Args:
        target: The state to make.
        source: The state before, or ``None`` for the features.
        operator: Number of the operator that is applied.
        step: Its number.
        power: How often the operator is applied.
        normalization: Normalisation of the result; ``"none"`` where none is due.
    """

    target: str
    source: str | None
    operator: int
    step: int
    power: int
    normalization: str


def plan_steps(
    num_steps: int, normalization: str, normalize_every: int, start: str, powers: Sequence[int]
) -> list[StepPlan]:
    """The steps of all operators in the order in which they are made; ``start`` is the normalisation of step 0.

    >>> [(s.target, s.source, s.normalization) for s in plan_steps(2, "qr", 2, "none", [1])]
    [('start', None, 'none'), ('0/1', 'start', 'none'), ('0/2', '0/1', 'qr')]
    """
    steps = [StepPlan("start", None, 0, 0, 0, start)]
    for operator, power in enumerate(powers):
        for p in range(1, num_steps + 1):
            due = normalization if p % normalize_every == 0 else "none"
            source, target = step_name(operator, p - 1), step_name(operator, p)
            steps.append(StepPlan(target, source, operator, p, power, due))
    return steps
