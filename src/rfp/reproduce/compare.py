"""A table of ours beside the paper's: a pure function of result files and ``paper.csv``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rfp.data.metrics import METRICS
from rfp.reproduce.paper import PaperNumber, find, paper_numbers
from rfp.reproduce.spec import Cell, TableSpec
from rfp.train.halving import IN_PROGRAM
from rfp.train.halving_choice import score_by_one_draw
from rfp.train.results import Result, RunRecord
from rfp.train.run_config import RunConfig

# Marks of a cell, explained below the table.
EARLIER, PRODUCTS, DEEP = "°", "ᵖ", "ⁱ"
# Metrics between 0 and 1 that papers print in percent.
_PERCENT = ("accuracy", "roc_auc", "average_precision")


@dataclass(frozen=True)
class Ours:
    """Runs of one cell, in the units of the paper.

    Args:
        mean: Over seeds and splits.
        std: Sample deviation; NaN for one run.
        val: Mean validation score.
        num_runs: How many there are, of how many ``wanted``.
        wanted: Runs of a complete cell.
        num_seeds: Seeds among them.
        values: What a search chose, if all runs chose the same.
        key: Key of the config.
        edges: Searched keys whose chosen value is the smallest or largest that was tried.
        earlier: Whether it is a result of another config of that name, shown until there is one of the table's own.
        linear: The best result with the paper's linear K_embed, where the choice fell on products.
        plain: The best result with a GCN or a perceptron as backbone, where the choice fell on GCNII.
        scores: Scores of each run, by seed and split.
        luck: How much higher the mean validation score by one draw was, whose best epochs were taken, than ``val``,
            for which predictions are averaged over draws; ``None`` where no search tells.
    """

    mean: float
    std: float
    val: float
    num_runs: int
    wanted: int
    num_seeds: int
    values: Mapping[str, Any]
    key: str
    edges: tuple[str, ...] = ()
    earlier: bool = False
    linear: Ours | None = None
    plain: Ours | None = None
    scores: Mapping[tuple[int, int], float] = field(default_factory=dict)
    luck: float | None = None

    @property
    def by_products(self) -> bool:
        """Whether validation chose products of the trajectory in place of the paper's linear K_embed."""
        return _by_products(self.values)

    @property
    def by_gcnii(self) -> bool:
        """Whether validation chose GCNII in place of the paper's backbones."""
        return _by_gcnii(self.values)

    @property
    def marks(self) -> str:
        """Of how it came about, explained below the table."""
        marks = {EARLIER: self.earlier, PRODUCTS: self.by_products, DEEP: self.by_gcnii}
        return "".join(mark for mark, holds in marks.items() if holds)

    @property
    def beside(self) -> dict[str, Ours]:
        """Results nearer to the paper that stand beside it, by what they are."""
        return {
            name: other for name, other in (("linear", self.linear), ("without GCNII", self.plain)) if other is not None
        }


def _by_products(values: Mapping[str, Any]) -> bool:
    return bool(values.get("model.embed", "linear") != "linear")


def _by_gcnii(values: Mapping[str, Any]) -> bool:
    return bool(values.get("model.backbone") == "gcnii")


@dataclass(frozen=True)
class Entry:
    """One cell of the table."""

    row: str
    column: str
    metric: str
    ours: Ours | None = None
    paper: PaperNumber | None = None
    best: bool = False
    paper_best: bool = False

    @property
    def higher_is_better(self) -> bool:
        return METRICS[self.metric].higher_is_better

    @property
    def decimals(self) -> int:
        return 2 if self.metric in _PERCENT else 4

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None or self.paper is None else self.ours.mean - self.paper.mean

    @property
    def reached(self) -> bool | None:
        """Whether ours, rounded as the paper is, is at least as good."""
        if self.difference is None:
            return None
        rounded = round(self.difference, self.decimals)
        return rounded >= 0 if self.higher_is_better else rounded <= 0


@dataclass(frozen=True)
class Comparison:
    """A table ready to be rendered.

    Args:
        spec: Its rows and columns.
        labels: Labels of the rows, those of other methods included.
        entries: By row and column.
        notes: To be printed below.
        environments: What it was run on.
    """

    spec: TableSpec
    labels: Mapping[str, str]
    entries: Mapping[tuple[str, str], Entry]
    notes: tuple[str, ...]
    environments: tuple[str, ...]


