"""What a search by successive halving (:mod:`rfp.train.halving`) trains next.

That is a pure function of what has been tried, so a search that was cut goes on where it stopped, from the trials in
its result file. Nothing here knows a test score.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rfp.train.halving import IN_PROGRAM, Halving, Pair
from rfp.train.results import Trial
from rfp.train.run_config import RunConfig

SCREEN, LONGER, FINAL = "screen", "longer", "final"


@dataclass(frozen=True)
class HalvingStep:
    """One combination to be trained next."""

    stage: str
    values: Mapping[str, Any]
    pairs: tuple[Pair, ...]
    splits: tuple[int, ...]
    seeds: tuple[int, ...]
    epochs: int | None = None


def next_step(
    config: RunConfig, halving: Halving, trials: Sequence[Trial], *, splits: Sequence[int], seeds: Sequence[int]
) -> HalvingStep | None:
    """What is to be trained after these trials; ``None`` when the choice can be made."""
    screened = [trial for trial in trials if trial.stage == SCREEN]
    point = next(_points(config, halving, screened), None)
    if point is not None:
        pairs = tuple((lr, wd) for lr in config.search[IN_PROGRAM[0]] for wd in config.search[IN_PROGRAM[1]])
        few = tuple(splits[: halving.screen_splits])
        return HalvingStep(SCREEN, point, pairs, few, tuple(seeds[:1]), halving.screen_epochs)
    best = screened
    if halving.longer:
        longer = [trial for trial in trials if trial.stage == LONGER]
        known = {point_text(outer_values(trial.values)) for trial in longer}
        for trial in _best(screened, halving.longer, (halving.apart, *((key,) for key in halving.carried))):
            if point_text(outer_values(trial.values)) not in known:
                pairs = tuple((lr, wd) for lr, wd, _ in trial.pairs[: halving.longer_pairs])
                return HalvingStep(
                    LONGER, outer_values(trial.values), pairs, tuple(splits), tuple(seeds[:1]), halving.longer_epochs
                )
        best = longer
    known = {point_text(outer_values(trial.values)) for trial in trials if trial.stage == FINAL}
    for outer, pairs in _finalists(best, halving):
        if point_text(outer) not in known:
            return final_step(outer, pairs, splits, seeds)
    return None


def _points(config: RunConfig, halving: Halving, screened: Sequence[Trial]) -> Iterator[dict[str, Any]]:
    """What the screen may try next, the first first; the only point of a search of pairs alone has no values.

    Those that are tried ``also`` neither count for ``tries`` nor have neighbours, wherever the search was cut, unless
    they are of the search's own values.
    """
    also = tried_also(config, halving)
    apart = {point_text(point) for point in also if not _is_searched(config, point)}
    tried = {point_text(outer_values(trial.values)) for trial in screened}
    if len(tried - apart) < halving.tries:
        own = [trial for trial in screened if point_text(outer_values(trial.values)) not in apart]
        yield from (point for point in design(config, halving) if point_text(point) not in tried)
        yield from _neighbours(config, halving, own, tried)
    yield from (point for point in also if point_text(point) not in tried)


def _is_searched(config: RunConfig, point: Mapping[str, Any]) -> bool:
    """Whether all values of a combination are among those that are searched."""
    return all(value in config.search.get(key, ()) for key, value in point.items())


def tried_also(config: RunConfig, halving: Halving) -> list[dict[str, Any]]:
    """The combinations of ``halving.also``."""
    points = []
    for given in halving.also:
        searched = {key: tried for key, tried in config.search.items() if key not in IN_PROGRAM}
        axes = {**searched, **{key: (value,) for key, value in given.items()}}
        points += [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    return points


def tried_values(config: RunConfig) -> dict[str, tuple[Any, ...]]:
    """Every value that a search may try, by key: those that are searched, and those that are tried ``also``."""
    found = dict(config.search)
    for given in () if config.halving is None else config.halving.also:
        for key, value in given.items():
            found[key] = (*found.get(key, ()), *(() if value in found.get(key, ()) else (value,)))
    return found


# Fields of a plan that say which combinations are trained in which stage, and not how; the first say how many.
_HOW_MANY = ("tries", "longer", "longer_pairs", "finalists")
_WHICH = (*_HOW_MANY, "apart", "carried", "also")


def takes_up(config: RunConfig, other: RunConfig) -> bool:
    """Whether the trials of another search are such as this one would make: of no more combinations, trained alike."""
    plan, before = config.halving, other.halving
    if plan is None or before is None:
        return False
    more = any(getattr(before, name) > getattr(plan, name) for name in _HOW_MANY)
    if more or not all(one in plan.also for one in before.also):
        return False
    if replace(before, **{name: getattr(plan, name) for name in _WHICH}) != plan:
        return False
    return replace(other, halving=None).key == replace(config, halving=None).key


def design(config: RunConfig, halving: Halving) -> list[dict[str, Any]]:
    """Combinations in which every value of a key comes up equally often, but for one time more or less.

    The order of a key's values depends on the key and its values alone, so methods that share keys share the design.
    """
    axes = {key: tried for key, tried in config.search.items() if key not in IN_PROGRAM}
    free = {key: tried for key, tried in axes.items() if key not in halving.held and len(tried) > 1}
    base = {key: tried[0] for key, tried in axes.items()}
    wanted = min(halving.designed, halving.tries, math.prod(len(tried) for tried in free.values()))
    points: dict[str, dict[str, Any]] = {}
    for turn in range(50):  # combinations that come up twice are drawn again
        columns = {}
        for key, tried in free.items():
            column = [tried[i % len(tried)] for i in range(wanted)]
            random.Random(f"{halving.seed} {turn} {key} {tried}").shuffle(column)
            columns[key] = column
        for i in range(wanted):
            point = {**base, **{key: column[i] for key, column in columns.items()}}
            points.setdefault(point_text(point), point)
            if len(points) == wanted:
                return list(points.values())
    return list(points.values())


def _neighbours(
    config: RunConfig, halving: Halving, screened: Sequence[Trial], tried: set[str]
) -> Iterator[dict[str, Any]]:
    """Untried combinations one key away from the best so far, then from the second best, ..."""
    axes = {key: tried for key, tried in config.search.items() if key not in IN_PROGRAM and len(tried) > 1}
    keys = list(axes)
    random.Random(halving.seed).shuffle(keys)
    for trial in sorted(screened, key=_order):
        outer = outer_values(trial.values)
        for key in keys:
            for value in _beside(axes[key], outer[key]):
                point = {**outer, key: value}
                if point_text(point) not in tried:
                    yield point


def _beside(values: Sequence[Any], value: Any) -> list[Any]:
    """The next smaller and larger of ordered values; all others of values without an order."""
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return [other for other in values if other != value]
    ordered = sorted(values)
    at = ordered.index(value)
    return [ordered[i] for i in (at + 1, at - 1) if 0 <= i < len(ordered)]


def _finalists(trials: Sequence[Trial], halving: Halving) -> list[tuple[dict[str, Any], tuple[Pair, ...]]]:
    """The best points by combination: those of one are trained together."""
    points = [(val, (lr, wd), trial) for trial in trials if not trial.refused for lr, wd, val in trial.pairs]
    points.sort(key=lambda point: -point[0])
    taken = points[: halving.finalists]
    for among in dict.fromkeys(apart_text(halving, trial.values) for trial in trials):
        same = [point for point in points if apart_text(halving, point[2].values) == among]
        if same and not any(apart_text(halving, point[2].values) == among for point in taken):
            taken.append(same[0])
    grouped: dict[str, tuple[dict[str, Any], tuple[Pair, ...]]] = {}
    for _, pair, trial in taken:
        outer = outer_values(trial.values)
        grouped[point_text(outer)] = (outer, (*grouped.get(point_text(outer), (outer, ()))[1], pair))
    return list(grouped.values())


def _best(trials: Sequence[Trial], count: int, groups: Sequence[Sequence[str]]) -> list[Trial]:
    """The best few, and the best of each joint value of each group of keys that none of them has."""

    def value(trial: Trial, keys: Sequence[str]) -> list[Any]:
        return [trial.values.get(key) for key in keys]

    ordered = [trial for trial in sorted(trials, key=_order) if not trial.refused]
    taken = ordered[:count]
    for trial in ordered[count:]:
        if any(all(value(trial, keys) != value(other, keys) for other in taken) for keys in groups):
            taken.append(trial)
    return taken


def final_step(
    outer: Mapping[str, Any], pairs: tuple[Pair, ...], splits: Sequence[int], seeds: Sequence[int]
) -> HalvingStep:
    """A combination at full length, on all splits and seeds."""
    return HalvingStep(FINAL, outer, pairs, tuple(splits), tuple(seeds))


def apart_text(halving: Halving, values: Mapping[str, Any]) -> str:
    """``"KEY=VALUE"``, or several, of the keys of ``apart`` that a combination has."""
    return ", ".join(f"{key}={values[key]}" for key in halving.apart if key in values)


def _order(trial: Trial) -> float:
    return math.inf if trial.refused else -trial.val


def outer_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Those that need a program of their own."""
    return {key: value for key, value in values.items() if key not in IN_PROGRAM}


def point_text(values: Mapping[str, Any]) -> str:
    """The same for equal values, in any order."""
    return repr(sorted(values.items()))
