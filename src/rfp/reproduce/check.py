"""Whether result files are what they say: key, config, choice and deviation of each, and tables made of them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rfp.reproduce.compare import compare, edges
from rfp.reproduce.render import as_csv
from rfp.reproduce.tables import TABLES
from rfp.train.halving_choice import choices, decided, recorded_runs, unfinished, unrecorded
from rfp.train.halving_plan import tried_values
from rfp.train.results import Result, by_key, read_result

# Below a folder of this name are results of tuning, which have no test score.
TUNING = "tuning"


@dataclass(frozen=True)
class Checked:
    """What was found in a folder of results.

    Args:
        num_files: Result files read.
        results: What they hold, as :func:`rfp.train.results.by_key`.
        problems: What is wrong, a line each.
        at_edge: Results whose choice is the smallest or largest value that was tried, a line each.
    """

    num_files: int
    results: Mapping[str, Result]
    problems: tuple[str, ...]
    at_edge: tuple[str, ...]


def check_results(folder: Path) -> Checked:
    """Read every result file below a folder and every table under its ``tables``, and say what does not agree."""
    seen: dict[tuple[bool, str], Result] = {}
    problems: list[str] = []
    at_edge: list[str] = []
    paths = sorted(folder.rglob("*.json"))
    for path in paths:
        result = read_result(path)
        name = path.relative_to(folder)
        tuning = TUNING in name.parts[:-1]
        problems += [f"{name}: {problem}" for problem in _problems(result, path, tuning)]
        # What was chosen in tuning is there twice: without a test score, and as the result.
        if other := seen.get((tuning, result.config.key)):
            problems.append(f"{name}: {other.file_name()} has the same config")
        seen[tuning, result.config.key] = result
        chosen = result.runs[0].values if result.runs else {}
        if found := edges(result.config, chosen):
            values = ", ".join(f"{key}={chosen[key]}" for key in found)
            at_edge.append(f"{name}: {values}")
    results = by_key(seen.values())
    problems += list(_table_problems(folder / "tables", results))
    return Checked(len(paths), results, tuple(problems), tuple(at_edge))


def _problems(result: Result, path: Path, tuning: bool) -> Iterator[str]:
    config = result.config
    if (written := json.loads(path.read_text())["key"]) != config.key:
        yield f"its key is {written}, but its config has the key {config.key}"
    if path.name != Path(result.file_name()).name or path.parent.name != Path(result.file_name()).parent.name:
        yield f"a result of this config is called {result.file_name()}"
    runs = [*result.runs, *(run for runs in result.alternatives.values() for run in runs)]
    for (seed, split), times in Counter((run.seed, run.split) for run in result.runs).items():
        if times > 1:
            yield f"seed {seed}, split {split} is there {times} times"
    for run in runs:
        where = f"seed {run.seed}, split {run.split}"
        if tuning and any(name.startswith("test") for name in run.metrics):
            yield f"{where} has a test score; results of tuning have none"
        if not tuning and "test" not in run.metrics:
            yield f"{where} has no test score; tuning belongs below a folder called {TUNING}"
        if not all(math.isfinite(value) for value in run.metrics.values()):
            yield f"{where} has a score that is not finite"
        if result.metric == "accuracy" and not all(0 <= run.metrics.get(part, 0) <= 1 for part in ("val", "test")):
            yield f"{where} has an accuracy beyond 0 to 1"
        for key, tried in tried_values(config).items():
            # What only some combinations set, the others leave out.
            if (key in config.search or key in run.values) and run.values.get(key) not in tried:
                yield f"{where} has {key}={run.values.get(key)}, which was not tried"
    yield from _choice_problems(result)


def _choice_problems(result: Result) -> Iterator[str]:
    """Whether the runs are those of the best validation score among the trials."""
    config, chosen = result.config, {str(sorted(run.values.items())) for run in result.runs}
    if not config.search or not result.runs:
        return
    if len(chosen) > 1:
        yield "its runs were made with different values"
        return
    values = result.runs[0].values
    best: Mapping[str, Any]
    if config.halving is not None:
        found = choices(config, config.halving, result.trials)
        if not found:
            yield "it has runs, but its search has no final stage"
            return
        if cut := unrecorded(result):
            yield f"it has no runs of {', '.join(cut) or 'its choice'}; the same rfp table goes on"
            return
        if unfinished(result, *(sorted({getattr(run, name) for run in result.runs}) for name in ("split", "seed"))):
            yield "its search has more to try; the same rfp table goes on"
        runs = recorded_runs(result)
        chosen_point = decided(found, runs)
        best = chosen_point.values
        if set(runs) != {point.among for point in found}:
            expected = sorted({point.among for point in found} - {chosen_point.among})
            yield f"its alternatives should be {expected}, got {sorted(result.alternatives)}"
    else:
        finished = [trial for trial in result.trials if math.isfinite(trial.val)]
        if not finished:
            yield "it has no trials to be chosen from"
            return
        top = (max if result.higher_is_better else min)(trial.val for trial in finished)
        # Of equal scores the first was taken.
        best = next(trial.values for trial in finished if trial.val == top)
    if dict(best) != dict(values):
        yield f"the best validation score is that of {dict(best)}, but {dict(values)} was run"


def _table_problems(folder: Path, results: Mapping[str, Result]) -> Iterator[str]:
    for number, spec in TABLES.items():
        path = folder / f"table-{number}.csv"
        if path.exists() and path.read_text() != as_csv(compare(spec.only(), results)):
            yield f"tables/{path.name}: not what the result files say; run: rfp table {number} --render-only"
