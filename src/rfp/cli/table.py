"""``rfp table N``: run what a table of the paper still needs, and print ours beside theirs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rfp.atomic import check_folder
from rfp.cli.options import training as options
from rfp.cli.options.device import Device
from rfp.cli.options.output import Quiet
from rfp.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from rfp.reproduce.table_job import Rendered
    from rfp.train import Workspace

Number = Annotated[
    str | None,
    typer.Argument(
        metavar="1|2|3|4|5|6|7|8|links", help="A table of the paper, 1 to 7; or ours: 8, or links for link prediction."
    ),
]
QuickSubset = Annotated[
    bool,
    typer.Option("--quick", help="A small subset, in minutes on a CPU. It is marked, and never taken for the table."),
]
Only = Annotated[
    str, typer.Option(metavar="NAME,NAME", help="Only these data sets. Files are then named table-N-part.")
]
Rows = Annotated[str, typer.Option(metavar="ROW,ROW", help="Only these methods, including those run only on request.")]
NumSeeds = Annotated[
    int | None,
    typer.Option(
        min=1, help="Seeds of every cell, instead of the table's own number. With fewer, files are named table-N-part."
    ),
]
Jobs = Annotated[int, typer.Option(min=1, help="How many cells to train at a time, each in its own process.")]
Budget = Annotated[
    float | None,
    typer.Option(
        min=1, metavar="SECONDS", help="Stop after this time. What is done is kept, and the next run continues."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be run, and stop.")]
RenderOnly = Annotated[bool, typer.Option("--render-only", help="Run nothing; render the results there are.")]
Check = Annotated[bool, typer.Option("--check", help="Run nothing; check every result file, and say where RFP stands.")]
Others = Annotated[bool, typer.Option("--others", help="Also list the paper's methods not trained here.")]
OutputFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for the .md, .csv and .png. Default: RESULTS/tables.")
]


def table(
    number: Number = None,
    quick: QuickSubset = False,
    only: Only = "",
    rows: Rows = "",
    seeds: NumSeeds = None,
    jobs: Jobs = 1,
    budget: Budget = None,
    dry_run: DryRun = False,
    render_only: RenderOnly = False,
    check: Check = False,
    others: Others = False,
    output: OutputFolder = None,
    data_root: options.DataRoot = None,
    device: Device = "auto",
    results: options.Results = Path("results"),
    checkpoints: options.Checkpoints = Path("runs"),
    as_json: options.AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table of the paper: 1 ZINC and molhiv, 2 node classification, 3 counting, 4 to 6 ablations, 7 arxiv.

    Beyond the paper: 8 is an ablation of products of the trajectory on ZINC; `links` is link prediction on six graphs
    with five splits, with scores without learning among the rows.

    Cells that have a result file are not run again, so an interrupted table continues where it stopped, and cells that
    two tables share are run once. Writes Markdown, CSV and, for ablations, pictures.

    Examples:

        rfp table 2 --dry-run

        rfp table 3 --quick

        rfp table 2 --only cora,texas --rows gcn,rfp-qr-A --data-root data --device cuda

        rfp table 2 --jobs 5 --data-root data --device cuda

        rfp table 6 --render-only --results results

        rfp table links --jobs 6 --budget 530 --device cuda

        rfp table --check
    """
    if check:
        raise typer.Exit(_print_check(results))
    folder = output or results / "tables"
    try:
        if number == "links":
            if seeds is not None or others:
                raise typer.BadParameter("--seeds and --others are for the paper's tables; links has five splits")
            made = _links_table(results, folder, quick=quick, rows=_names(rows), columns=_names(only))
        elif number is not None and number.isdecimal():
            part = {"quick": quick, "rows": _names(rows), "columns": _names(only), "num_seeds": seeds}
            made = _paper_table(int(number), results, folder, others=others, **part)
        else:
            raise typer.BadParameter("give the number of a table, 1 to 8, or links, or --check")
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    if dry_run:
        for line in made.plan():
            typer.echo(line)
        return
    failed = 0
    if not render_only:
        check_folder(folder)  # a rendering alone writes at once
        with options.workspace(
            data_root=data_root, results=results, checkpoints=checkpoints, device=device, quiet=quiet
        ) as where:
            failed = made.run(where if budget is None else replace(where, deadline=time.time() + budget), jobs)
    rendered = made.render()
    if as_json:
        typer.echo(json.dumps(rendered.values(), indent=2))
    else:
        rendered.show()
    if not rendered.paths:
        typer.echo(f"rfp: note: there is no result below {results}; nothing is written", err=True)
    for path in rendered.paths if not quiet else ():
        typer.echo(f"written to {path}", err=True)
    if failed:
        raise typer.Exit(1)


