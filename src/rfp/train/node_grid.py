"""The grid search of node tasks: every combination of values on every split, chosen by mean validation accuracy."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, NumericalError
from rfp.train.config import RunConfig
from rfp.train.replicas import Replica, ReplicaProgram
from rfp.train.results import RunRecord, Trial
from rfp.train.search import SearchSettings

# Values that replicas of one program may differ in; every other searched key needs a program of its own.
_IN_PROGRAM = ("training.lr", "training.weight_decay")


@dataclass(frozen=True)
class Searched:
    """The runs of the chosen values, one for each split, and the validation score of every combination."""

    runs: list[RunRecord]
    trials: list[Trial]


def train_nodes(
    config: RunConfig,
    loaded: LoadedTask,
    *,
    seed: int,
    splits: Sequence[int],
    device: torch.device,
    settings: SearchSettings | None = None,
    say: Callable[[str], None] = lambda line: None,
    tick: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Searched:
    """Train every combination of ``config.search`` on every split, choose by validation, and test the chosen alone.

    Learning rates and weight decays train together with the splits; each combination of other keys is one program. A
    combination that cannot be built (over the parameter budget) or that diverges is said and left out.

    Args:
        config: With or without ``search``.
        loaded: A node classification task on one graph.
        seed: Of weights, draws and dropout.
        splits: Which splits.
        device: Where to train.
        settings: ``trials`` is the number of programs; if there are more combinations (and by default more than
            :data:`~rfp.train.search.WHOLE_GRID_MAX`), as many are drawn.
        say: Gets a line for each combination that is left out.
        tick: Told ``(what, epochs done, epochs in all)``.
    """
    for split in splits:
        loaded.rows("train", split)  # raises if there is no such split
    inner = {key: config.search.get(key, (_current(config, key),)) for key in _IN_PROGRAM}
    outer = {key: values for key, values in config.search.items() if key not in _IN_PROGRAM}
    combinations = _sampled([dict(zip(outer, v, strict=True)) for v in itertools.product(*outer.values())], settings)
    trials: list[Trial] = []
    encodings: dict[str, Tensor] = {}
    refused: Exception | None = None
    best: tuple[float, tuple[float, float], dict[str, Any], list[ReplicaProgram]] | None = None
    for number, values in enumerate(combinations):
        what = f"{loaded.task.name} {config.name}".strip()
        what += f" {number + 1}/{len(combinations)}" if len(combinations) > 1 else ""
        replicas = [Replica(split, lr, decay) for lr, decay in itertools.product(*inner.values()) for split in splits]
        try:
            here = config.with_values(values)
            build = partial(ReplicaProgram, here, loaded, seed=seed, device=device, encodings=encodings)
            programs = _fit(build, replicas, partial(tick, what))
        except (ArgumentError, NumericalError) as error:
            if len(combinations) == 1:
                raise
            refused = error
            say(f"search: {values} left out: {str(error).splitlines()[0]}")
            continue
        for pair, val in _mean_validation(programs).items():
            found = {**values, **dict(zip(_IN_PROGRAM, pair, strict=True))}
            trials.append(Trial({key: found[key] for key in config.search}, val, len(splits)))
            if best is None or val > best[0]:
                best = val, pair, found, programs
    if best is None:
        raise ArgumentError(f"no combination of the search could be trained; the last: {refused}")
    _, pair, found, programs = best
    chosen = {key: found[key] for key in config.search}
    return Searched(_records(programs, pair, seed, chosen), trials if config.search else [])


def _sampled(combinations: list[dict[str, Any]], settings: SearchSettings | None) -> list[dict[str, Any]]:
    """All combinations, or as many as are wanted: a random choice that a longer search contains."""
    settings = settings or SearchSettings()
    _, wanted = settings.resolve(len(combinations))
    order = random.Random(settings.seed).sample(range(len(combinations)), len(combinations))
    return [combinations[i] for i in sorted(order[:wanted])]


def _current(config: RunConfig, key: str) -> Any:
    return getattr(config.training, key.split(".")[1])


def _fit(
    build: Callable[[Sequence[Replica]], ReplicaProgram], replicas: Sequence[Replica], tick: Callable[[int, int], None]
) -> list[ReplicaProgram]:
    """All replicas in one program, or in as few as fit into the device's memory."""
    size = len(replicas)
    while True:
        chunks = [replicas[start : start + size] for start in range(0, len(replicas), size)]
        try:
            return [_fitted(build(chunk), tick, i, len(chunks)) for i, chunk in enumerate(chunks)]
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = -(-size // 2)
        torch.cuda.empty_cache()  # outside the handler, which keeps the frames (and their tensors) alive


def _fitted(program: ReplicaProgram, tick: Callable[[int, int], None], number: int, chunks: int) -> ReplicaProgram:
    epochs = program.training.epochs
    program.fit(lambda epoch: tick(number * epochs + epoch + 1, chunks * epochs))
    return program


def _mean_validation(programs: Sequence[ReplicaProgram]) -> Mapping[tuple[float, float], float]:
    """Mean over the splits of the best validation score, for each (lr, weight decay)."""
    scores: dict[tuple[float, float], list[float]] = {}
    for program in programs:
        for replica, val in zip(program.replicas, program.best_val, strict=True):
            scores.setdefault((replica.lr, replica.weight_decay), []).append(val)
    return {pair: statistics.fmean(values) for pair, values in scores.items()}


def _records(
    programs: Sequence[ReplicaProgram], pair: tuple[float, float], seed: int, chosen: Mapping[str, Any]
) -> list[RunRecord]:
    """The runs of the chosen pair; this is where, once, the test part is read."""
    seconds = sum(program.seconds for program in programs) / sum(len(program.replicas) for program in programs)
    records = []
    for program in programs:
        if all((r.lr, r.weight_decay) != pair for r in program.replicas):
            continue
        val, test = program.scores("val"), program.scores("test")
        for number, replica in enumerate(program.replicas):
            if (replica.lr, replica.weight_decay) != pair:
                continue
            records.append(
                RunRecord(
                    seed,
                    replica.split,
                    {"val": val[number], "test": test[number]},
                    program.best_epoch[number],
                    program.epochs_each[number],
                    seconds,
                    program.num_parameters,
                    dict(chosen),
                )
            )
    return sorted(records, key=lambda record: record.split)
