"""``rfp train``: from a config, or the name of a data set, to a result file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rfp.cli.options import training as options
from rfp.cli.options.device import Device
from rfp.cli.options.output import Quiet


def train(
    config: options.ConfigOrName,
    sets: options.Sets = None,
    seeds: options.Seeds = 1,
    splits: options.Splits = None,
    data_root: options.DataRoot = None,
    device: Device = "auto",
    num_devices: options.NumDevices = 1,
    results: options.Results = Path("results"),
    checkpoints: options.Checkpoints = Path("runs"),
    resume: options.Resume = True,
    test: Annotated[
        bool, typer.Option("--test/--no-test", help="Compute the test score. Use --no-test while you tune values.")
    ] = True,
    as_json: options.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a model and write its result file.

    Finished runs are taken from the result file, and interrupted ones continue from their checkpoint. The model is
    chosen on validation; the test score is computed once. Your own data goes into the config: see
    docs/guides/experiments.md.

    Examples:

        rfp train counting-generated --set training.epochs=2 --set model.num_layers=2

        rfp train texas --data-root data --seeds 3

        rfp train texas --data-root data --set training.lr=3e-2 --no-test --results results/tuning

        rfp train examples/configs/karate.yaml --set training.lr=0.02 --json
    """
    from rfp.train import run
    from rfp.train.results import report_lines

    wanted = options.read_target(config, sets)
    with options.workspace(
        data_root=data_root,
        results=results,
        checkpoints=checkpoints,
        device=device,
        num_devices=num_devices,
        quiet=quiet,
    ) as where:
        result = run(wanted, seeds=range(seeds), splits=splits or None, workspace=where, resume=resume, test=test)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=2))
        return
    for line in report_lines(result, results):
        typer.echo(line)