def compare(
    spec: TableSpec, results: Mapping[str, Result], *, num_seeds: int | None = None, others: bool = False
) -> Comparison:
    """Put results beside the paper's numbers.

    Args:
        spec: The table.
        results: By the key of the config; those of other configs do not matter.
        num_seeds: As in :meth:`~rfp.reproduce.spec.TableSpec.cells`.
        others: Whether to list the paper's methods that are not trained here, too.
    """
    labels = {row.id: row.label for row in spec.rows}
    if others:
        printed = [n for n in paper_numbers() if n.table == spec.number and n.metric in METRICS]
        labels = {**{n.row: n.label for n in printed if n.row not in labels}, **labels}
    cells = {(cell.row.id, cell.column.id): cell for cell in spec.cells(num_seeds)}
    tested = (r for r in results.values() if any("test" in run.metrics for run in r.runs))
    # Of several earlier ones that with the most runs.
    named = {(r.dataset, r.config.name): r for r in sorted(tested, key=lambda r: len(r.runs))}
    in_paper = {row.id: row.printed for row in spec.rows}
    entries, used = {}, []
    for row in labels:
        for column in spec.columns:
            cell = cells.get((row, column.id))
            result = results.get(cell.config.key) if cell else None
            if cell is not None and (result is None or not result.runs):
                result = named.get((column.dataset, cell.config.name))
            ours = _ours(cell, result, column.metric) if cell and result else None
            if result is not None and ours is not None:
                used.append(result)
            # A quick run is never set against the paper's number.
            paper = None if spec.is_quick else find(spec.number, in_paper.get(row, row), column.id, column.metric)
            entries[row, column.id] = Entry(row, column.id, column.metric, ours, paper)
    for column in spec.columns:
        _mark_best(entries, [entries[row, column.id] for row in labels])
    return Comparison(spec, labels, entries, _notes(spec, entries.values(), used), _environments(used))


def _ours(cell: Cell, result: Result, metric: str) -> Ours | None:
    found = _measured(cell, result, result.runs, metric)
    if found is None:
        return None
    others = [one for runs in result.alternatives.values() if (one := _measured(cell, result, runs, metric))]

    def best_without(beyond: Callable[[Mapping[str, Any]], bool]) -> Ours | None:
        without = [one for one in others if not beyond(one.values)] if beyond(found.values) else []
        # Accuracies are all that is searched with alternatives.
        return max(without, key=lambda one: one.val, default=None)

    return replace(found, linear=best_without(_by_products), plain=best_without(_by_gcnii))


def _measured(cell: Cell, result: Result, all_runs: Sequence[RunRecord], metric: str) -> Ours | None:
    wanted = set(cell.runs)
    runs = tuple(run for run in all_runs if (run.seed, run.split) in wanted and "test" in run.metrics)
    if not runs:
        return None
    earlier = result.config.key != cell.config.key
    kept = replace(result, runs=runs)
    scale = 100.0 if metric in _PERCENT else 1.0
    mean, std = kept.mean_std("test")
    values = runs[0].values if all(run.values == runs[0].values for run in runs) else {}
    val = kept.mean_std("val")[0]
    by_one_draw = score_by_one_draw(result, runs)
    return Ours(
        mean=scale * mean,
        std=scale * std,
        val=scale * val,
        num_runs=len(runs),
        wanted=len(wanted) if not earlier else len(runs),
        num_seeds=len({run.seed for run in runs}),
        values=values,
        key=result.config.key,
        edges=edges(result.config, values),
        earlier=earlier,
        scores={(run.seed, run.split): scale * run.metrics["test"] for run in runs},
        luck=None if by_one_draw is None else scale * (by_one_draw - val),
    )


