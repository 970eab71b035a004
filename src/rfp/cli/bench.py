"""``rfp bench``: measure on this machine, with peers in the same run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rfp.errors import ArgumentError, unknown_choice


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(help="Cases to run: large, small, batch, scaling, walks, large10, huge. Default: all."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    data_root: Annotated[Path | None, typer.Option(help="Folder of raw data sets.", envvar="RFP_DATA")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the result file.")] = Path("bench-results"),
    plot: Annotated[Path | None, typer.Option(help="Also draw the results to this picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON on stdout.")] = False,
) -> None:
    """Measure encodings and their peers; correctness is checked before any speed is reported.

    Writes `<output>/<machine>.csv` with the environment. Cases that need what is not here are skipped by name.

    Example: `rfp bench scaling -o bench-results --plot scaling.png`
    """
    import torch

    from rfp.bench import runner
    from rfp.bench.cases import CASES

    for name in cases or []:
        if name not in CASES:
            raise unknown_choice("case", name, CASES)
    if device == "cuda" and not torch.cuda.is_available():
        raise ArgumentError("device cuda is not available on this machine; use --device cpu")
    rows, facts = runner.run_cases(
        cases or list(CASES),
        device,
        data_root,
        say=lambda line: typer.echo(line, err=True),
        keep=lambda rows, facts: runner.write(rows, facts, output, device),
    )
    path = runner.write(rows, facts, output, device)
    typer.echo(f"written to {path}", err=True)
    if (slope := runner.slope(rows)) is not None:
        typer.echo(f"log-log slope of time against edges: {slope:.3f}", err=True)
    if plot is not None:
        from rfp.viz.benchmark import plot as draw

        typer.echo(f"drawn to {draw(path, plot)}", err=True)
    if as_json:
        typer.echo(json.dumps({"environment": facts, "rows": [row.__dict__ for row in rows]}, indent=2))
    if any(row.name == runner.STOPPED for row in rows):
        raise typer.Exit(1)
