"""The grid and the report of ``rfp search``."""

from __future__ import annotations

import math
from dataclasses import replace

import typer

from rfp.train import Result, RunConfig
from rfp.train.search import paper_grid

GRIDS = ("config", "paper")
_SHOWN = 10


def with_grid(config: RunConfig, grid: str) -> RunConfig:
    """The config with what is searched: its own lists of values, or those of section A.1."""
    if grid not in GRIDS:
        raise typer.BadParameter(f"--grid must be {' or '.join(GRIDS)}, got {grid!r}")
    if grid == "paper":
        encodings = config.model.get("encodings", [{"name": "rfp"}])
        config = config.with_values({"model.encodings": list(encodings)})
        return replace(config, search=paper_grid(config))
    if not config.search:
        raise typer.BadParameter(
            "the config has no search; add one to it, or --set 'search.training.lr=[0.001, 0.01]', or --grid paper"
        )
    return config


def trial_lines(result: Result) -> list[str]:
    """The best trials, best first."""
    tried = [trial for trial in result.trials if math.isfinite(trial.val)]
    best = sorted(tried, key=lambda trial: trial.val, reverse=result.higher_is_better)
    lines = [f"{len(result.trials)} points tried; the best by validation {result.metric}:"] if tried else []
    for trial in best[:_SHOWN]:
        values = ", ".join(f"{key}={value}" for key, value in trial.values.items())
        lines.append(f"  {trial.val:.4f}  {values}")
    return lines
