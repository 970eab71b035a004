"""``rfp bench``: measure on this machine, with peers in the same run."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rfp.cli.options.device import Device
from rfp.errors import check_names

if TYPE_CHECKING:
    from rfp.bench.result_file import BenchRow

# The keys of rfp.bench.cases.CASES, which takes long to load: an unknown name is refused before.
NAMES = (
    "large",
    "small",
    "batch",
    "scaling",
    "walks",
    "links",
    "links-arxiv",
    "start",
    "loop",
    "training",
    "products",
    "large10",
    "huge",
)


def _known_cases(cases: list[str] | None) -> list[str] | None:
    if cases != ["partitioned"]:
        check_names("case", cases or (), NAMES)
    return cases


def bench(
    cases: Annotated[
        list[str] | None,
        typer.Argument(
            callback=_known_cases,
            help=f"Cases to run: {', '.join(NAMES)} (default: all of these); or partitioned, alone.",
        ),
    ] = None,
    device: Device = "auto",
    data_root: Annotated[Path | None, typer.Option(help="Folder of raw data sets.", envvar="RFP_DATA")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the result file.")] = Path("bench-results"),
    plot: Annotated[Path | None, typer.Option(help="Also draw the results to this picture.")] = None,
    only: Annotated[
        str, typer.Option(help="Besides ours, time only contenders with this text in their name, e.g. pycleora.")
    ] = "",
    compare: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="An older result file. Say what became slower or faster; exit code 1 if anything is slower.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON on stdout.")] = False,
    largest: Annotated[
        float, typer.Option(min=1e5, help="For partitioned: non-zeros of the largest graph. 1e9 takes hours and 60 GB.")
    ] = 1e6,
    folder: Annotated[Path, typer.Option(help="For partitioned: where to write edges and row blocks.")] = Path(
        "bench-partitioned"
    ),
) -> None:
    """Measure encodings and their peers. Correctness is checked before any speed is reported.

    Writes `<output>/<machine>.csv` with the environment, case by case. Rows of a case that is not complete are in
    `<machine>-cut.csv`. Cases that need something missing on this machine are skipped by name. A row is repeated until
    its times agree; one whose times never agree is called noisy.

    Example: `rfp bench scaling -o bench-results --plot scaling.png`, and after a change
    `rfp bench scaling -o after --compare bench-results/<machine>.csv`
    """
    from rfp.atomic import check_folder

    check_folder(output)
    if cases == ["partitioned"]:
        check_folder(folder)
        bench_partitioned(int(largest), folder, output, plot, as_json=as_json)
        return
    from rfp.bench import result_file
    from rfp.environment import find_device

    past = None if compare is None else (result_file.read_rows(compare), result_file.machine(compare))
    rows, facts, path = _measured(cases or list(NAMES), find_device(device).type, data_root, output, only)
    typer.echo(f"written to {path}", err=True)
    if (slope := result_file.scaling_slope(rows)) is not None:
        typer.echo(f"log-log slope of time against edges, from 10^6 on: {slope:.3f}", err=True)
    if plot is not None:
        from rfp.viz.benchmark import plot_benchmark

        typer.echo(f"drawn to {plot_benchmark(path, plot)}", err=True)
    if as_json:
        typer.echo(json.dumps({"environment": facts, "rows": [row.__dict__ for row in rows]}, indent=2))
    slower = _compared(*past, rows, facts["device"]) if past is not None else False
    if slower or any(row.name == result_file.STOPPED for row in rows):
        raise typer.Exit(1)


def _measured(
    cases: list[str], device: str, data_root: Path | None, output: Path, only: str
) -> tuple[list[BenchRow], dict[str, str], Path]:
    """Run cases; each is in the result file when it is complete, and its rows in another one before."""
    from rfp.bench import result_file, runner
    from rfp.cli.main import Interrupted

    write = partial(result_file.write_rows, folder=output, device=device, keep_others=bool(only))
    begun: list[Path] = []  # by the case at hand

    def keep(rows: list[BenchRow], facts: dict[str, str]) -> None:
        write(rows, facts)
        begun.clear()

    try:
        rows, facts = runner.run_cases(
            cases,
            device,
            data_root,
            say=lambda line: typer.echo(line, err=True),
            keep=keep,
            only=only,
            under_way=lambda rows, facts: begun.append(result_file.write_under_way(rows, facts, output, device)),
        )
    except Interrupted as error:
        error.kept = "cases that are complete are kept"
        if begun:
            error.kept += f", rows of the last one in {begun[-1]}"
        raise
    return rows, facts, write(rows, facts)


def _compared(old: list[BenchRow], machine: str, new: list[BenchRow], here: str) -> bool:
    """Say what changed since an older file; whether something is slower."""
    from rfp.bench.result_file import changes

    if machine != here:
        typer.echo(f"the older file is of another machine ({machine}): ratios are compared, not times", err=True)
    slower, faster = changes(old, new, same_machine=machine == here)
    for word, lines in (("slower", slower), ("faster", faster)):
        for line in lines:
            typer.echo(f"{word}: {line}", err=True)
    if not slower:
        typer.echo("nothing became slower", err=True)
    return bool(slower)


def bench_partitioned(largest: int, folder: Path, output: Path, picture: Path | None, *, as_json: bool) -> None:
    """Graphs larger than memory, each in processes of its own; goes on where it was cut."""
    from rfp.bench import partitioned, partitioned_report

    rows = partitioned.measure_partitioned(largest, folder, output, say=lambda line: typer.echo(line, err=True))
    if (found := partitioned_report.growth_slope(rows)) is not None:
        typer.echo(f"log-log slope of time against non-zeros: {found:.3f}", err=True)
    if picture is not None:
        partitioned_report.plot_growth(rows, picture)
        typer.echo(f"drawn to {picture}", err=True)
    if as_json:
        typer.echo(json.dumps([row.__dict__ for row in rows], indent=2))
