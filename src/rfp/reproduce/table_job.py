"""A table of the paper from its plan to its files: what is missing is run, what result files hold is rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rfp.atomic import atomic_files
from rfp.errors import ArgumentError, FileError, RFPError, is_out_of_memory
from rfp.reproduce.compare import Comparison, compare
from rfp.reproduce.cost import QUICK_SIZE, CostSize, measure_cost
from rfp.reproduce.cost_report import (
    COST_FOLDER,
    HEADS,
    cost_caption,
    cost_file,
    cost_lines,
    cost_markdown,
    read_cost,
    write_cost,
)
from rfp.reproduce.execute import missing_runs
from rfp.reproduce.render import as_csv, as_markdown, as_records
from rfp.reproduce.spec import TableSpec
from rfp.reproduce.tables import TABLES
from rfp.reproduce.workers import run_cells
from rfp.train import Result, RunConfig, Workspace, read_results, run
from rfp.viz.ablation import Curve, plot_ablation


@dataclass(frozen=True)
class TableJob:
    """A table to be made.

    Args:
        spec: Which, with its rows and columns.
        results: Folder of result files.
        output: Folder for the rendered files.
        num_seeds: Seeds of every cell, or what the table says.
        others: Whether other methods of the paper are listed.
    """

    spec: TableSpec
    results: Path
    output: Path
    num_seeds: int | None = None
    others: bool = False

    @classmethod
    def of(
        cls,
        number: int,
        results: Path,
        output: Path,
        *,
        quick: bool = False,
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
        num_seeds: int | None = None,
        others: bool = False,
    ) -> TableJob:
        """A table by its number, or a part of it; with fewer seeds than it has, it is a part too.

        Raises:
            ArgumentError: There is no such table, row or column.
        """
        if number not in TABLES:
            raise ArgumentError(f"the tables are 1 to {max(TABLES)}, got {number}")
        spec = (TABLES[number].as_quick() if quick else TABLES[number]).only(rows, columns)
        fewer = num_seeds is not None and any(len(cell.seeds) > num_seeds for cell in spec.cells())
        return cls(replace(spec, is_part=spec.is_part or fewer), results, output, num_seeds, others)

    @property
    def measures_cost(self) -> bool:
        return self.spec.number == 7


@dataclass(frozen=True)
class Rendered:
    """A table that was rendered.

    Args:
        table: Ours beside the paper's.
        costs: Measurements of cost, by file: Markdown aside, their lines and caption.
        paths: Files written.
    """

    table: Comparison
    costs: tuple[tuple[str, list[list[str]]], ...]
    paths: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        costs = [
            {"measured": caption, "rows": [dict(zip(HEADS, line, strict=True)) for line in lines]}
            for caption, lines in self.costs
        ]
        return {
            "table": self.table.spec.name.removeprefix("table-"),
            "title": self.table.spec.title,
            "cells": as_records(self.table),
            "cost": costs,
            "notes": list(self.table.notes),
            "files": [str(path) for path in self.paths],
        }


def plan_lines(job: TableJob) -> list[str]:
    """What is done and what would be run, a line for each cell."""
    known = read_results(job.results)
    lines, waiting = [], 0
    for cell in job.spec.cells(job.num_seeds):
        missing = len(missing_runs(cell, known))
        waiting += missing
        state = "done" if not missing else f"to run: {missing} of {len(cell.runs)}"
        lines.append(f"{cell.column.id:26s} {cell.row.id:24s} {cell.config.key[:8]}  {state}")
    if job.measures_cost:
        lines.append(f"cost of {_size(job.spec).num_nodes:,} nodes: measured where this machine has no file yet")
    return [*lines, f"{len(lines)} cells, {waiting} runs to do"]


def run_table(job: TableJob, workspace: Workspace, jobs: int = 1) -> int:
    """Run what is missing, ``jobs`` cells at a time; returns the number of cells that failed."""
    device = workspace.torch_device().type  # raises at once if there is none
    job.results.mkdir(parents=True, exist_ok=True)
    if job.measures_cost:
        _measure(job, device, workspace)

    def train(config: RunConfig, seeds: Sequence[int], splits: Sequence[int]) -> Result:
        try:
            return run(config, seeds=seeds, splits=splits, workspace=workspace)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RFPError) or not is_out_of_memory(error):
                raise
            raise ArgumentError(
                f"out of memory on {device}; lower the sizes in rfp.reproduce.hyperparameters"
            ) from error

    failures = run_cells(job.spec.cells(job.num_seeds), job.results, train, workspace, jobs)
    for failure in (failure for failure in failures if not failure.expected):
        workspace.say(f"failed: {failure.cell.column.id} {failure.cell.row.id}: {failure.reason}")
    return sum(not failure.expected for failure in failures)


def _size(spec: TableSpec) -> CostSize:
    return QUICK_SIZE if spec.is_quick else CostSize()


def _measure(job: TableJob, device: str, workspace: Workspace) -> None:
    path = cost_file(job.results, device, quick=job.spec.is_quick)
    if path.exists():
        workspace.say(f"cost: measured before, see {path}; remove it to measure again")
        return
    size = _size(job.spec)
    write_cost(measure_cost(device, size, workspace.say), size, device, path)


def render_table(job: TableJob) -> Rendered:
    """Render what result files hold, and write it; without a single result the paper's numbers are shown alone."""
    if not job.results.is_dir():
        raise FileError(f"{job.results}: no such folder of results; correct --results, or train what is missing")
    known = read_results(job.results)
    comparison = compare(job.spec, known, num_seeds=job.num_seeds, others=job.others)
    costs, below = [], ""
    for path in sorted((job.results / COST_FOLDER).glob("*.csv")) if job.measures_cost else []:
        if path.stem.endswith("-quick") == job.spec.is_quick:
            rows, facts = read_cost(path)
            below += cost_markdown(rows, facts, with_paper=not job.spec.is_quick)
            costs.append((cost_caption(facts), cost_lines(rows, with_paper=not job.spec.is_quick)))
    if not known and not costs:
        return Rendered(comparison, (), ())
    paths = [*write_table(comparison, job.output, below=below), *_pictures(comparison, job.output)]
    return Rendered(comparison, tuple(costs), tuple(paths))


