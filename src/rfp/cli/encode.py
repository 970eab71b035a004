"""``rfp encode``: a graph file in, its positional encoding out."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import typer

from rfp.cli.options import output
from rfp.cli.options.device import Device
from rfp.cli.options.embedding import WrittenColumns
from rfp.cli.options.encoding import EncodingOptions
from rfp.cli.options.large import LargeOptions
from rfp.cli.options.reading import GraphFiles, Reading
from rfp.cli.progress import progress_bar
from rfp.encode_file import FileJob, Progress, refuse_endless
from rfp.encode_folder import Resources, encode_job
from rfp.environment import find_device
from rfp.errors import ArgumentError
from rfp.estimate import available_memory
from rfp.io import LoadedGraph, ReadOptions, read_files
from rfp.io.metadata import as_text, describe_input


def encode(
    graph: GraphFiles,
    *,
    settings: EncodingOptions,
    embedding: WrittenColumns,
    options: Reading,
    large: LargeOptions,
    device: Device = "auto",
    out: output.Output = None,
    force: output.Force = False,
    stream: output.Stream = None,
    show: output.ShowOnly = False,
    estimate_only: output.EstimateOnly = False,
    json_report: output.JsonReport = False,
    quiet: output.Quiet = False,
) -> None:
    """Encode a graph by random feature propagation.

    OUT has one row for each node. Its columns are the k channels of step 0 (random), 1, ..., P of the first operator,
    then of the second. For fewer columns use --last-only, --steps-kept or --preset fastrp.

    OUT.json says which column is which, and records every argument, version and seed. Node ids are in .npz, .parquet
    and .pt; for .npy they are in OUT.nodes.csv, unless they are simply 0 to n-1.

    Examples:

        rfp encode examples/karate.csv -k 8 -P 16 -o karate.npy

        printf 'ann bob\\nbob cy\\n' | rfp encode - -k 2 -o friends.parquet

        rfp encode examples/karate.csv -k 8 --last-only -o embedding.npy

        rfp encode examples/karate.csv --preset fastrp -k 64 --iteration-weights 0,1,1 -o fastrp.npy

        rfp encode examples/karate.csv --show

        rfp encode web.txt.gz -k 64 --operator normalized_laplacian --estimate

        rfp encode examples/karate.csv -k 8 -P 4 --memory 2GB -o karate-blocks
    """
    # The workers of a scheduler look for a GPU themselves: there may be none here.
    elsewhere = large.scheduler is not None and not estimate_only and device in ("auto", "cuda")
    where = "cuda" if elsewhere else str(find_device(device))
    try:
        fastrp, keep, resources = embedding.fastrp(settings), embedding.keep, large.resources
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    job = FileJob(
        tuple(graph), out or "", settings, options, where, force, stream, keep, fastrp, embedding.node_features
    )
    if show:
        print_preview(graph, options, as_json=json_report)
        return
    refuse_endless(job)
    if estimate_only:
        print_estimate(job, read_files(graph, options), as_json=json_report)
        return
    _check_output(out, as_json=json_report)
    started = time.perf_counter()
    report = _encoded(job, resources, quiet=quiet)
    report["seconds"]["total"] = round(time.perf_counter() - started, 3)
    if json_report:
        typer.echo(as_text(report))
    elif not quiet:
        typer.echo(summary(report), err=True)


def _check_output(out: str | None, *, as_json: bool) -> None:
    if out is None:
        raise typer.BadParameter(
            "say where to write, e.g. -o encoding.npy (or ask how the file is read with --show, what it costs with "
            "--estimate)"
        )
    if out == "-" and as_json:
        raise typer.BadParameter("--json and -o - both want standard output; write to a file")
    if out == "-" and sys.stdout.isatty():
        raise typer.BadParameter("-o - would write binary data to the terminal; pipe it, e.g. | cat > out.npy")


def _encoded(job: FileJob, resources: Resources, *, quiet: bool) -> dict[str, Any]:
    """The report of the finished job; what is worth a line on the way is said on stderr."""
    from rfp.cli.main import Interrupted

    def say(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    def say_what_was_read(loaded: LoadedGraph) -> None:
        say(loaded.summary())
        if job.to_stdout and loaded.node_ids is not None:
            say("rfp: note: rows follow the order of the node ids, which standard output does not carry")

    by_blocks = False

    def say_why_blocks(why: str) -> None:
        nonlocal by_blocks
        by_blocks = True
        say(f"rfp: by row blocks in files ({why})")

    try:
        with progress_bar(quiet=quiet) as bar:
            return encode_job(
                job,
                resources,
                Progress(bar.stage, bar.advance),
                on_read=say_what_was_read,
                on_blocks=say_why_blocks,
                say=lambda line: say(f"rfp: {line}"),
                steps_aloud=not sys.stderr.isatty(),
            )
    except Interrupted as error:
        if by_blocks:
            error.kept = "finished blocks and steps are kept, the same command goes on"
        raise


def print_preview(files: list[str], options: ReadOptions, *, as_json: bool) -> None:
    """How the files were read, on standard output."""
    loaded = read_files(files, options)
    if as_json:
        first = [list(edge) for edge in loaded.first_edges]
        typer.echo(json.dumps({**describe_input(tuple(files), options, loaded), "first_edges": first}, indent=2))
    else:
        typer.echo(loaded.preview())


def print_estimate(job: FileJob, loaded: LoadedGraph, *, as_json: bool) -> None:
    """Bytes and operations, on standard output."""
    from rich.filesize import decimal, pick_unit_and_suffix

    cost, num_trajectories = job.cost(loaded.graph), job.contents.settings.num_trajectories
    available = available_memory(job.device)
    values: dict[str, Any] = {
        "num_nodes": loaded.graph.num_nodes,
        "num_edges": loaded.graph.num_edges,
        "width": cost.width,
        "output_bytes": cost.trajectory_bytes,
        "working_bytes": cost.working_bytes,
        "total_bytes": cost.total_bytes,
        "available_bytes": available,
        "operations": cost.operations,
    }
    if as_json:
        typer.echo(json.dumps({**values, "arguments": job.describe(loaded.graph.num_nodes)["arguments"]}, indent=2))
        return
    unit, suffix = pick_unit_and_suffix(cost.operations, ["", "k", "M", "G", "T", "P", "E"], 1000)
    of = "" if available is None else f", of {decimal(available)} available"
    rows = [
        ("graph", f"{values['num_nodes']:,} nodes, {values['num_edges']:,} edges (each direction counted)"),
        (
            "output",
            f"{decimal(cost.trajectory_bytes)}, {num_trajectories} x {cost.width} columns",
        ),
        ("beside it", f"{decimal(cost.working_bytes)}: graph, operators, three steps, k x k matrices"),
        ("memory", decimal(cost.total_bytes) + of),
        ("work", f"{cost.operations / unit:.1f} {suffix} floating-point operations".replace("  ", " ")),
    ]
    for name, text in rows:
        typer.echo(f"{name:<10} {text}")


def summary(report: dict[str, Any]) -> str:
    """One line: what was written."""
    result = report["output"]
    shape = " x ".join(str(size) for size in result["shape"])
    dependent = report["report"]["events"].get("dependent_columns", 0)
    notes = f", {dependent} dependent columns set to zero" if dependent else ""
    return (
        f"{result['file']}: {shape} {result['dtype']} in {report['seconds']['total']:.2f} s "
        f"({report['report']['backend']} backend{notes})"
    )
