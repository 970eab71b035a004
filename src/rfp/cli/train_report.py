"""A result for people."""

from __future__ import annotations

import math
from pathlib import Path

from rfp.train import Result

_PERCENT = ("accuracy", "roc_auc", "average_precision")


def report_lines(result: Result, folder: Path) -> list[str]:
    """The scores, what a search chose, the cost, the notes, and where the file is."""
    seeds, splits = {run.seed for run in result.runs}, {run.split for run in result.runs}
    counted = [_count(len(result.runs), "run"), _count(len(seeds), "seed"), _count(len(splits), "split")]
    lines = [
        f"{result.dataset} {result.config.name}".strip(),
        f"  test {result.metric} {score(result, 'test')}, validation {score(result, 'val')} ({', '.join(counted)})",
    ]
    chosen = [run.values for run in result.runs if run.values]
    if chosen and all(values == chosen[0] for values in chosen):
        lines.append("  chosen on validation: " + ", ".join(f"{key}={value}" for key, value in chosen[0].items()))
    if result.runs:
        epochs = sorted(run.epochs for run in result.runs)
        seconds = sum(run.seconds for run in result.runs)
        size = max(run.num_parameters for run in result.runs)
        lines.append(f"  {size:,} parameters, {epochs[0]} to {epochs[-1]} epochs, {seconds:.1f} s in all")
    lines += [f"  note: {note}" for note in result.notes]
    return [*lines, f"  {folder / result.file_name()}"]


def score(result: Result, part: str) -> str:
    """Mean and deviation of a score, in percent where that is usual."""
    mean, std = result.mean_std(part)
    percent = result.metric in _PERCENT
    scale, decimals, unit = (100, 2, " %") if percent else (1, 4, "")
    spread = f" ± {scale * std:.{decimals}f}" if math.isfinite(std) else ""
    return f"{scale * mean:.{decimals}f}{spread}{unit}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
