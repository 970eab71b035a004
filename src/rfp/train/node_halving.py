"""Successive halving of node tasks: runs :mod:`rfp.train.halving_plan`, then tests what was chosen."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rfp.errors import ArgumentError, NumericalError
from rfp.train.halving import IN_PROGRAM, Halving
from rfp.train.halving_choice import choices, decided
from rfp.train.halving_plan import FINAL, HalvingStep, final_step, next_step, outer_values, point_text, tried_also
from rfp.train.node_grid import NodeTrainer, mean_validation
from rfp.train.results import RunRecord, Trial
from rfp.train.run_config import RunConfig
from rfp.train.trained_replicas import TrainedReplica


@dataclass(frozen=True)
class Halved:
    """The runs of the chosen values, which they are, all trials, and the runs of the others.

    ``chosen`` and the keys of ``alternatives`` are the ``among`` of :class:`~rfp.train.halving_choice.Chosen`.
    """

    runs: list[RunRecord]
    chosen: str
    trials: list[Trial]
    alternatives: dict[str, tuple[RunRecord, ...]] = field(default_factory=dict)


def halve(
    trainer: NodeTrainer,
    halving: Halving,
    *,
    seeds: Sequence[int],
    splits: Sequence[int],
    trials: Sequence[Trial] = (),
    recorded: Mapping[str, Sequence[RunRecord]] | None = None,
    save: Callable[[Sequence[Trial]], None] = lambda trials: None,
    record: Callable[[str, Sequence[RunRecord]], None] = lambda among, runs: None,
    say: Callable[[str], None] = lambda line: None,
) -> Halved:
    """Search, choose by validation, and test the chosen alone.

    Args:
        trainer: Whose config has a search over lr, weight decay and other keys.
        halving: How to search.
        seeds: Seeds of the final stage; the others take the first.
        splits: All splits of the final stage.
        trials: What has been tried before.
        recorded: Runs of choices that were trained before, by ``among`` of :class:`~rfp.train.halving_choice.Chosen`;
            those of values that are not chosen any more are left out.
        save: Gets all trials after each one that is new.
        record: Gets the runs of each choice that is new, as soon as they are known.
        say: Gets a line for each stage, and for each combination that is left out.
    """
    config = trainer.config
    done = list(trials)
    kept: dict[str, list[TrainedReplica]] = {}  # replicas of the points that would be chosen now
    stage = ""
    while (step := next_step(config, halving, done, splits=splits, seeds=seeds)) is not None:
        if step.stage != stage:
            stage = step.stage
            say(f"{stage}: {_progress(config, halving, done)}")
        what = f"{trainer.loaded.task.name} {config.name} {stage} {sum(t.stage == stage for t in done) + 1}"
        trial, trained = _tried(trainer, step, what)
        if trial.refused:
            say(f"{dict(step.values)} left out: {trial.refused}")
        done.append(trial)
        save(done)
        if stage == FINAL:
            kept[point_text(outer_values(trial.values))] = trained
            leading = {point_text(outer_values(point.values)) for point in choices(config, halving, done)}
            kept = {values: trained for values, trained in kept.items() if values in leading}
    found = choices(config, halving, done)
    if not found:
        reasons = [trial.refused for trial in done if trial.refused]
        raise ArgumentError(f"no combination of the search could be trained; the last: {reasons[-1]}")
    records = {among: list(runs) for among, runs in (recorded or {}).items()}
    # First what is trained already: a cut in what follows does not lose it.
    for point in sorted(found, key=lambda point: point_text(outer_values(point.values)) not in kept):
        if point.made(records.get(point.among, ())):
            continue
        outer = outer_values(point.values)
        if point_text(outer) not in kept:  # trained before a cut: found there, or trained to the same weights again
            step = final_step(outer, (point.pair,), splits, seeds)
            _, kept[point_text(outer)] = _tried(trainer, step, f"{trainer.loaded.task.name} {config.name} chosen")
        records[point.among] = trainer.records(kept[point_text(outer)], point.pair, point.values)
        record(point.among, records[point.among])
    chosen = decided(found, records)
    others = {point.among: tuple(records[point.among]) for point in found if point is not chosen}
    return Halved(records[chosen.among], chosen.among, done, others)


def _tried(trainer: NodeTrainer, step: HalvingStep, what: str) -> tuple[Trial, list[TrainedReplica]]:
    start = time.perf_counter()
    num_runs, epochs = len(step.splits) * len(step.seeds), step.epochs or 0
    try:
        trained = trainer.train(
            step.values, pairs=step.pairs, splits=step.splits, seeds=step.seeds, epochs=step.epochs, what=what
        )
        scores = sorted(((*pair, val) for pair, val in mean_validation(trained).items()), key=lambda p: -p[2])
    except (ArgumentError, NumericalError) as error:
        pair = dict(zip(IN_PROGRAM, step.pairs[0], strict=True))
        refused = str(error).splitlines()[0]
        return Trial({**step.values, **pair}, math.nan, num_runs, step.stage, epochs, refused=refused), []
    values = {**step.values, **dict(zip(IN_PROGRAM, scores[0][:2], strict=True))}
    seconds = round(time.perf_counter() - start, 2)
    return Trial(values, scores[0][2], num_runs, step.stage, epochs, tuple(scores), seconds), trained


def _progress(config: RunConfig, halving: Halving, done: Sequence[Trial]) -> str:
    if not done:
        return f"at most {halving.tries + len(tried_also(config, halving))} combinations to try"
    best = max((trial.val for trial in done if not trial.refused), default=math.nan)
    return f"{len(done)} trials so far, the best validation score is {best:.4f}"
