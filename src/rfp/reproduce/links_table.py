"""The link prediction table: what is missing is run, what result files hold is rendered."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from rfp.atomic import atomic_files
from rfp.errors import FileError
from rfp.reproduce.execute import missing_runs
from rfp.reproduce.links_heuristics import missing_heuristics, read_heuristics, run_heuristics
from rfp.reproduce.links_spec import LinkColumn, LinkTable
from rfp.reproduce.workers import run_cells
from rfp.train import Result, RunConfig, Workspace, read_results, run

_METRIC_NAMES = {"mrr": "MRR, hard negatives", "roc_auc": "AUC", "hits@50": "Hits@50", "hits@100": "Hits@100"}
_NOTES = (
    "edges are split 85/5/10 at random, five times; validation and test edges are in no graph that a method sees, and "
    "the edges of a training batch not in the graph of that batch",
    "Hits@K and AUC are against as many uniform non-edges as there are test edges, MRR against up to 500 hard "
    "negatives of each edge, which share one of its nodes and, as far as there are any, neighbours (in the manner of "
    "HeaRT)",
    "values and epochs are chosen on validation, by Hits@100 on the citation graphs and by AUC on the others (Hits@50 "
    "of their few validation edges is 1 for many models)",
    "USAir, Celegans and Yeast have no node features: a constant for all methods, the identity for the autoencoder",
)


@dataclass(frozen=True)
class LinkEntry:
    """One number: a method, a graph, a metric; in percent.

    Args:
        row: Id of the method.
        column: Id of the graph.
        metric: Name.
        mean: Over splits.
        std: Sample deviation; NaN for one run.
        num_runs: Splits among them.
        wanted: How many there are to be.
        val: Mean on validation, NaN where it was not computed.
        values: What was chosen.
        device: What it was trained on; nothing for scores without learning.
    """

    row: str
    column: str
    metric: str
    mean: float
    std: float
    num_runs: int
    wanted: int
    val: float
    values: str = ""
    device: str = ""


def plan(table: LinkTable, results: Path) -> list[str]:
    """What is done and what would be run, a line for each cell."""
    known = read_results(results)
    lines, waiting = [], 0
    for column in table.columns:
        missing = missing_heuristics(read_heuristics(results, column.id), table.heuristics, table.num_splits)
        state = f"to compute: {len(missing)}" if missing else "done"
        lines.append(f"{column.id:10s} {'without learning':18s}           {state}")
    for cell in table.cells():
        missing_here = len(missing_runs(cell, known))
        waiting += missing_here
        state = "done" if not missing_here else f"to run: {missing_here} of {len(cell.runs)}"
        lines.append(f"{cell.column.id:10s} {cell.row.id:18s} {cell.config.key[:8]}  {state}")
    return [*lines, f"{len(lines)} lines, {waiting} runs to do"]


def run_links(table: LinkTable, workspace: Workspace, jobs: int = 1) -> int:
    """Compute and train what is missing; returns the number of cells that failed."""
    assert workspace.results is not None
    device = workspace.torch_device().type  # raises at once if there is none
    failed = 0
    for column in table.columns:
        try:
            run_heuristics(
                column,
                table.heuristics,
                table.num_splits,
                workspace.results,
                data_root=workspace.data_root,
                say=workspace.say,
            )
        except FileError as error:
            workspace.say(f"failed: {column.id}, scores without learning: {' '.join(str(error).split())}")
            failed += 1

    def train(config: RunConfig, seeds: Sequence[int], splits: Sequence[int]) -> Result:
        return run(config, seeds=seeds, splits=splits, workspace=workspace)

    failures = run_cells(table.cells(), workspace.results, train, workspace, jobs)
    for failure in failures:
        workspace.say(f"failed on {device}: {failure.cell.column.id} {failure.cell.row.id}: {failure.reason}")
    return failed + len(failures)


def entries(table: LinkTable, results: Path) -> list[LinkEntry]:
    """All numbers that result files hold, both metrics of each graph."""
    known = read_results(results)
    found: list[LinkEntry] = []
    for column in table.columns:
        scores = [one for one in read_heuristics(results, column.id) if one.split < table.num_splits]
        for metric in column.metrics:
            for name in table.heuristics:
                mine = [one for one in scores if one.score == name and one.metric == metric]
                betas = sorted({one.beta for one in mine})
                values = f"beta={','.join(f'{beta:g}' for beta in betas)}" if name == "katz" else ""
                found += _entry(
                    name, column, metric, table.num_splits, [o.test for o in mine], [o.val for o in mine], values
                )
    for cell in table.cells():
        column = next(column for column in table.columns if column.id == cell.column.id)
        result = known.get(cell.config.key)
        runs = [] if result is None else [run for run in result.runs if f"test_{column.metrics[0]}" in run.metrics]
        for metric in column.metrics:
            tested, val = ([run.metrics[f"{part}_{metric}"] for run in runs] for part in ("test", "val"))
            chosen = dict(runs[0].values) if runs else {}
            device = "; ".join(sorted({run.device for run in runs}))
            found += _entry(cell.row.id, column, metric, len(cell.runs), tested, val, _text(chosen), device)
    return found


def _text(values: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in values.items())


def _entry(
    row: str,
    column: LinkColumn,
    metric: str,
    wanted: int,
    test: list[float],
    val: list[float],
    values: str,
    device: str = "",
) -> list[LinkEntry]:
    if not test:
        return []
    std = 100 * statistics.stdev(test) if len(test) > 1 else math.nan
    mean, of_val = (100 * statistics.fmean(scores) for scores in (test, val))
    return [LinkEntry(row, column.id, metric, mean, std, len(test), wanted, of_val, values, device)]


def links_as_markdown(table: LinkTable, found: Sequence[LinkEntry]) -> str:
    """The table in GitHub's Markdown; the best of ours in bold; below it numbers of other papers."""
    by_place = {(entry.row, entry.column, entry.metric): entry for entry in found}
    heads = [(column, metric) for column in table.columns for metric in column.metrics]
    title = "Link prediction (%)" + (" (quick subset, not the table)" if table.quick else "")
    lines = [f"## {title}", "", "mean ± deviation over splits (number of runs); the best in bold", ""]
    lines.append("| Method | " + " | ".join(f"{c.label}, {_METRIC_NAMES[m]}" for c, m in heads) + " |")
    lines.append("|---|" + "---|" * len(heads))
    best = {
        place: max((e.mean for e in found if (e.column, e.metric) == place), default=math.nan)
        for place in ((column.id, metric) for column, metric in heads)
    }
    for row, label in table.labels.items():
        here = [(by_place.get((row, column.id, metric)), best[column.id, metric]) for column, metric in heads]
        cells = ["–" if entry is None else _cell(entry, entry.mean == top) for entry, top in here]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    if not table.quick:
        lines += ["", *_other_papers(table)]
    lines += ["", *(f"- {note}" for note in _NOTES)]
    trained = {(entry.row, entry.column) for entry in found}
    waiting = sorted({cell.column.id for cell in table.cells() if (cell.row.id, cell.column.id) not in trained})
    if waiting:
        lines.append(f"- – is not trained yet, on {', '.join(waiting)}; `rfp table links --dry-run` lists what is left")
    devices = sorted({entry.device for entry in found} - {""})
    lines += [f"- trained on: {'; '.join(devices)}"] if devices else []
    return "\n".join(lines) + "\n"


