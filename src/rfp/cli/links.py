"""``rfp links``: classical scores of pairs of nodes, estimated from trajectories or exact."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated, Any, cast

import numpy as np
import torch
import typer

from rfp.atomic import atomic_files
from rfp.cli.options import output
from rfp.cli.options.device import Device
from rfp.cli.options.panels import one_of, panel
from rfp.cli.options.reading import GraphFiles, Reading
from rfp.cli.progress import Ticker
from rfp.environment import find_device
from rfp.errors import GraphError
from rfp.io import LoadedGraph, read_files
from rfp.links import SCORES, LinkScores, read_pairs, score_pairs, top_pairs
from rfp.links.definitions import KATZ_BETA, KATZ_LENGTH
from rfp.links.scoring import DEFAULT_DRAW
from rfp.theory import simplify

_SUFFIXES = (".csv", ".parquet")
_scoring, _estimating = panel("Scoring"), panel("Estimating")

Score = Annotated[str, _scoring(help="Which score; `docs/guides/links.md` has the formulas.", **one_of(SCORES))]
Pairs = Annotated[
    str | None,
    _scoring(metavar="FILE", help="Score the pairs of this table (text or .parquet); **-** is standard input."),
]
Top = Annotated[
    int | None, _scoring(metavar="K", min=1, help="The K highest scores among all pairs that are not edges.")
]
Exact = Annotated[bool, _scoring("--exact", help="Count instead of estimating. On sparse graphs this is often faster.")]
Simplify = Annotated[
    bool, _scoring("--simplify", help="Drop weights, directions, self-loops and repeated edges first.")
]
Beta = Annotated[float, _scoring(help="For katz: a walk of l steps counts β^l.")]
MaxLength = Annotated[int, _scoring(min=2, help="For katz: the longest walks that count, in steps.")]
Channels = Annotated[int, _estimating("-k", "--channels", min=1, help="Samples in memory at a time.")]
Trajectories = Annotated[
    int | None,
    _estimating("-B", "--trajectories", min=1, help="How many times --channels samples are drawn. Default: 4."),
]
Seed = Annotated[int, _estimating(help="Same seed and same graph, same estimates.")]
ScoresFile = Annotated[
    str, typer.Option("-o", "--output", metavar="OUT", help="OUT.csv or .parquet; **-** writes CSV to standard output.")
]
ReplaceScores = Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")]


def links(
    graph: GraphFiles,
    *,
    score: Score = "common_neighbors",
    pairs: Pairs = None,
    top: Top = None,
    exact: Exact = False,
    simple: Simplify = False,
    beta: Beta = KATZ_BETA,
    max_length: MaxLength = KATZ_LENGTH,
    num_channels: Channels = DEFAULT_DRAW.num_channels,
    num_trajectories: Trajectories = None,
    seed: Seed = 0,
    device: Device = "auto",
    out: ScoresFile = "-",
    force: ReplaceScores = False,
    options: Reading,
    quiet: output.Quiet = False,
) -> None:
    """Score pairs of nodes as links: common neighbours, Adamic-Adar, resource allocation, Katz.

    Give pairs with --pairs, or ask for the best of all pairs with --top. The columns of the result are source, target,
    score and standard_error.

    The scores are estimated from random feature propagation in memory of n k numbers: the matrix of common neighbours
    is never formed. --top K looks at all pairs, a block of rows at a time, which takes n² k B / 2 multiplications; with
    --exact it takes the sum of squared degrees.

    Examples:

        rfp links examples/karate.csv --top 5

        rfp links examples/karate.csv --score resource_allocation --top 10 --exact -o missing.csv

        printf '0 33\\n1 2\\n' | rfp links examples/karate.csv --score katz --beta 0.05 --pairs -
    """
    if (pairs is None) == (top is None):
        raise typer.BadParameter("say which pairs: --pairs FILE, or --top K for the best of all; one of the two")
    if score != "katz" and (beta, max_length) != (KATZ_BETA, KATZ_LENGTH):
        raise typer.BadParameter(f"--beta and --max-length belong to --score katz, not to {score}; leave them out")
    if pairs == "-" and "-" in graph:
        raise typer.BadParameter("the graph and --pairs both want standard input; give one of them as a file")
    if out != "-":
        if Path(out).suffix.lower() not in _SUFFIXES:
            endings = " or ".join(_SUFFIXES)
            raise typer.BadParameter(f"-o writes {endings} (or - for CSV on standard output), got {out!r}")
        output.check_given(Path(out), [*graph, *([] if pairs is None else [pairs])], force=force)
    loaded = read_files(graph, options)
    if not quiet:
        typer.echo(loaded.summary(), err=True)
    if simple:
        loaded = replace(loaded, graph=simplify(loaded.graph))
    asked = None if pairs is None else read_pairs(pairs, loaded)
    draw: dict[str, Any] = {"num_channels": num_channels, "seed": seed}
    if num_trajectories is not None:
        draw["num_trajectories"] = num_trajectories
    started = time.perf_counter()
    tick = Ticker(quiet=quiet)
    how: dict[str, Any] = {"score": score, "exact": exact, "beta": beta, "max_length": max_length, **draw}
    try:
        progress = lambda done, total: tick("pairs" if top is None else "rows", done, total)  # noqa: E731
        where = loaded.graph.to(find_device(device))
        if top is not None:
            found = top_pairs(where, top, progress=progress, **how)
        else:
            assert asked is not None
            found = score_pairs(where, _different(asked, loaded, str(pairs)), progress=progress, **how)
    finally:
        tick.close()
    with _opened(out) as file:
        write_scores(file, found, loaded, as_parquet=Path(out).suffix.lower() == ".parquet")
    if not quiet:
        kind = "exact" if not found.num_samples else f"estimated from {found.num_samples:,} samples"
        count = found.value.numel()
        typer.echo(f"{count:,} pairs, {score}, {kind}, {time.perf_counter() - started:.2f} s", err=True)


def _different(pairs: torch.Tensor, loaded: LoadedGraph, file: str) -> torch.Tensor:
    """The pairs; raises, by its id, for one of a node with itself."""
    same = (pairs[0] == pairs[1]).nonzero()
    if len(same):
        name = node_names(loaded, pairs[0, same[0]])[0]
        raise GraphError(f"{file}, pair {int(same[0]) + 1}: node {name} twice; a pair needs two different nodes")
    return pairs


def node_names(loaded: LoadedGraph, nodes: torch.Tensor) -> Any:
    """Ids of nodes as they stand in the file."""
    numbers = nodes.cpu().numpy()
    return numbers if loaded.node_ids is None else cast(Any, loaded.node_ids)[numbers]


def write_scores(file: IO[bytes], found: LinkScores, loaded: LoadedGraph, *, as_parquet: bool) -> None:
    """A row for each pair: ``source``, ``target``, ``score``, ``standard_error``."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    names = [node_names(loaded, side) for side in found.pairs]
    columns = {
        name: pa.array(ids.tolist() if ids.dtype == object else ids)
        for name, ids in zip(("source", "target"), names, strict=True)
    }
    columns["score"] = pa.array(found.value.cpu().numpy().astype(np.float64))
    columns["standard_error"] = pa.array(found.standard_error.cpu().numpy().astype(np.float64))
    table = pa.table(columns)
    if as_parquet:
        parquet.write_table(table, file, compression="zstd")
    else:
        csv.write_csv(table, file)


@contextmanager
def _opened(out: str) -> Iterator[IO[bytes]]:
    if out == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    with atomic_files([Path(out)]) as (file,):
        yield file
