"""``rfp encode``: a graph file in, its positional encoding out."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
import typer

from rfp.cli import encode_options as option
from rfp.cli.encode_report import print_estimate, summary
from rfp.cli.encode_run import Job, run
from rfp.cli.progress import progress_bar
from rfp.io import ReadOptions, read_graph
from rfp.io.metadata import as_text
from rfp.settings import Settings


def encode(
    graph: option.GraphFile,
    num_channels: option.Channels = 16,
    num_steps: option.Steps = 16,
    normalize_every: option.NormalizeEvery = 1,
    num_trajectories: option.Trajectories = 1,
    operators: option.Operators = ["normalized_adjacency"],  # noqa: B006 - typer copies it
    normalization: option.Normalization = "qr",
    distribution: option.Distribution = "normal",
    start: option.Start = "drawn",
    seed: option.Seed = 0,
    dtype: option.Dtype = "float32",
    storage_dtype: option.StorageDtype = None,
    backend: option.Backend = "auto",
    device: option.Device = "cpu",
    strict: option.Strict = False,
    format: option.Format = None,
    directed: option.Directed = None,
    num_nodes: option.NumNodes = None,
    source_column: option.SourceColumn = None,
    target_column: option.TargetColumn = None,
    weight_column: option.WeightColumn = None,
    unweighted: option.Unweighted = False,
    header: option.Header = None,
    delimiter: option.Delimiter = None,
    output: option.Output = None,
    force: option.Force = False,
    stream: option.Stream = None,
    estimate_only: option.EstimateOnly = False,
    json_report: option.JsonReport = False,
    quiet: option.Quiet = False,
) -> None:
    """Encode a graph by random feature propagation.

    OUT holds one row for each node: the k channels of step 0 (random), 1, ..., P of the first operator, then of the
    second. OUT.json beside it says which column is which, and records every argument, version and seed. Node ids are in
    .npz, .parquet and .pt; for .npy they are in OUT.nodes.csv, unless they are simply 0 to n-1.

    Examples:

        rfp encode examples/karate.csv -k 8 -P 16 -o karate.npy

        printf 'ann bob\\nbob cy\\n' | rfp encode - -k 2 -o friends.parquet

        rfp encode web.txt.gz -k 64 --operator normalized_laplacian --estimate
    """
    settings = Settings(
        num_channels=num_channels,
        num_steps=num_steps,
        operators=tuple(operators),
        normalization=normalization,
        normalize_every=normalize_every,
        num_trajectories=num_trajectories,
        distribution=distribution,
        start=start,
        seed=seed,
        dtype=option.DTYPES[dtype],
        storage_dtype=None if storage_dtype is None else option.DTYPES[storage_dtype],
        backend=backend,
        strict=strict,
    )
    options = ReadOptions(
        format=format,
        directed=directed,
        num_nodes=num_nodes,
        source_column=source_column,
        target_column=target_column,
        weight_column=weight_column,
        unweighted=unweighted,
        header=header,
        delimiter=delimiter,
    )
    if estimate_only:
        print_estimate(settings, read_graph(graph, options), torch.device(device), as_json=json_report)
        return
    if output is None:
        raise typer.BadParameter("say where to write, e.g. -o encoding.npy (or ask what it costs with --estimate)")
    if output == "-" and json_report:
        raise typer.BadParameter("--json and -o - both want standard output; write to a file")
    if output == "-" and sys.stdout.isatty():
        raise typer.BadParameter("-o - would write binary data to the terminal; pipe it, e.g. | cat > out.npy")
    job = Job(Path(graph), options, settings, torch.device(device), output, force, stream)
    started = time.perf_counter()
    with progress_bar(quiet=quiet) as bar:
        report = run(job, bar)
    report["seconds"]["total"] = round(time.perf_counter() - started, 3)
    if json_report:
        typer.echo(as_text(report))
    elif not quiet:
        typer.echo(summary(report), err=True)
