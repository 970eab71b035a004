"""The grid search of node tasks: every combination of values on every split, chosen by mean validation accuracy."""

from __future__ import annotations

import gc
import itertools
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, NumericalError
from rfp.nn import RFPModel
from rfp.train.fixed_encodings import fixed_encodings
from rfp.train.halving import IN_PROGRAM, Pair
from rfp.train.replica_memory import ReplicaMemoryError, ReplicaRoom, generous_guess
from rfp.train.replica_program import Replica, ReplicaProgram, examine, one_seed_a_program
from rfp.train.results import RunRecord, Trial
from rfp.train.run_config import RunConfig
from rfp.train.search import SearchSettings

_FULL = (torch.OutOfMemoryError, ReplicaMemoryError)


@dataclass(frozen=True)
class NodeTrainer:
    """Trains combinations of values on one graph.

    Args:
        config: What they are combinations of.
        loaded: A node classification task on one graph.
        device: Where to train.
        tick: Told ``(what, epochs done, epochs in all)``; what it raises ends the training.
        encodings: Those that do not change, kept from one combination to the next.
        tested: Whether the runs of what was chosen get a test score.
        memory_share: Part of a CPU's free memory that programs may take.
    """

    config: RunConfig
    loaded: LoadedTask
    device: torch.device
    tick: Callable[[str, int, int], None] = lambda what, done, total: None
    encodings: dict[str, Tensor] = field(default_factory=dict)
    tested: bool = True
    memory_share: float = 1.0

    @property
    def pairs(self) -> list[Pair]:
        """All (lr, weight decay) of the search."""
        tried = (self.config.search.get(key, (_current(self.config, key),)) for key in IN_PROGRAM)
        return [(lr, decay) for lr, decay in itertools.product(*tried)]

    def train(
        self,
        values: Mapping[str, Any],
        *,
        pairs: Sequence[Pair],
        splits: Sequence[int],
        seeds: Sequence[int],
        epochs: int | None = None,
        what: str = "",
    ) -> list[ReplicaProgram]:
        """Train one combination with every pair, split and seed: in one program, or in as few as fit in memory.

        Args:
            values: Values of the keys that replicas of a program share.
            pairs: Pairs of learning rate and weight decay.
            splits: Which splits.
            seeds: Which seeds.
            epochs: If other than the config's: then nothing stops a replica before its last epoch, and its scores are
                all that is asked for.
            what: For :attr:`tick`.
        """
        here = self.config.with_values(values)
        if epochs is not None:
            here = replace(here, training=replace(here.training, epochs=epochs, patience=None))
        groups = [[Replica(split, lr, wd, seed) for lr, wd in pairs for split in splits] for seed in seeds]
        build = self._builder(here, groups[0])
        if len(seeds) > 1 and not one_seed_a_program(_model(here, self.loaded)):
            try:
                return [self._fitted(build([replica for group in groups for replica in group]), what)]
            except _FULL:
                pass
            _free(self.device)  # outside the handler, which keeps the frames (and their tensors) alive
        size = len(groups[0])
        while True:
            chunks = [group[start : start + size] for group in groups for start in range(0, len(group), size)]
            try:
                if len(chunks) == 1:
                    return [self._fitted(build(chunks[0]), what)]
                return [self._rested(build(chunk), what, predict=epochs is None) for chunk in chunks]
            except _FULL:
                if size == 1:
                    raise
                size = -(-size // 2)
            _free(self.device)

    def _builder(self, config: RunConfig, group: Sequence[Replica]) -> Callable[[Sequence[Replica]], ReplicaProgram]:
        """Makes programs of a config, or raises one of :data:`_FULL`: a CPU does not say by itself that it is full."""

        def build(replicas: Sequence[Replica], config: RunConfig = config) -> ReplicaProgram:
            return ReplicaProgram(config, self.loaded, replicas, device=self.device, encodings=self.encodings)

        if self.device.type != "cpu":
            return build
        model, graphs = _model(config, self.loaded), self.loaded.graphs
        fixed_encodings(model, graphs.graph, graphs.x, self.encodings)  # found there, they do not count for a program
        short = replace(config, training=replace(config.training, epochs=2, patience=None))
        still = replace(group[0], lr=0.0)  # whatever the learning rates, this one does not diverge
        guess = generous_guess(model, graphs.num_nodes)
        room = ReplicaRoom(lambda count: build([still] * count, short).fit(), self.memory_share, guess)

        def checked(replicas: Sequence[Replica]) -> ReplicaProgram:
            room.check(len(replicas), len({replica.seed for replica in replicas}))
            return build(replicas)

        return checked

    def _fitted(self, program: ReplicaProgram, what: str) -> ReplicaProgram:
        epochs = program.training.epochs
        program.fit(lambda epoch: self.tick(what, epoch + 1, epochs))
        return program

    def _rested(self, program: ReplicaProgram, what: str, *, predict: bool) -> ReplicaProgram:
        """Trained, without its weights: one of several that do not fit beside each other."""
        self._fitted(program, what).rest(predict=predict)
        return program

    def records(self, programs: Sequence[ReplicaProgram], pair: Pair, values: Mapping[str, Any]) -> list[RunRecord]:
        """The runs of a pair that was chosen; this is where, once, the test part is read."""
        seconds = sum(program.seconds for program in programs) / sum(len(program.replicas) for program in programs)
        records = []
        for program in programs:
            chosen = [n for n, r in enumerate(program.replicas) if (r.lr, r.weight_decay) == pair]
            if not chosen:
                continue
            predictions = program.predictions()
            val = program.validation_scores(predictions)
            scores = [{"val": val[n]} for n in chosen]
            if self.tested:
                test = examine(program, predictions, self.loaded, chosen)
                scores = [{**one, "test": score} for one, score in zip(scores, test, strict=True)]
            records += [
                RunRecord(
                    program.replicas[n].seed,
                    program.replicas[n].split,
                    metrics,
                    program.best_epoch[n],
                    program.epochs_each[n],
                    seconds,
                    program.num_parameters,
                    dict(values),
                )
                for n, metrics in zip(chosen, scores, strict=True)
            ]
        return sorted(records, key=lambda record: (record.seed, record.split))


@dataclass(frozen=True)
class Searched:
    """The runs of the chosen values, one for each seed and split, and the validation score of every combination."""

    runs: list[RunRecord]
    trials: list[Trial]


def train_nodes(
    trainer: NodeTrainer,
    *,
    seeds: Sequence[int],
    splits: Sequence[int],
    settings: SearchSettings | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Searched:
    """Train every combination of ``config.search`` on every split, choose by validation, and test the chosen alone.

    Learning rates and weight decays train together with the splits and seeds; each combination of other keys is one
    program. A combination that cannot be built (over the parameter budget) or that diverges is said and left out.

    Args:
        trainer: With a config that has or has no ``search``.
        seeds: Seeds of weights, draws and dropout.
        splits: Which splits.
        settings: ``trials`` is the number of programs; if there are more combinations (and by default more than
            :data:`~rfp.train.search.WHOLE_GRID_MAX`), as many are drawn.
        say: Gets a line for each combination that is left out.
    """
    config, loaded = trainer.config, trainer.loaded
    for split in splits:
        loaded.rows("train", split)  # raises if there is no such split
    outer = {key: values for key, values in config.search.items() if key not in IN_PROGRAM}
    combinations = _sampled([dict(zip(outer, v, strict=True)) for v in itertools.product(*outer.values())], settings)
    trials: list[Trial] = []
    refused: Exception | None = None
    best: tuple[float, Pair, dict[str, Any], list[ReplicaProgram]] | None = None
    for number, values in enumerate(combinations):
        what = f"{loaded.task.name} {config.name}".strip()
        what += f" {number + 1}/{len(combinations)}" if len(combinations) > 1 else ""
        try:
            programs = trainer.train(values, pairs=trainer.pairs, splits=splits, seeds=seeds, what=what)
        except (ArgumentError, NumericalError) as error:
            if len(combinations) == 1:
                raise
            refused = error
            say(f"search: {values} left out: {str(error).splitlines()[0]}")
            continue
        for pair, val in mean_validation(programs).items():
            found = {**values, **dict(zip(IN_PROGRAM, pair, strict=True))}
            trials.append(Trial({key: found[key] for key in config.search}, val, len(splits) * len(seeds)))
            if best is None or val > best[0]:
                best = val, pair, found, programs
        del programs  # but the best, before the next are made
    if best is None:
        raise ArgumentError(f"no combination of the search could be trained; the last: {refused}")
    _, pair, found, programs = best
    chosen = {key: found[key] for key in config.search}
    return Searched(trainer.records(programs, pair, chosen), trials if config.search else [])


def mean_validation(programs: Sequence[ReplicaProgram]) -> dict[Pair, float]:
    """Mean over splits and seeds of the best validation score, for each (lr, weight decay)."""
    scores: dict[Pair, list[float]] = {}
    for program in programs:
        for replica, val in zip(program.replicas, program.best_val, strict=True):
            scores.setdefault((replica.lr, replica.weight_decay), []).append(val)
    return {pair: statistics.fmean(values) for pair, values in scores.items()}


def _sampled(combinations: list[dict[str, Any]], settings: SearchSettings | None) -> list[dict[str, Any]]:
    """All combinations, or as many as are wanted: a random choice that a longer search contains."""
    settings = settings or SearchSettings()
    _, wanted = settings.resolve(len(combinations))
    order = random.Random(settings.seed).sample(range(len(combinations)), len(combinations))
    return [combinations[i] for i in sorted(order[:wanted])]


def _current(config: RunConfig, key: str) -> Any:
    return getattr(config.training, key.split(".")[1])


def _free(device: torch.device) -> None:
    gc.collect()  # what a failure has left in a cycle
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _model(config: RunConfig, loaded: LoadedTask) -> RFPModel:
    with torch.device("meta"):
        return RFPModel(config.model_config(loaded))
