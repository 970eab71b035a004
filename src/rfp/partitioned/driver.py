r"""The loop of the encoding over a partitioned graph: the same Eq. 1-3, each step a few rounds of tasks on files.

The ladder of :mod:`rfp.backends.sparse.orthonormal` finds the factor W of the normalisation; it is handed what computes
Gram matrices and applies factors. What is found damaged on the way is computed again.
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

from rfp.backends.finite import NotFiniteError
from rfp.backends.sparse.orthonormal import Orthonormalizer
from rfp.errors import FileError
from rfp.normalization import count_events, inverse_lengths
from rfp.partitioned.checked_files import DamagedFileError, discard, load_array, move, save_array
from rfp.partitioned.kept_panel import forget_panel
from rfp.partitioned.layout import Layout, Manifest
from rfp.partitioned.plan import Plan
from rfp.partitioned.rounds_of_tasks import Rounds
from rfp.partitioned.step_plan import StepPlan
from rfp.partitioned.stored_products import StoredProducts, StoredState
from rfp.rounding import Rounding

Array = NDArray[Any]

# A file that turns out damaged again and again is a disk to be replaced, not a block to be computed again.
_MAX_REPAIRS = 100


@dataclass
class Driver:
    """Runs the steps that a folder lacks.

    Args:
        rounds: Run the tasks.
        manifest: As it is in the folder.
        steps: In order; each depends on the ones before.
        say: Gets a line for what is out of the ordinary: a damaged file that is computed again.
    """

    rounds: Rounds
    manifest: Manifest
    steps: Sequence[StepPlan]
    say: Callable[[str], None] = lambda line: None
    repairs: int = field(default=0, init=False)

    @property
    def plan(self) -> Plan:
        return self.rounds.plan

    @property
    def layout(self) -> Layout:
        return self.plan.layout

    def run(self) -> None:
        """Make every step that is not there; each is in the manifest as soon as its files are.

        What an earlier run has finished is looked at first, and what of it is damaged computed again: a folder that a
        run has come to the end of is whole.
        """
        forget_panel()
        self._mend_finished()
        for step in self.steps:
            if step.target not in self.manifest.finished:
                events = self._mended(step, self.plan.blocks)
                self.manifest = self.manifest.with_step(
                    step.target, dict(events), self.layout.factor_files(step.target)
                )
                self.layout.write_manifest(self.manifest, self.layout.state(step.target))

    def _mend_finished(self) -> None:
        """Look at the files of all finished steps; each that is damaged is computed again from the step before."""
        finished = [step for step in self.steps if step.target in self.manifest.finished]
        if not finished:
            return
        found = self.rounds.damages([step.target for step in finished])
        for step, damages in zip(finished, found, strict=True):
            for damage in chain.from_iterable(damages):
                self._discard(damage)
            hurt = [block for block, some in zip(self.plan.blocks, damages, strict=True) if some]
            if hurt:
                self._mended(step, hurt)

    def _make(self, step: StepPlan, blocks: Sequence[int]) -> Counter[str]:
        """Compute blocks of a step, with the factors that are stored for it or, the first time, with new ones."""
        again = step.target in self.manifest.finished
        raw = step.target if step.normalization == "none" else f"{step.target}/product"
        grams: dict[str, Array] = {}
        if step.source is None:
            lengths = self.rounds.draw(step, raw, blocks)
        else:
            with_gram = step.normalization == "qr" and not again
            lengths, gram = self.rounds.multiply(step, raw, blocks, with_gram=with_gram)
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

    def _normalize(self, step: StepPlan, raw: str, lengths: Array, grams: dict[str, Array]) -> tuple[str, Counter[str]]:
        """Find the factors, store them and apply them: returns the state that came out, and the events."""
        products = StoredProducts(self.rounds, step, grams)
        rounding = self._rounding(step, lengths)
        if step.normalization == "l2":
            inverse, events = inverse_lengths(torch.from_numpy(lengths[-1])[None], rounding)
            last = f"{step.target}/pass-0"
            products.factors.append(inverse[0].numpy())
            self.rounds.apply(step, raw, last, products.factors[0], self.plan.blocks)
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
        norm = torch.tensor([self.rounds.rounding_norm(step)], dtype=torch.float64)
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

    def _replay(self, step: StepPlan, raw: str, blocks: Sequence[int]) -> str:
        """Blocks of a finished step again, by the factors that the manifest says it has.

        Raises:
            DamagedFileError: One of them is missing or damaged: without it these would be other numbers.
        """
        name = raw
        for number, file in enumerate(self.manifest.factors[step.target]):
            path = self.layout.folder / "states" / file
            factor = load_array(path)
            if path == self.layout.vectors_file(step.target):
                after = f"{step.target}/vectors"
                self.rounds.apply_to_basis(step, raw, name, after, factor, blocks)
            else:
                after = f"{step.target}/pass-{number}"
                self.rounds.apply(step, name, after, factor, blocks)
            name = after
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
            raise FileError(f"{damage}; {self.layout.how_to_begin_anew}") from damage
        self._discard(damage)
        forget_panel()
        name, block = place
        self.rounds.forget_values(block)
        for step in self.steps:
            if step.target == name and name in self.manifest.finished:
                self._mended(step, [block])

    def _discard(self, damage: DamagedFileError) -> None:
        self.say(f"{damage}; it is computed again")
        discard(damage.path)
