"""A comparison as Markdown, CSV, and a table for the terminal."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from rfp.reproduce.compare import Comparison, Entry, Ours

MISSING = "–"
CSV_COLUMNS = (
    *("table", "row", "label", "dataset", "metric", "mean", "std", "num_runs", "num_seeds", "val_mean"),
    *("paper_mean", "paper_std", "difference", "reached", "best", "values", "config", "paper_note"),
    *("edges", "earlier", "linear_mean", "linear_std", "plain_mean", "plain_std"),
)


def as_markdown(table: Comparison) -> str:
    """A table in GitHub's Markdown: ours · the paper's · difference; the best of ours in bold."""
    spec = table.spec
    lines = [f"## {_title(table)}", "", _legend(table), ""]
    heads = [f"{column.label} {_arrow(table, column.id)}" for column in spec.columns]
    lines += [f"| Method | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for row, label in table.labels.items():
        cells = [_markdown_cell(table.entries[row, column.id]) for column in spec.columns]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    if table.notes or table.environments:
        lines.append("")
    lines += [f"- {note}" for note in table.notes]
    lines += [f"- run on: {'; '.join(table.environments)}"] if table.environments else []
    return "\n".join(lines) + "\n"


def as_csv(table: Comparison) -> str:
    """One line for each cell, everything unrounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for entry in table.entries.values():
        if entry.ours is not None or entry.paper is not None:
            writer.writerow(_record(table, entry))
    return text.getvalue()


def as_records(table: Comparison) -> list[dict[str, Any]]:
    """The lines of :func:`as_csv` as plain values, for JSON."""
    entries = [entry for entry in table.entries.values() if entry.ours is not None or entry.paper is not None]
    return [_record(table, entry) for entry in entries]


def heading(table: Comparison) -> list[str]:
    """What the table is, and how its cells are read."""
    return [_title(table), _legend(table)]


def as_terminal(table: Comparison) -> Any:
    """A rich table with two lines a cell: ours, and below it the paper's with the difference."""
    from rich.table import Table

    out = Table(show_lines=True)
    out.add_column("Method", overflow="fold", min_width=12)
    for column in table.spec.columns:
        out.add_column(f"{column.label} {_arrow(table, column.id)}", justify="right", no_wrap=True)
    for row, label in table.labels.items():
        out.add_row(label, *(_terminal_cell(table.entries[row, column.id]) for column in table.spec.columns))
    return out


def _title(table: Comparison) -> str:
    return f"Table {table.spec.number}: {table.spec.title}"


def _legend(table: Comparison) -> str:
    if table.spec.is_quick:
        return "ours: mean ± deviation (number of runs); quick subset, not set against the paper"
    return "ours: mean ± deviation over seeds and splits (number of runs) · the paper's · difference"


def _arrow(table: Comparison, column: str) -> str:
    entry = next(entry for (_, name), entry in table.entries.items() if name == column)
    return "↑" if entry.higher_is_better else "↓"


def _mean_std(ours: Ours, decimals: int) -> str:
    spread = f" ± {ours.std:.{decimals}f}" if math.isfinite(ours.std) else ""
    return f"{ours.mean:.{decimals}f}{spread}"


def _paper(entry: Entry) -> str:
    return MISSING if entry.paper is None else f"{entry.paper.mean:.{entry.decimals}f}"


def _difference(entry: Entry) -> str:
    if entry.difference is None:
        return MISSING
    text = f"{entry.difference:+.{entry.decimals}f}"
    return text.replace("-", "−")


def _runs(ours: Ours) -> str:
    return f"({ours.num_runs}{'' if ours.num_runs == ours.wanted else f' of {ours.wanted}'}){ours.marks}"


def _beside(ours: Ours, decimals: int) -> str:
    """The best results with what the paper has, where something beyond it was chosen."""
    return "".join(f", {name} {_mean_std(other, decimals)}" for name, other in ours.beside.items())


def _markdown_cell(entry: Entry) -> str:
    if entry.ours is None and entry.paper is None:
        return MISSING
    ours = MISSING
    if entry.ours is not None:
        number = _mean_std(entry.ours, entry.decimals)
        ours = f"{f'**{number}**' if entry.best else number} {_runs(entry.ours)}"
        ours += _beside(entry.ours, entry.decimals)
    return ours if entry.paper is None else f"{ours} · {_paper(entry)} · {_difference(entry)}"


def _terminal_cell(entry: Entry) -> str:
    if entry.ours is None and entry.paper is None:
        return MISSING
    first = MISSING
    if entry.ours is not None:
        first = f"{_mean_std(entry.ours, entry.decimals)} {_runs(entry.ours)}"
        first = f"[bold]{first}[/bold]" if entry.best else first
        first += _beside(entry.ours, entry.decimals).replace(", ", "\n")
    if entry.paper is None:
        return first
    second = f"[dim]{_paper(entry)}[/dim]"
    if entry.difference is not None:
        second += f" [{'green' if entry.reached else 'yellow'}]{_difference(entry)}[/]"
    return f"{first}\n{second}"


def _record(table: Comparison, entry: Entry) -> dict[str, Any]:
    ours, paper = entry.ours, entry.paper
    return {
        "table": table.spec.name.removeprefix("table-"),
        "row": entry.row,
        "label": table.labels[entry.row],
        "dataset": entry.column,
        "metric": entry.metric,
        "mean": None if ours is None else ours.mean,
        "std": None if ours is None or math.isnan(ours.std) else ours.std,
        "num_runs": 0 if ours is None else ours.num_runs,
        "num_seeds": 0 if ours is None else ours.num_seeds,
        "val_mean": None if ours is None else ours.val,
        "paper_mean": None if paper is None else paper.mean,
        "paper_std": None if paper is None else paper.std,
        "difference": entry.difference,
        "reached": entry.reached,
        "best": entry.best,
        "values": json.dumps(dict(ours.values)) if ours is not None and ours.values else "",
        "config": "" if ours is None else ours.key,
        "paper_note": "" if paper is None else paper.note,
        "edges": "" if ours is None else " ".join(ours.edges),
        "earlier": None if ours is None else ours.earlier,
        "linear_mean": None if ours is None or ours.linear is None else ours.linear.mean,
        "linear_std": None if ours is None or ours.linear is None else ours.linear.std,
        "plain_mean": None if ours is None or ours.plain is None else ours.plain.mean,
        "plain_std": None if ours is None or ours.plain is None else ours.plain.std,
    }
