r"""Rounds of tasks: one kind of task for all blocks, by which a state in files becomes another.

A step is :math:`\hat a = S a` (tasks over panels and blocks), its Gram matrix (one k x k matrix a block, added up in
the order of the blocks, in float64), the factor W of the normalisation, and :math:`a = \hat a W` (tasks over blocks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rfp.partitioned import block_tasks, norms
from rfp.partitioned.checked_files import DamagedFileError
from rfp.partitioned.executors import Executor
from rfp.partitioned.kept_panel import forget_panel
from rfp.partitioned.layout import chunks
from rfp.partitioned.plan import Plan
from rfp.partitioned.step_plan import StepPlan

Array = NDArray[Any]

# What ticks call their step before the first that is made: of the graph, and of looking at what is there.
PREPARING = "graph"
# Is told (step, what, tasks done, tasks in all), also before the first is done.
Tick = Callable[[str, str, int, int], None]


def no_tick(step: str, what: str, done: int, total: int) -> None:
    """For those who do not look."""


# Tasks of a round over blocks, for each of several workers: few, for each costs the scheduler milliseconds; more than
# one, so that a slow worker leaves some to others and the bar moves. A worker alone costs no scheduler.
_RUNS_EACH, _RUNS_ALONE = 4, 8


@dataclass
class Rounds:
    """The rounds of an encoding; a task that finds a file damaged ends its round with a :class:`DamagedFileError`.

    Args:
        plan: Plan of the encoding.
        executor: Runs the tasks.
        norms: The norm of each operator, or ``None`` where it is not known from its name.
        tick: Told ``(step, what, tasks done, tasks in all)``.
    """

    plan: Plan
    executor: Executor
    norms: Sequence[float | None]
    tick: Tick = no_tick
    _norms: dict[int, float] = field(default_factory=dict, init=False)
    # Operators and blocks whose values were found or written.
    _valued: set[tuple[int, int]] = field(default_factory=set, init=False)

    def damages(self, names: Sequence[str]) -> list[list[list[DamagedFileError]]]:
        """Of each block of each of these states."""
        arguments = [(self.plan, name, block) for name in names for block in self.plan.blocks]
        found = iter(self._round(PREPARING, "checking finished steps", block_tasks.damage_of_block, arguments))
        return [[next(found) for _ in self.plan.blocks] for _ in names]

    def draw(self, step: StepPlan, target: str, blocks: Sequence[int]) -> Array:
        """The features; returns the lengths of their columns, ``[1, B, k]``."""
        arguments = [(self.plan, target, block) for block in blocks]
        squares = self._round(step.target, "drawing", block_tasks.draw_block, arguments)
        return _lengths([np.stack(squares)])[None]

    def multiply(
        self, step: StepPlan, target: str, blocks: Sequence[int], *, with_gram: bool
    ) -> tuple[Array, Array | None]:
        """The product with S, p times for a power.

        Returns:
            The lengths of the columns of each product, ``[p, B, k]``, and the Gram matrix of the last, ``[B, k, k]``,
            where it is wanted.
        """
        # A repair needs all of what is multiplied again, but only its own blocks of the last product.
        self._write_values(step, self.plan.blocks if step.power > 1 else blocks)
        source, lengths, gram = cast(str, step.source), [], None
        for power in range(1, step.power):
            between = f"{step.target}/power-{power}"
            lengths.append(_lengths(self._products(step, source, between, self.plan.blocks, "squares")))
            source = between
        if not with_gram:
            lengths.append(_lengths(self._products(step, source, target, blocks, "squares")))
        elif len(self.plan.panels) == 1:
            (parts,) = self._products(step, source, target, blocks, "gram")
            gram = _in_order(parts)
        else:
            self._products(step, source, target, blocks, "none")
            forget_panel()
            gram = self.gram(step, target)
        forget_panel()
        if gram is not None:  # the squares of the lengths are its diagonal
            lengths.append(np.sqrt(np.diagonal(gram, axis1=1, axis2=2)))
        return np.stack(lengths), gram

    def _products(
        self, step: StepPlan, source: str, target: str, blocks: Sequence[int], sums: block_tasks.Sums
    ) -> list[Array]:
        """One product; returns the sums over each block that were asked for, panel by panel."""
        # One run of blocks for each worker: the panel that they share is read once by each.
        runs = [list(run) for run in chunks(blocks, self.executor.num_workers)]
        operator, panels = step.operator, range(len(self.plan.panels))
        arguments = [(self.plan, operator, source, target, panel, run, sums) for panel in panels for run in runs]
        found = self._round(step.target, "multiplying", block_tasks.multiply_blocks, arguments)
        if sums == "none":
            return []
        return [np.concatenate(found[p * len(runs) : (p + 1) * len(runs)]) for p in panels]

    def _write_values(self, step: StepPlan, blocks: Sequence[int]) -> None:
        """The values of the operator, once a run: tasks that find them damaged later on say so."""
        missing = [block for block in blocks if (step.operator, block) not in self._valued]
        if missing:
            runs = chunks(missing, _RUNS_EACH * self.executor.num_workers)
            arguments = [(self.plan, step.operator, list(run)) for run in runs]
            self._round(step.target, "values", block_tasks.write_values, arguments)
            self._valued.update((step.operator, block) for block in missing)

    def forget_values(self, block: int) -> None:
        """The values of a block may be gone: look again."""
        self._valued = {one for one in self._valued if one[1] != block}

    def rounding_norm(self, step: StepPlan) -> float:
        """That of the step's operator, whose values are there: computed once for all of its steps."""
        if step.operator not in self._norms:
            norm = self.norms[step.operator]
            if norm is None:
                (norm,) = self._round(step.target, "norms", norms.schur_norm, [(self.plan, step.operator)])
            arguments = [(self.plan, step.operator, block) for block in self.plan.blocks]
            rows = self._round(step.target, "norms", norms.long_rows, arguments)
            self._norms[step.operator] = norms.rounding_norm_of_rows(norm, rows)
        return self._norms[step.operator]

    def gram(self, step: StepPlan, name: str) -> Array:
        """The Gram matrix of a state, ``[B, k, k]``: the blocks' added up in their order."""
        arguments = [(self.plan, name, run) for run in self._runs(self.plan.blocks)]
        found = self._round(step.target, "Gram matrices", block_tasks.gram_of_blocks, arguments)
        return _in_order([part for parts in found for part in parts])

    def apply(self, step: StepPlan, source: str, target: str, factor: Array, blocks: Sequence[int]) -> None:
        """A state times a factor, as another state."""
        arguments = [(self.plan, source, target, factor, run) for run in self._runs(blocks)]
        self._round(step.target, "applying", block_tasks.apply_to_blocks, arguments)

    def triangles(self, step: StepPlan, name: str, trajectories: Sequence[int]) -> Array:
        """R of each block, ``[blocks, trajectories, k, k]``."""
        arguments = [(self.plan, name, trajectories, block) for block in self.plan.blocks]
        return np.stack(self._round(step.target, "QR of blocks", block_tasks.triangle_of_block, arguments))

    def apply_to_basis(
        self, step: StepPlan, source: str, other: str, target: str, factors: Array, blocks: Sequence[int]
    ) -> None:
        """The orthonormal basis of each block of ``source`` times its own factor, as another state."""
        arguments = [(self.plan, source, other, target, factors[block], block) for block in blocks]
        self._round(step.target, "applying", block_tasks.apply_to_basis, arguments)

    def _runs(self, blocks: Sequence[int]) -> list[list[int]]:
        workers = self.executor.num_workers
        return [list(run) for run in chunks(blocks, _RUNS_ALONE if workers == 1 else _RUNS_EACH * workers)]

    def _round(
        self, step: str, what: str, task: block_tasks.BlockTask, arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        done = 0

        def one_more() -> None:
            nonlocal done
            done += 1
            self.tick(step, what, done, len(arguments))

        self.tick(step, what, 0, len(arguments))
        return self.executor.map(task, arguments, one_more)


def _lengths(squares: Sequence[Array]) -> Array:
    """Of columns, ``[B, k]``, from the sums of squares over each block, ``[blocks, B, width]`` panel by panel."""
    lengths: Array = np.sqrt(np.concatenate([panel.sum(0) for panel in squares], axis=-1))
    return lengths


def _in_order(parts: Sequence[Array] | Array) -> Array:
    """The sum, one after the other: its bits do not depend on who made the parts."""
    total: Array = np.zeros_like(parts[0])
    for part in parts:
        total += part
    return total
