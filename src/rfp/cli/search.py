"""``rfp search``: find the best values of a config on validation, then train and test them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rfp.cli import train_options as options
from rfp.errors import ArgumentError


def search(
    config: options.ConfigOrName,
    sets: options.Sets = None,
    grid: Annotated[str, typer.Option(metavar="config|paper", help="The config's own search, or section A.1's.")] = (
        "config"
    ),
    trials: Annotated[int | None, typer.Option(min=1, help="Points in all. Default: the whole grid if small.")] = None,
    sampler: Annotated[
        str, typer.Option(metavar="auto|grid|tpe", help="In order, or learning from the last.")
    ] = "auto",
    prune: Annotated[bool, typer.Option("--prune", help="End trials that are worse than the median.")] = False,
    seeds: options.Seeds = 1,
    splits: options.Splits = None,
    data_root: options.DataRoot = None,
    device: options.Device = "auto",
    results: options.Results = Path("results"),
    checkpoints: options.Checkpoints = Path("runs"),
    resume: options.Resume = True,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Search a config's values on validation, then train and test the best ones.

    What is searched is the config's `search`, a list of values by dotted key. Node tasks on one graph train the whole
    grid of (lr, weight decay) and all splits together; graph tasks try one point after the other with Optuna. A search
    that was cut goes on where it stopped. No test score is computed before the choice is made.

    Examples:

        rfp search examples/configs/karate.yaml

        rfp search counting-generated --set "search.training.lr=[1e-3, 1e-2]" --set training.epochs=2

        rfp search zinc --grid paper --trials 30 --prune --data-root data
    """
    from rfp.cli.search_setup import trial_lines, with_grid
    from rfp.cli.train_report import report_lines
    from rfp.cli.train_setup import place, read_target
    from rfp.train import run
    from rfp.train.search import SearchSettings

    wanted = with_grid(read_target(config, sets), grid)
    try:
        settings = SearchSettings(trials, sampler, prune)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    with place(data_root=data_root, results=results, checkpoints=checkpoints, device=device, quiet=quiet) as where:
        result = run(
            wanted, seeds=range(seeds), splits=splits or None, place=where, resume=resume, search_settings=settings
        )
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
        return
    for line in [*trial_lines(result), *report_lines(result, results)]:
        typer.echo(line)