def edges(config: RunConfig, values: Mapping[str, Any]) -> tuple[str, ...]:
    """Searched keys whose chosen value is the smallest or largest of an ordered range; below 0 there is none.

    Two values of a width or a dropout are an alternative; two of a learning rate are a range that was cut short.

    Example:
        >>> config = RunConfig.from_dict({"data": "cora", "search": {"training.weight_decay": [0, 0.1, 1]}})
        >>> edges(config, {"training.weight_decay": 1}), edges(config, {"training.weight_decay": 0})
        (('training.weight_decay',), ())
    """
    found = []
    for key, tried in config.search.items():
        ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in tried)
        is_range = len(tried) > (1 if key in IN_PROGRAM else 2)
        if ordered and is_range and values.get(key) in (min(tried), max(tried)) and values[key] != 0:
            found.append(key)
    return tuple(found)


def _mark_best(entries: dict[tuple[str, str], Entry], column: list[Entry]) -> None:
    ours = {entry.row: entry.ours.mean for entry in column if entry.ours is not None}
    theirs = {entry.row: entry.paper.mean for entry in column if entry.paper is not None}
    best = max if column and column[0].higher_is_better else min
    for entry in column:
        entries[entry.row, entry.column] = replace(
            entry,
            best=len(ours) > 1 and entry.row in ours and ours[entry.row] == best(ours.values()),
            paper_best=len(theirs) > 1 and entry.row in theirs and theirs[entry.row] == best(theirs.values()),
        )


def _notes(spec: TableSpec, entries: Iterable[Entry], used: list[Result]) -> tuple[str, ...]:
    notes = [*spec.notes, *(note for result in used for note in result.notes)]
    shared: dict[tuple[str, str], list[str]] = {}
    entries = list(entries)
    mine = [(entry, entry.ours) for entry in entries if entry.ours is not None]
    if any(ours.earlier for _, ours in mine):
        notes.append(f"{EARLIER} from an earlier, smaller search; not rerun yet")
    if any(ours.by_products for _, ours in mine):
        notes.append(
            f"{PRODUCTS} validation chose products of the trajectory as K_embed, which goes beyond the paper; the "
            "number after it is the best result with the paper's linear K_embed, also chosen by validation"
        )
    if any(ours.by_gcnii for _, ours in mine):
        notes.append(
            f"{DEEP} validation chose GCNII (see its row) as the backbone, which goes beyond the paper; the number "
            "after it is the best result with a GCN or a perceptron, also chosen by validation"
        )
    notes += _edge_notes([(entry, ours) for entry, ours in mine if ours.values and not ours.earlier])
    for entry in entries:
        if entry.paper is not None and entry.paper.note:
            shared.setdefault((entry.row, entry.paper.note), []).append(entry.column)
        if entry.ours is not None and entry.ours.num_runs < entry.ours.wanted:
            done = f"{entry.ours.num_runs} of {entry.ours.wanted} runs"
            notes.append(f"{entry.row} on {entry.column} is not complete: {done}")
        if entry.ours is not None and not math.isfinite(entry.ours.mean):
            notes.append(f"{entry.row} on {entry.column}: a score that is not finite")
    notes += [f"paper, {row} ({', '.join(columns)}): {note}" for (row, note), columns in shared.items()]
    return tuple(dict.fromkeys(notes))


# Up to so many cells with a choice at the edge of their grid are named below a table.
_NAMED_EDGES = 6


def _edge_notes(searched: list[tuple[Entry, Ours]]) -> list[str]:
    """Cells at the edge of their grid by name or, if they are many, how often which value was chosen there."""
    at_edge = [(entry, ours) for entry, ours in searched if ours.edges]
    if not at_edge:
        return []
    what = "chosen at the edge of the grid"
    if len(at_edge) <= _NAMED_EDGES:
        named = (f"{entry.row} on {entry.column} ({', '.join(ours.edges)})" for entry, ours in at_edge)
        return [f"{what}: {'; '.join(named)}"]
    chosen = Counter(f"{key}={ours.values[key]}" for _, ours in at_edge for key in ours.edges)
    often = ", ".join(f"{value} in {number}" for value, number in chosen.most_common())
    return [f"{what}, of {len(searched)} cells that were searched: {often}; the table's CSV file names them"]


def _environments(used: list[Result]) -> tuple[str, ...]:
    seen = {f"{r.environment.get('device', 'unknown device')}, torch {r.environment.get('torch', '?')}" for r in used}
    return tuple(sorted(seen))
