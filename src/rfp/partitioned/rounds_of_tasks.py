r"""The loop of the encoding over a partitioned graph: the same Eq. 1-3, each step a few rounds of tasks on files.

A step is :math:`\hat a = S a` (tasks over panels and blocks), its Gram matrix (one k x k matrix a block, added up in
the order of the blocks, in float64), the factor W of the normalisation, and :math:`a = \hat a W` (tasks over blocks).
The ladder of :mod:`rfp.backends.sparse.orthonormal` finds W; it is handed what computes Gram matrices and applies
factors.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.backends.finite import NotFiniteError
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.errors import FileError
from rfp.normalization import count_events, inverse_lengths
from rfp.partitioned import block_tasks, norms
from rfp.partitioned.checked_files import DamagedFileError, discard, load_array, move, save_array
from rfp.partitioned.executors import Executor
from rfp.partitioned.layout import Layout, Manifest, chunks, step_name
from rfp.rounding import Rounding

Array = NDArray[Any]

# What ticks call their step before the first that is made: of the graph, and of looking at what is there.
PREPARING = "graph"
# Is told (step, what, tasks done, tasks in all), also before the first is done.
Tick = Callable[[str, str, int, int], None]


def no_tick(step: str, what: str, done: int, total: int) -> None:
    """For those who do not look."""


# Tasks by which a factor is applied, for each of several workers: few, for each costs the scheduler milliseconds; more
# than one, so that a slow worker leaves some to others and the bar moves.
_RUNS_EACH = 4
# A file that turns out damaged again and again is a disk to be replaced, not a block to be computed again.
_MAX_REPAIRS = 100


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


@dataclass(frozen=True)
class StoredState:
    """A state in files, as the ladder sees it: it asks for Gram matrices and products, never for numbers."""

    name: str
    dtype: torch.dtype


class StoredProducts:
    """What computes Gram matrices of a stored state and applies factors to it, for the ladder; keeps the factors.

    Args:
        driver: Runs the tasks.
        step: The step that is made.
        known: Gram matrices that are there already, by the name of their state.
    """

    def __init__(self, driver: Driver, step: StepPlan, known: dict[str, Array]) -> None:
        self.driver, self.step, self.known = driver, step, known
        self.factors: list[Array] = []
        self.vectors: Array | None = None

    def gram(self, a: StoredState) -> Tensor:
        found = self.known.get(a.name)
        return torch.from_numpy(self.driver.gram(self.step, a.name) if found is None else found)[None]

    def apply(self, a: StoredState, weight: Tensor) -> StoredState:
        target = f"{self.step.target}/pass-{len(self.factors)}"
        self.factors.append(weight[0].numpy())
        self.driver.apply(self.step, a.name, target, self.factors[-1], self.driver.blocks)
        return StoredState(target, a.dtype)

    def by_vectors(
        self,
        a: StoredState,
        q: StoredState,
        chosen: list[tuple[int, int]],
        exact: Callable[[Tensor, int, int], Tensor],
    ) -> StoredState:
        r"""The last rung from a QR of each block: :math:`a_i = Q_i R_i`, the R_i under one another :math:`= Q' R`.

        R has the lengths and angles of a's columns to rounding, whatever their condition, so the rule for dependent
        columns is applied to R; the rows of the result are :math:`Q_i Q'_i` times what comes out. Two passes over the
        state, k x k matrices through the scheduler.
        """
        trajectories = [b for _, b in chosen]
        parts = self.driver.triangles(self.step, a.name, trajectories)  # [blocks, chosen, k, k]
        num_blocks, _, k, _ = parts.shape
        self.vectors = np.full((num_blocks, self.driver.plan.num_trajectories, k, k), np.nan)
        for i, b in enumerate(trajectories):
            basis, r = np.linalg.qr(parts[:, i].reshape(-1, k))
            self.vectors[:, b] = (basis @ exact(torch.from_numpy(r), 0, b).numpy()).reshape(num_blocks, k, k)
        target = f"{self.step.target}/vectors"
        self.driver.apply_to_basis(self.step, a.name, q.name, target, self.vectors, self.driver.blocks)
        return StoredState(target, a.dtype)


@dataclass
class Driver:
    """Runs the steps that a folder lacks.

    Args:
        plan: Plan of the encoding.
        manifest: As it is in the folder.
        executor: Runs the tasks.
        steps: In order; each depends on the ones before.
        norms: The norm of each operator, or ``None`` where it is not known from its name.
        tick: Told ``(step, what, tasks done, tasks in all)``.
        say: Gets a line for what is out of the ordinary: a damaged file that is computed again.
    """

    plan: block_tasks.Plan
    manifest: Manifest
    executor: Executor
    steps: Sequence[StepPlan]
    norms: Sequence[float | None]
    tick: Tick = no_tick
    say: Callable[[str], None] = lambda line: None
    repairs: int = field(default=0, init=False)
    _norms: dict[int, float] = field(default_factory=dict, init=False)
    # Operators and blocks whose values were found or written.
    _valued: set[tuple[int, int]] = field(default_factory=set, init=False)

    @property
    def layout(self) -> Layout:
        return self.plan.layout

    @property
    def blocks(self) -> Sequence[int]:
        return range(self.plan.graph.num_blocks)

    def run(self) -> None:
        """Make every step that is not there; each is in the manifest as soon as its files are.

        What an earlier run has finished is looked at first, and what of it is damaged computed again: a folder that a
        run has come to the end of is whole.
        """
        block_tasks.forget_panel()
        self._mend_finished()
        for step in self.steps:
            if step.target not in self.manifest.finished:
                events = self._mended(step, self.blocks)
                self.manifest = self.manifest.with_step(
                    step.target, dict(events), self.layout.factor_files(step.target)
                )
                self.layout.write_manifest(self.manifest, self.layout.state(step.target))

    def _mend_finished(self) -> None:
        """Look at the files of all finished steps; each that is damaged is computed again from the step before."""
        finished = [step for step in self.steps if step.target in self.manifest.finished]
        if not finished:
            return
        arguments = [(self.plan, step.target, block) for step in finished for block in self.blocks]
        found = iter(self._told(PREPARING, "checking finished steps", block_tasks.damage_of_block, arguments))
        for step in finished:
            damages = {block: next(found) for block in self.blocks}
            for damage in chain.from_iterable(damages.values()):
                self._discard(damage)
            hurt = [block for block, some in damages.items() if some]
            if hurt:
                self._mended(step, hurt)

    def _make(self, step: StepPlan, blocks: Sequence[int]) -> Counter[str]:
        """Compute blocks of a step, with the factors that are stored for it or, the first time, with new ones."""
        again = step.target in self.manifest.finished
        raw = step.target if step.normalization == "none" else f"{step.target}/product"
        grams: dict[str, Array] = {}
        if step.source is None:
            squares = self._round(
                step, "drawing", block_tasks.draw_block, [(self.plan, raw, block) for block in blocks]
            )
            lengths = np.sqrt(sum(squares))[None]
        else:
            lengths, gram = self._multiply(step, raw, blocks, with_gram=step.normalization == "qr" and not again)
            grams = {} if gram is None else {raw: gram}
        if not again and not np.isfinite(lengths).all():
            raise NotFiniteError(self.plan.torch_dtype, step.step, step.operator)
        events: Counter[str] = Counter()
        if step.normalization != "none":
            if again:
                last = self._replay(step, raw, blocks)
            else:
                last, events = self._normalize(step, raw, lengths, grams)
            self._move(last, step.target, blocks)
        if not again:
            save_array(self.layout.lengths_file(step.target), lengths)
        self._clear(step.target)
        return events

    def _multiply(
        self, step: StepPlan, raw: str, blocks: Sequence[int], *, with_gram: bool
    ) -> tuple[Array, Array | None]:
        """The product with S, p times for a power.

        Returns:
            The lengths of the columns of each product, ``[p, B, k]``; the Gram matrix of the last, ``[B, k, k]``, where
            it is wanted and one panel holds all channels.
        """
        self._write_values(step, blocks)
        source, lengths, num_panels = cast(str, step.source), [], len(self.plan.panels)
        with_gram = with_gram and num_panels == 1
        gram = None
        for power in range(1, step.power + 1):
            target = raw if power == step.power else f"{step.target}/power-{power}"
            # A repair needs all of what is multiplied again, but only its own blocks of the last product.
            needed = blocks if power == step.power else self.blocks
            # One run of blocks for each worker: the panel that they share is read once by each.
            runs = [list(run) for run in chunks(needed, self.executor.num_workers)]
            last = with_gram and power == step.power
            arguments = [
                (self.plan, step.operator, source, target, panel, run, last)
                for panel in range(num_panels)
                for run in runs
            ]
            found = self._round(step, "multiplying", block_tasks.multiply_blocks, arguments)
            squares = [one for one, _ in found]
            by_panel = [np.concatenate(squares[p * len(runs) : (p + 1) * len(runs)]).sum(0) for p in range(num_panels)]
            lengths.append(np.sqrt(np.concatenate(by_panel, axis=-1)))
            if last:
                gram = _in_order([part for _, parts in found for part in parts])
            source = target
        block_tasks.forget_panel()
        return np.stack(lengths), gram

    def _write_values(self, step: StepPlan, blocks: Sequence[int]) -> None:
        """The values of the operator, once a run: tasks that find them damaged later on say so."""
        missing = [block for block in blocks if (step.operator, block) not in self._valued]
        if missing:
            arguments = [(self.plan, step.operator, block) for block in missing]
            self._round(step, "values", block_tasks.write_values, arguments)
            self._valued.update((step.operator, block) for block in missing)

    def _normalize(self, step: StepPlan, raw: str, lengths: Array, grams: dict[str, Array]) -> tuple[str, Counter[str]]:
        """Find the factors, store them and apply them: returns the state that came out, and the events."""
        products = StoredProducts(self, step, grams)
        rounding = self._rounding(step, lengths)
        if step.normalization == "l2":
            inverse, events = inverse_lengths(torch.from_numpy(lengths[-1])[None], rounding)
            last = f"{step.target}/pass-0"
            products.factors.append(inverse[0].numpy())
            self.apply(step, raw, last, products.factors[0], self.blocks)
        else:
            state: Any = StoredState(raw, self.plan.torch_dtype)
            found = Orthonormalizer(cast(Any, products)).step(state, rounding)
            last, events = cast(StoredState, found.state).name, found.events
        for number, factor in enumerate(products.factors):
            save_array(self.layout.factor_file(step.target, number), factor)
        if products.vectors is not None:
            save_array(self.layout.vectors_file(step.target), products.vectors)
        return last, count_events([events])

    def _rounding(self, step: StepPlan, lengths: Array) -> Rounding | None:
        """What the factor of the last product owes to rounding, from the lengths that earlier steps left."""
        if step.source is None:
            return None
        norm = torch.tensor([self._rounding_norm(step)], dtype=torch.float64)
        start = torch.from_numpy(load_array(self.layout.lengths_file("start"))[-1])[None]
        begun = next(s for s in self.steps if s.source is None)
        rounding = Rounding.start(norm, start, self.plan.torch_dtype)
        if begun.normalization != "none":
            rounding = rounding.renewed()
        for before in self.steps:
            if before.source is None or before.operator != step.operator or before.step >= step.step:
                continue
            if before.normalization == "none":
                for one in load_array(self.layout.lengths_file(before.target)):
                    rounding = rounding.after(torch.from_numpy(one)[None])
            else:
                rounding = rounding.renewed()
        for one in lengths[:-1]:
            rounding = rounding.after(torch.from_numpy(one)[None])
        return rounding

    def _rounding_norm(self, step: StepPlan) -> float:
        """That of the step's operator, whose values are there: computed once for all of its steps."""
        if step.operator not in self._norms:
            norm = self.norms[step.operator]
            if norm is None:
                (norm,) = self._round(step, "norms", norms.schur_norm, [(self.plan, step.operator)])
            arguments = [(self.plan, step.operator, block) for block in self.blocks]
            rows = self._round(step, "norms", norms.long_rows, arguments)
            self._norms[step.operator] = norms.rounding_norm_of_rows(norm, rows)
        return self._norms[step.operator]

    def gram(self, step: StepPlan, name: str) -> Array:
        """The Gram matrix of a state, ``[B, k, k]``: the blocks' added up in their order."""
        parts = self._round(
            step, "Gram matrices", block_tasks.gram_of_block, [(self.plan, name, block) for block in self.blocks]
        )
        return _in_order(parts)

    def apply(self, step: StepPlan, source: str, target: str, factor: Array, blocks: Sequence[int]) -> None:
        """A state times a factor, as another state."""
        workers = self.executor.num_workers
        number = len(blocks) if workers == 1 else _RUNS_EACH * workers
        self._round(
            step,
            "applying",
            block_tasks.apply_to_blocks,
            [(self.plan, source, target, factor, list(run)) for run in chunks(blocks, number)],
        )

    def triangles(self, step: StepPlan, name: str, trajectories: Sequence[int]) -> Array:
        """R of each block, ``[blocks, trajectories, k, k]``."""
        arguments = [(self.plan, name, trajectories, block) for block in self.blocks]
        return np.stack(self._round(step, "QR of blocks", block_tasks.triangle_of_block, arguments))

    def apply_to_basis(
        self, step: StepPlan, source: str, other: str, target: str, factors: Array, blocks: Sequence[int]
    ) -> None:
        """The orthonormal basis of each block of ``source`` times its own factor, as another state."""
        arguments = [(self.plan, source, other, target, factors[block], block) for block in blocks]
        self._round(step, "applying", block_tasks.apply_to_basis, arguments)

    def _replay(self, step: StepPlan, raw: str, blocks: Sequence[int]) -> str:
        """Blocks of a finished step again, by its stored factors."""
        name, number = raw, 0
        while self.layout.factor_file(step.target, number).exists():
            after = f"{step.target}/pass-{number}"
            self.apply(step, name, after, load_array(self.layout.factor_file(step.target, number)), blocks)
            name, number = after, number + 1
        if self.layout.vectors_file(step.target).exists():
            after = f"{step.target}/vectors"
            self.apply_to_basis(step, raw, name, after, load_array(self.layout.vectors_file(step.target)), blocks)
            return after
        return name

    def _move(self, source: str, target: str, blocks: Sequence[int]) -> None:
        for block in blocks:
            for old, new in zip(self.plan.files(source, block), self.plan.files(target, block), strict=True):
                move(old, new)

    def _clear(self, name: str) -> None:
        """Remove the states on the way to a finished one."""
        for folder in self.layout.state(name).iterdir():
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)

    def _round(
        self, step: StepPlan, what: str, task: block_tasks.BlockTask, arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        return self._told(step.target, what, task, arguments)

    def _told(
        self, step: str, what: str, task: block_tasks.BlockTask, arguments: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        done = 0

        def one_more() -> None:
            nonlocal done
            done += 1
            self.tick(step, what, done, len(arguments))

        self.tick(step, what, 0, len(arguments))
        return self.executor.map(task, arguments, one_more)

    def _mended(self, step: StepPlan, blocks: Sequence[int]) -> Counter[str]:
        """Make blocks of a step; where a file that it reads is damaged, compute that again and go on."""
        while True:
            try:
                return self._make(step, blocks)
            except DamagedFileError as damage:
                self.repairs += 1
                if self.repairs > _MAX_REPAIRS:
                    raise
                self._repair(damage)

    def _repair(self, damage: DamagedFileError) -> None:
        """Remove a damaged file; a block of a finished step is computed from the step before, by the stored factors."""
        place = self.layout.locate(damage.path)
        if place is None:
            raise FileError(
                f"{damage}; nothing here can make it again: remove {self.layout.folder} and run the command once more"
            ) from damage
        self._discard(damage)
        block_tasks.forget_panel()
        name, block = place
        self._valued = {one for one in self._valued if one[1] != block}
        for step in self.steps:
            if step.target == name and name in self.manifest.finished:
                self._mended(step, [block])

    def _discard(self, damage: DamagedFileError) -> None:
        self.say(f"{damage}; it is computed again")
        discard(damage.path)


def _in_order(parts: Sequence[Array]) -> Array:
    """The sum, one after the other: its bits do not depend on who made the parts."""
    total: Array = np.zeros_like(parts[0])
    for part in parts:
        total += part
    return total
