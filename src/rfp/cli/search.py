"""``rfp search``: find the best values of a config on validation, then train and test them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rfp.cli.options import training as options
from rfp.cli.options.device import Device
from rfp.cli.options.output import Quiet
from rfp.errors import ArgumentError

if TYPE_CHECKING:
    from rfp.train import Result, RunConfig

GRIDS = ("config", "paper")
# Trials that are printed.
_SHOWN = 10


def search(
    config: options.ConfigOrName,
    sets: options.Sets = None,
    grid: Annotated[
        str, typer.Option(metavar="config|paper", help="The config's own search, or that of the paper's section A.1.")
    ] = ("config"),
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many points to try. Default: the whole grid if it is small, else 50.")
    ] = None,
    sampler: Annotated[
        str, typer.Option(metavar="auto|grid|tpe", help="grid: in order. tpe: learning from those tried.")
    ] = "auto",
    prune: Annotated[
        bool, typer.Option("--prune", help="End trials that are worse than the median at the same epoch.")
    ] = False,
    seeds: options.Seeds = 1,
    splits: options.Splits = None,
    data_root: options.DataRoot = None,
    device: Device = "auto",
    results: options.Results = Path("results"),
    checkpoints: options.Checkpoints = Path("runs"),
    resume: options.Resume = True,
    as_json: options.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Search a config's values on validation, then train and test the best ones.

    The config's `search` lists the values to try, by dotted key. Node tasks on one graph train the whole grid of (lr,
    weight decay) and all splits together; graph tasks try one point after the other with Optuna. No test score is
    computed before the choice is made. An interrupted search continues where it stopped.

    Examples:

        rfp search examples/configs/karate.yaml

        rfp search counting-generated --set "search.training.lr=[1e-3, 1e-2]" --set training.epochs=2

        rfp search zinc --grid paper --trials 30 --prune --data-root data
    """
    from rfp.train import run
    from rfp.train.results import report_lines
    from rfp.train.search import SearchSettings

    wanted = _with_grid(options.read_target(config, sets), grid)
    try:
        settings = SearchSettings(trials, sampler, prune)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    with options.workspace(
        data_root=data_root, results=results, checkpoints=checkpoints, device=device, quiet=quiet
    ) as where:
        result = run(
            wanted, seeds=range(seeds), splits=splits or None, workspace=where, resume=resume, search_settings=settings
        )
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
        return
    for line in [*_trial_lines(result), *report_lines(result, results)]:
        typer.echo(line)


def _with_grid(config: RunConfig, grid: str) -> RunConfig:
    """The config with what is searched: its own lists of values, or those of section A.1."""
    if grid not in GRIDS:
        raise typer.BadParameter(f"--grid must be {' or '.join(GRIDS)}, got {grid!r}")
    if grid == "paper":
        from rfp.train.search import paper_grid

        encodings = config.model.get("encodings", [{"name": "rfp"}])
        config = config.with_values({"model.encodings": list(encodings)})
        return replace(config, search=paper_grid(config))
    if not config.search:
        raise typer.BadParameter(
            "the config has no search; add one to it, or --set 'search.training.lr=[0.001, 0.01]', or --grid paper"
        )
    return config


def _trial_lines(result: Result) -> list[str]:
    """The best trials, best first."""
    tried = [trial for trial in result.trials if math.isfinite(trial.val)]
    best = sorted(tried, key=lambda trial: trial.val, reverse=result.higher_is_better)
    lines = [f"{len(result.trials)} points tried; the best by validation {result.metric}:"] if tried else []
    for trial in best[:_SHOWN]:
        values = ", ".join(f"{key}={value}" for key, value in trial.values.items())
        lines.append(f"  {trial.val:.4f}  {values}")
    return lines
