"""The grid search of node tasks: every combination of values on every split, chosen by mean validation accuracy."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, NumericalError, is_out_of_memory
from rfp.nn import RFPModel
from rfp.train.fixed_encodings import fixed_encodings
from rfp.train.gpu_memory import give_back
from rfp.train.halving import IN_PROGRAM, Pair
from rfp.train.program_size import ProgramSize
from rfp.train.replica_memory import ReplicaRoom, generous_guess, quick_number
from rfp.train.replica_program import ReplicaProgram, one_seed_a_program
from rfp.train.results import RunRecord, Trial
from rfp.train.run_config import RunConfig
from rfp.train.search import SearchSettings
from rfp.train.trained_replicas import KeptReplicas, Replica, TrainedReplica, examine, validation_scores


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
        kept: Where replicas that were trained to their end are looked for, and put.
    """

    config: RunConfig
    loaded: LoadedTask
    device: torch.device
    tick: Callable[[str, int, int], None] = lambda what, done, total: None
    encodings: dict[str, Tensor] = field(default_factory=dict)
    tested: bool = True
    memory_share: float = 1.0
    kept: KeptReplicas | None = None

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
    ) -> list[TrainedReplica]:
        """Train one combination with every pair, split and seed: in one program, or in as few as fit in memory.

        A CPU has more of them where these are quicker (:func:`~rfp.train.replica_memory.quick_number`).

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
        wanted = [Replica(split, lr, wd, seed) for seed in seeds for lr, wd in pairs for split in splits]
        if self.kept is None or epochs is not None:
            return self._trained(here, wanted, what, predict=epochs is None)
        found = {one.replica: one for one in self.kept.find(here, wanted)}
        missing = [replica for replica in wanted if replica not in found]
        found |= {one.replica: one for one in self._trained(here, missing, what, predict=True)}
        return [found[replica] for replica in wanted]

    def _trained(
        self, config: RunConfig, replicas: Sequence[Replica], what: str, *, predict: bool
    ) -> list[TrainedReplica]:
        """Train replicas, which come seed by seed; each program is kept when it is done."""
        groups = [list(group) for _, group in itertools.groupby(replicas, key=lambda replica: replica.seed)]
        if not groups:
            return []
        build, model = self._builder(config, groups[0]), _model(config, self.loaded)
        most = quick_number(model, self.loaded.graphs.num_nodes) if self.device.type == "cpu" else len(replicas)
        epochs = config.training.epochs

        def trained(chunk: Sequence[Replica], before: int = 0) -> list[TrainedReplica]:
            def tick(epoch: int) -> None:  # an epoch of some of them is a part of one
                self.tick(what, (before * epochs + len(chunk) * (epoch + 1)) // len(replicas), epochs)

            program = build(chunk)
            program.fit(tick)
            done = program.trained(predict=predict)
            if self.kept is not None and predict:
                self.kept.put(config, done)
            return done

        equal = len({len(group) for group in groups}) == 1
        if len(groups) > 1 and len(replicas) <= most and equal and not one_seed_a_program(model):
            try:
                return trained(replicas)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
            give_back()  # outside the handler, which keeps the frames (and their tensors) alive
        size, left = ProgramSize(min(most, max(len(group) for group in groups))), groups
        done: list[TrainedReplica] = []
        while left:
            chunk, rest = left[0][: size.now], left[0][size.now :]
            try:
                done += trained(chunk, len(done))
                left = [rest, *left[1:]] if rest else left[1:]
                size.fitted()
                continue
            except (MemoryError, RuntimeError) as error:
                if len(chunk) == 1 or not is_out_of_memory(error):
                    raise
                size.refused(len(chunk))
            give_back()
        return done

    def _builder(self, config: RunConfig, group: Sequence[Replica]) -> Callable[[Sequence[Replica]], ReplicaProgram]:
        """Makes programs of a config, or says that memory is short, which a CPU does not do by itself."""

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

    def records(self, trained: Sequence[TrainedReplica], pair: Pair, values: Mapping[str, Any]) -> list[RunRecord]:
        """The runs of a pair that was chosen; this is where, once, the test part is read."""
        seconds = statistics.fmean(one.seconds for one in trained)
        chosen = [one for one in trained if (one.replica.lr, one.replica.weight_decay) == pair]
        scores = [{"val": val} for val in validation_scores(chosen, self.loaded)]
        if self.tested:
            scores = [{**one, "test": test} for one, test in zip(scores, examine(chosen, self.loaded), strict=True)]
        records = [
            RunRecord(
                one.replica.seed,
                one.replica.split,
                metrics,
                one.best_epoch,
                one.epochs,
                seconds,
                one.num_parameters,
                dict(values),
            )
            for one, metrics in zip(chosen, scores, strict=True)
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

    A combination is judged as it would be tested, by predictions averaged over ``eval_draws`` draws. Learning rates
    and weight decays train together with the splits and seeds; each combination of other keys is one program. One that
    cannot be built (over the parameter budget) or that diverges is said and left out.

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
    best: tuple[float, Pair, dict[str, Any], list[TrainedReplica]] | None = None
    for number, values in enumerate(combinations):
        what = f"{loaded.task.name} {config.name}".strip()
        what += f" {number + 1}/{len(combinations)}" if len(combinations) > 1 else ""
        try:
            trained = trainer.train(values, pairs=trainer.pairs, splits=splits, seeds=seeds, what=what)
        except (ArgumentError, NumericalError) as error:
            if len(combinations) == 1:
                raise
            refused = error
            say(f"search: {values} left out: {str(error).splitlines()[0]}")
            continue
        for pair, val in _mean_scores(trained, _judged(trained, loaded)).items():
            found = {**values, **dict(zip(IN_PROGRAM, pair, strict=True))}
            trials.append(Trial({key: found[key] for key in config.search}, val, len(splits) * len(seeds)))
            if best is None or val > best[0]:
                best = val, pair, found, trained
    if best is None:
        raise ArgumentError(f"no combination of the search could be trained; the last: {refused}")
    _, pair, found, trained = best
    chosen = {key: found[key] for key in config.search}
    return Searched(trainer.records(trained, pair, chosen), trials if config.search else [])


def mean_validation(trained: Sequence[TrainedReplica]) -> dict[Pair, float]:
    """Mean over splits and seeds of the best validation score in training, for each (lr, weight decay)."""
    return _mean_scores(trained, [one.best_val for one in trained])


def _judged(trained: Sequence[TrainedReplica], loaded: LoadedTask) -> list[float]:
    """The validation score of each as it would be tested; of one that diverged at once, as it was: minus infinity."""
    scores = validation_scores(trained, loaded)
    return [score if math.isfinite(one.best_val) else one.best_val for one, score in zip(trained, scores, strict=True)]


def _mean_scores(trained: Sequence[TrainedReplica], scores: Sequence[float]) -> dict[Pair, float]:
    """Mean over splits and seeds of a score of each replica, for each (lr, weight decay)."""
    by_pair: dict[Pair, list[float]] = {}
    for one, score in zip(trained, scores, strict=True):
        by_pair.setdefault((one.replica.lr, one.replica.weight_decay), []).append(score)
    return {pair: statistics.fmean(values) for pair, values in by_pair.items()}


def _sampled(combinations: list[dict[str, Any]], settings: SearchSettings | None) -> list[dict[str, Any]]:
    """All combinations, or as many as are wanted: a random choice that a longer search contains."""
    settings = settings or SearchSettings()
    _, wanted = settings.resolve(len(combinations))
    order = random.Random(settings.seed).sample(range(len(combinations)), len(combinations))
    return [combinations[i] for i in sorted(order[:wanted])]


def _current(config: RunConfig, key: str) -> Any:
    return getattr(config.training, key.split(".")[1])


def _model(config: RunConfig, loaded: LoadedTask) -> RFPModel:
    with torch.device("meta"):
        return RFPModel(config.model_config(loaded))