def write_table(table: Comparison, folder: Path, *, below: str = "") -> list[Path]:
    """Write ``table-N.md`` and ``table-N.csv``, or ``table-N-quick`` or ``table-N-part`` of both.

    Args:
        table: What to write.
        folder: Made if it is not there.
        below: Further Markdown.

    Returns:
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = table.spec.name
    texts = {folder / f"{name}.md": as_markdown(table) + below, folder / f"{name}.csv": as_csv(table)}
    with atomic_files(list(texts)) as open_files:
        for file, text in zip(open_files, texts.values(), strict=True):
            file.write(text.encode())
    return list(texts)


def _pictures(table: Comparison, folder: Path) -> list[Path]:
    pictures = []
    for letter in table.spec.sweeps:
        # A point with nothing beside it tells nothing.
        drawn = [curve for curve in curves(table, letter) if curve.ours and len(curve.ours + curve.paper) > 1]
        if not drawn:
            continue
        picture = folder / f"{table.spec.name}-{letter}.png"
        with atomic_files([picture]) as (file,):
            plot_ablation(drawn, file, letter=letter, title=f"Table {table.spec.number}: {table.spec.title}")
        pictures.append(picture)
    return pictures


def curves(table: Comparison, letter: str) -> list[Curve]:
    """The curve of each data set over the values of k or P; without points where nothing was run."""
    rows = table.spec.sweeps[letter]
    found = []
    for column in table.spec.columns:
        entries = {v: table.entries[row, column.id] for v, row in rows.items() if (row, column.id) in table.entries}
        ours = tuple((v, e.ours.mean, e.ours.std) for v, e in entries.items() if e.ours is not None)
        paper = tuple((v, e.paper.mean) for v, e in entries.items() if e.paper is not None)
        higher = next(iter(entries.values())).higher_is_better if entries else True
        found.append(Curve(column.label, higher, ours, paper))
    return found
