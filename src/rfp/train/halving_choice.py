"""What a search by halving has chosen: from its trials, and from the runs of what they say is best.

Nothing here knows a test score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from rfp.train.halving import IN_PROGRAM, Halving, Pair
from rfp.train.halving_plan import FINAL, apart_text, next_step, outer_values, point_text
from rfp.train.results import Result, RunRecord, Trial
from rfp.train.run_config import RunConfig


@dataclass(frozen=True)
class Chosen:
    """Values chosen by validation.

    Args:
        values: Values of every searched key.
        val: Their mean validation score in the final stage.
        among: ``"KEY=VALUE"``, or several, of the values of ``apart`` that it is the best of; empty if nothing is kept
            apart, or if it has none of the keys.
    """

    values: Mapping[str, Any]
    val: float
    among: str = ""

    @property
    def pair(self) -> Pair:
        lr, decay = (self.values[key] for key in IN_PROGRAM)
        return lr, decay

    def made(self, runs: Sequence[RunRecord]) -> bool:
        """Whether these are its runs, and not of values that were chosen before more was tried."""
        return bool(runs) and all(run.values == self.values for run in runs)


def choices(config: RunConfig, halving: Halving, trials: Sequence[Trial]) -> list[Chosen]:
    """The best by mean validation score of the final stage: of every value of ``apart``, or of all; the best first."""
    points = []
    for trial in trials:
        if trial.stage == FINAL and not trial.refused:
            for lr, wd, val in trial.pairs:
                found = {**trial.values, **dict(zip(IN_PROGRAM, (lr, wd), strict=True))}
                points.append(Chosen({key: found[key] for key in (*config.search, *_beyond(config, found))}, val))
    points.sort(key=lambda point: -point.val)
    best: dict[str, Chosen] = {}
    for point in points:
        among = apart_text(halving, point.values)
        best.setdefault(among, replace(point, among=among))
    return list(best.values())


def _beyond(config: RunConfig, values: Mapping[str, Any]) -> list[str]:
    """Keys of a combination that are not searched."""
    return [key for key in values if key not in config.search]


def decided(found: Sequence[Chosen], runs: Mapping[str, Sequence[RunRecord]]) -> Chosen:
    """Which of some choices it is: that whose runs have the best mean validation score.

    While it is trained a run is judged by one draw of the random features, and the best of its epochs is lucky: the
    more so the more a model reads of them. The scores of runs are of what will be tested, predictions averaged over
    draws.
    """
    return max(found, key=lambda point: fmean(run.metrics["val"] for run in runs[point.among]))


def score_by_one_draw(result: Result, runs: Sequence[RunRecord]) -> float | None:
    """What the final stage says of the values of these runs; ``None`` if it did not train them."""
    pair = tuple(runs[0].values.get(key) for key in IN_PROGRAM)
    point = point_text(outer_values(runs[0].values))
    for trial in result.trials:
        if trial.stage == FINAL and point_text(outer_values(trial.values)) == point:
            found = [val for lr, wd, val in trial.pairs if (lr, wd) == pair]
            if found:
                return found[0]
    return None


def recorded_runs(result: Result) -> dict[str, tuple[RunRecord, ...]]:
    """The runs of a result's choice and of its alternatives, by ``among`` of :class:`Chosen`."""
    halving = result.config.halving
    own = {apart_text(halving, result.runs[0].values): result.runs} if halving is not None and result.runs else {}
    return {**result.alternatives, **own}


def unrecorded(result: Result) -> list[str]:
    """Choices whose runs are not there (a cut has left them out), as ``among`` of :class:`Chosen` names them."""
    config = result.config
    if config.halving is None or not result.runs:
        return []
    there = recorded_runs(result)
    found = choices(config, config.halving, result.trials)
    return [point.among for point in found if not point.made(there.get(point.among, ()))]


def unfinished(result: Result, splits: Sequence[int], seeds: Sequence[int]) -> bool:
    """Whether a search that has runs lacks some of its choices, or has more to try."""
    config = result.config
    if config.halving is None or not result.runs or not result.trials:
        return False
    more = next_step(config, config.halving, result.trials, splits=splits, seeds=seeds)
    return more is not None or bool(unrecorded(result))