class _Rendered(NamedTuple):
    """A table of what result files hold: as plain values, as print, and the files written."""

    values: Callable[[], Any]
    show: Callable[[], None]
    paths: Sequence[Path]


class _Table(NamedTuple):
    """What can be done with a table: say what is missing, run it (returns how many cells failed), render it."""

    plan: Callable[[], list[str]]
    run: Callable[[Workspace, int], int]
    render: Callable[[], _Rendered]


def _paper_table(number: int, results: Path, folder: Path, **part: Any) -> _Table:
    from rfp.reproduce.table_job import TableJob, plan_lines, render_table, run_table

    job = TableJob.of(number, results, folder, **part)

    def render() -> _Rendered:
        rendered = render_table(job)
        return _Rendered(rendered.to_dict, partial(_show, rendered), rendered.paths)

    return _Table(partial(plan_lines, job), partial(run_table, job), render)


def _links_table(results: Path, folder: Path, *, quick: bool, rows: list[str], columns: list[str]) -> _Table:
    from rfp.reproduce.links_spec import LinkTable
    from rfp.reproduce.links_table import plan, run_links, write_links

    part = (LinkTable().as_quick() if quick else LinkTable()).only(rows, columns)

    def render() -> _Rendered:
        text, found, paths = write_links(part, results, folder)
        return _Rendered(lambda: [asdict(entry) for entry in found], partial(typer.echo, text), paths)

    return _Table(partial(plan, part, results), partial(run_links, part), render)


def _show(rendered: Rendered) -> None:
    """Print the table, its notes, and cost where it was measured."""
    from rich.console import Console
    from rich.table import Table

    from rfp.reproduce.cost_report import HEADS
    from rfp.reproduce.render import as_terminal, heading

    # Piped output has no width of its own; a table of nine data sets needs this much.
    plain = Console()
    console = plain if plain.is_terminal else Console(width=220)

    def say(line: str) -> None:
        console.print(line, markup=False, highlight=False, soft_wrap=True)

    for line in heading(rendered.table):
        say(line)
    console.print(as_terminal(rendered.table))
    for caption, lines in rendered.costs:
        say(f"Cost. {caption}")
        cost = Table(*HEADS)
        for cells in lines:
            cost.add_row(*cells)
        console.print(cost)
    for note in rendered.table.notes:
        say(f"- {note}")
    if rendered.table.environments:
        say(f"- run on: {'; '.join(rendered.table.environments)}")


def _print_check(results: Path) -> int:
    """Print what is wrong with result files, and where RFP stands; returns the exit code."""
    from rfp.reproduce.check import check_results
    from rfp.reproduce.standing import standings, standings_as_markdown

    if not results.is_dir():
        raise FileError(f"{results}: there is no such folder of results; give one with --results")
    checked = check_results(results)
    typer.echo(standings_as_markdown(standings(checked.results)))
    for line in checked.at_edge:
        typer.echo(f"at the edge of its grid: {line}")
    for line in checked.problems:
        typer.echo(f"problem: {line}", err=True)
    counts = f"{len(checked.problems)} problems, {len(checked.at_edge)} choices at an edge"
    typer.echo(f"{checked.num_files} result files, {counts}", err=True)
    return 1 if checked.problems else 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
