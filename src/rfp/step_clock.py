"""How far an encoding by row blocks is, and how long it will take: from the ticks of its tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rfp.durations import spoken
from rfp.encode_file import Progress
from rfp.partitioned.rounds_of_tasks import PREPARING


@dataclass
class StepClock:
    """Turns ticks of tasks into a bar for each part of a step, and finished steps into the time that is left.

    Args:
        progress: The bar.
        steps: P.
        operators: How many.
        aloud: Gets a line for each finished step, if any.
    """

    progress: Progress
    steps: int
    operators: int
    aloud: Callable[[str], None] | None
    times: list[float] = field(default_factory=list)
    current: str | None = None
    part: tuple[str, str] = ("", "")
    done: int = 0
    since: float = 0.0

    @property
    def num_steps(self) -> int:
        return 1 + self.steps * self.operators

    def number(self, step: str) -> int:
        """The place of a step, ``"start"`` or ``"operator/step"``, among all, from 1."""
        if step == "start":
            return 1
        operator, p = step.split("/")
        return 1 + int(operator) * self.steps + int(p)

    def tick(self, step: str, what: str, done: int, total: int) -> None:
        # A step before the current one is repaired, not made.
        if step != PREPARING and (self.current is None or self.number(step) > self.number(self.current)):
            self.finish()
            self.current, self.since = step, time.perf_counter()
        if (step, what) != self.part or done < self.done:
            name = what if step == PREPARING else f"step {self.number(step)} of {self.num_steps}: {what}{self.left()}"
            self.progress.stage(name, total)
            self.part, self.done = (step, what), 0
        self.progress.advance(done - self.done)
        self.done = done

    def finish(self) -> None:
        """The current step is done."""
        if self.current is None:
            return
        self.times.append(time.perf_counter() - self.since)
        number = self.number(self.current)
        if self.aloud is not None:
            left = self.left() if number < self.num_steps else ""
            self.aloud(f"step {number} of {self.num_steps} done in {spoken(self.times[-1])}{left}")

    def left(self) -> str:
        """The time that is left, from the steps of this run so far; nothing before there is one."""
        if not self.times or self.current is None:
            return ""
        steps = self.times[1:] or self.times  # the first only draws
        seconds = sum(steps) / len(steps) * (self.num_steps - self.number(self.current))
        return f", about {spoken(seconds)} left"
