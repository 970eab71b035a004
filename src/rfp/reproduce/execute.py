"""Run what a table still needs; what fails does not keep the rest from running."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean

from rfp.data import DATASETS
from rfp.errors import FileError, RFPError
from rfp.nn.levels import GRAPH
from rfp.reproduce.spec import Cell, Column
from rfp.train.halving_choice import unfinished
from rfp.train.results import Result
from rfp.train.run_config import RunConfig
from rfp.train.workspace import OutOfTime

RunCell = Callable[[RunConfig, Sequence[int], Sequence[int]], Result]
"""From a config, seeds and splits to a result; skips what its result file has."""


class NoRoomError(RFPError):
    """A cell found too little memory beside the others."""


@dataclass(frozen=True)
class Failure:
    """A cell that could not be run.

    Args:
        cell: Which.
        reason: One line.
        expected: Whether it is only data that most people do not have.
    """

    cell: Cell
    reason: str
    expected: bool


def missing_runs(cell: Cell, results: Mapping[str, Result]) -> list[tuple[int, int]]:
    """(seed, split) of the runs of a cell that no result has; where all are there, all of a search that is not done."""
    result = results.get(cell.config.key)
    if result is None:
        return cell.runs
    missing = [run for run in cell.runs if not result.has(*run, tested=True)]
    return cell.runs if not missing and unfinished(result, cell.splits, cell.seeds) else missing


def run_missing(
    cells: Iterable[Cell],
    results: Mapping[str, Result],
    run: RunCell,
    say: Callable[[str], None],
    *,
    jobs: int = 1,
    run_alone: RunCell | None = None,
) -> tuple[dict[str, Result], list[Failure]]:
    """Run the cells that are not complete, in order; when the time is used up, those that are left wait for next time.

    A cell that finds too little memory beside others is tried again when they are done, by itself.

    Args:
        cells: Cells of a table.
        results: What there is, by the key of the config.
        run: Trains; it also writes the result file, run by run, so that a kill loses little.
        say: Gets a line for each cell.
        jobs: How many cells at a time; ``run`` is then called from as many threads.
        run_alone: For a cell that has the machine to itself, if it should have more than ``run`` gives it.

    Returns:
        All results, and what failed. Errors of this library are gathered; others pass through.
    """
    waiting = [cell for cell in cells if missing_runs(cell, results)]
    known = dict(results)
    failures: list[Failure] = []
    left: list[Cell] = []
    crowded: list[tuple[int, Cell]] = []

    def run_one(number: int, cell: Cell, *, alone: bool = jobs == 1) -> None:
        label = f"[{number}/{len(waiting)}] {cell.column.id} {cell.row.id}{_of_seed(cell, waiting)}"
        if without := _missing_data(cell.column, failures):
            failures.append(Failure(cell, without.reason, without.expected))
            return
        if left:
            left.append(cell)
            return
        start = time.perf_counter()
        try:
            result = (run_alone or run if alone else run)(cell.config, cell.seeds, cell.splits)
        except OutOfTime:
            left.append(cell)
            return
        except RFPError as error:
            if isinstance(error, NoRoomError) and not alone:
                crowded.append((number, cell))
                say(f"{label}: too little memory beside the others; tried again after them")
                return
            reason = " ".join(str(error).split())
            failure = Failure(cell, reason, isinstance(error, FileError) and not cell.column.needed)
            failures.append(failure)
            say(f"{label}: {'left out' if failure.expected else 'failed'}: {reason}")
            return
        known[cell.config.key] = result
        own = set(cell.runs)  # a cell of one seed: the file holds those of others too
        mean = fmean(done.metrics["val"] for done in result.runs if (done.seed, done.split) in own)
        say(f"{label}: validation {result.metric} {mean:.4f}, {time.perf_counter() - start:.0f} s")

    if jobs == 1:  # in this thread, which signals reach
        for number, cell in enumerate(waiting, start=1):
            run_one(number, cell)
        _say_left(left, say)
        return known, failures
    with ThreadPoolExecutor(jobs) as pool:
        started = [pool.submit(run_one, number, cell) for number, cell in enumerate(waiting, start=1)]
        try:
            for one in started:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for number, cell in crowded:
        run_one(number, cell, alone=True)
    _say_left(left, say)
    return known, failures


def apart_by_seed(cells: Iterable[Cell], results: Mapping[str, Result]) -> list[Cell]:
    """Cells cut into one for each missing seed where seeds train one after the other and nothing is chosen first.

    The replicas of a node task train all seeds at once; of a search the first seed finds the values of the others.
    """
    found: list[Cell] = []
    for cell in cells:
        result = results.get(cell.config.key)
        chosen = not cell.config.search or (result is not None and bool(result.runs))
        if DATASETS[cell.column.dataset].task.level is not GRAPH or not chosen:
            found.append(cell)
        else:
            seeds = sorted({seed for seed, _ in missing_runs(cell, results)})
            found += [replace(cell, seeds=(seed,)) for seed in seeds]
    return found


def _of_seed(cell: Cell, cells: Iterable[Cell]) -> str:
    """Which of the cells of one config this is."""
    return f", seed {cell.seeds[0]}" if sum(other.config == cell.config for other in cells) > 1 else ""


def _say_left(left: Sequence[Cell], say: Callable[[str], None]) -> None:
    if left:
        say(f"the time is used up: {len(left)} cells are not complete; what was done is kept, the same command goes on")


def dearest_last(cells: Iterable[Cell]) -> list[Cell]:
    """The order in which a table is run: RFP before baselines, small graphs and cheap models before the others."""

    def cost(cell: Cell) -> tuple[bool, float]:
        encodings = cell.config.model.get("encodings", ())
        nodes = DATASETS[cell.column.dataset].sizes.get("nodes", 0)
        trajectories = max([1, *(e.get("num_trajectories", 1) for e in encodings)])
        learned = any("learned" in e.get("operators", ()) for e in encodings)
        # A learned operator joins all pairs of nodes: as dear as 500 times the rest where there are 5,000 of them.
        return not cell.row.id.startswith("rfp"), nodes * (trajectories + (nodes / 10 if learned else 0))

    return sorted(cells, key=cost)


def _missing_data(column: Column, failures: Iterable[Failure]) -> Failure | None:
    """A failure that says that the data of this column cannot be had: it is not looked for again."""
    return next((f for f in failures if f.cell.column.id == column.id and f.expected), None)