def _cell(entry: LinkEntry, best: bool) -> str:
    spread = f" ± {entry.std:.1f}" if math.isfinite(entry.std) else ""
    number = f"{entry.mean:.1f}{spread}"
    runs = f"{entry.num_runs}" if entry.num_runs == entry.wanted else f"{entry.num_runs} of {entry.wanted}"
    return f"{f'**{number}**' if best else number} ({runs})"


def _other_papers(table: LinkTable) -> list[str]:
    """Numbers of other papers, by the paper that printed them: other splits, so they are no rows of the table."""
    text = files("rfp.reproduce").joinpath("links_paper.csv").read_text(encoding="utf-8")
    printed = list(csv.DictReader(text.splitlines()))
    shown = [column for column in table.columns if any(line["dataset"] == column.id for line in printed)]
    if not shown:
        return []
    lines = ["Printed in other papers, **under another split**:", ""]
    lines += ["| | " + " | ".join(column.label for column in shown) + " |", "|---|" + "---|" * len(shown)]
    kinds = list(dict.fromkeys((line["source"], line["label"], line["metric"]) for line in printed))
    for source, label, metric in kinds:
        same = [line for line in printed if (line["source"], line["label"], line["metric"]) == (source, label, metric)]
        means = {line["dataset"]: line["mean"] for line in same}
        cells = [means.get(column.id, "–") for column in shown]
        lines.append(f"| {label}, {_METRIC_NAMES[metric]} (paper of {source}) | {' | '.join(cells)} |")
    return lines


def links_as_csv(found: Iterable[LinkEntry]) -> str:
    """One line for each number, unrounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(LinkEntry)], lineterminator="\n")
    writer.writeheader()
    for entry in found:
        plain = asdict(entry)
        writer.writerow({name: "" if isinstance(v, float) and math.isnan(v) else v for name, v in plain.items()})
    return text.getvalue()


def write_links(table: LinkTable, results: Path, output: Path) -> tuple[str, list[LinkEntry], list[Path]]:
    """Render what there is; returns the Markdown, the numbers and the files written (none without any result)."""
    if not results.is_dir():
        raise FileError(f"{results}: no such folder of results; correct --results, or run what is missing")
    found = entries(table, results)
    text = links_as_markdown(table, found)
    if not found:
        return text, found, []
    output.mkdir(parents=True, exist_ok=True)
    texts = {output / f"{table.name}.md": text, output / f"{table.name}.csv": links_as_csv(found)}
    with atomic_files(list(texts)) as open_files:
        for file, content in zip(open_files, texts.values(), strict=True):
            file.write(content.encode())
    return text, found, list(texts)
