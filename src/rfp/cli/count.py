"""``rfp count``: triangles, 4-cycles and closed walks of a large graph, with a confidence interval."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from rfp.atomic import atomic_files
from rfp.cli.options import output
from rfp.cli.options.panels import panel
from rfp.cli.options.reading import GraphFiles, Reading
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.io import LoadedGraph, read_files
from rfp.theory import PATTERNS, SampleEstimate, count_cycles4, count_triangles, count_walks, exact_trace, simplify
from rfp.theory.sampling import DEFAULT_LIMIT, Sampling
from rfp.theory.simple import require_simple
from rfp.theory.substructures import MAX_WORK, graph_counts, node_counts
from rfp.theory.traces import MAX_EXACT_WORK, EstimateTold

ESTIMATED = {"triangle": count_triangles, "cycle4": count_cycles4}


_estimating = panel("Estimating")
_counting = panel("Counting")


def count(
    graph: GraphFiles,
    *,
    pattern: Annotated[
        str,
        _counting(
            metavar="triangle|cycle4|walk:P",
            help="What to count. walk:P means closed walks of P steps. With --exact also tailed_triangle and star.",
        ),
    ] = "triangle",
    exact: Annotated[bool, _counting("--exact", help="Count exactly. On sparse graphs this is often faster.")] = False,
    force: Annotated[
        bool, _counting("--force", help="Count exactly however long it takes, and replace OUT if it exists.")
    ] = False,
    simple: Annotated[
        bool, _counting("--simplify", help="Drop weights, directions, self-loops and repeated edges first.")
    ] = False,
    per_node: Annotated[
        Path | None,
        _counting(metavar="OUT", help="Also write the count of each node to a new file OUT.csv or OUT.npy."),
    ] = None,
    epsilon: Annotated[float, _estimating(help="Stop when the interval is the count ± this fraction of it.")] = 0.05,
    confidence: Annotated[float, _estimating(help="Coverage of the interval.")] = 0.95,
    num_samples: Annotated[
        int, _estimating("--num-samples", "--max-samples", min=2, help="The largest number of samples.")
    ] = DEFAULT_LIMIT,
    deflation: Annotated[int, _estimating(min=0, help="Directions removed before sampling, 0 for none.")] = 8,
    hubs: Annotated[
        int | None,
        _estimating(
            min=0,
            help="Nodes of highest degree counted exactly, 0 for none. Default: as many as cost about 100 samples.",
        ),
    ] = None,
    block_size: Annotated[
        int | None,
        _estimating(min=1, help="Samples that share one product. Default: 128 MB for each state, at most 32."),
    ] = None,
    distribution: Annotated[str, _estimating(metavar="rademacher|normal")] = "rademacher",
    seed: Annotated[int, _estimating(help="Same seed and same graph, same samples.")] = 0,
    options: Reading,
    json_report: output.JsonReport = False,
    quiet: output.Quiet = False,
) -> None:
    """Count triangles, 4-cycles or closed walks of a graph.

    Random features are propagated (Hutchinson's estimator of trace(A^P)) until the confidence interval is as narrow as
    --epsilon asks for. If it is still wider after --num-samples, the estimate is printed with the interval reached, a
    warning goes to stderr, and "reached" is false in the JSON report.

    With --hubs 0 --deflation 0 this is the paper's TraceTriangle.

    Examples:

        rfp count examples/karate.csv --epsilon 0.02

        rfp count web.txt.gz --pattern cycle4 --exact --json

        rfp count web.txt.gz --simplify --per-node triangles.csv
    """
    try:
        sampling = Sampling(
            num_samples, epsilon, confidence, distribution, seed, deflation, per_node is not None, block_size
        )
        query = parse_query(pattern, sampling, hubs=hubs, exact=exact, force=force, per_node=per_node)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    if per_node is not None:
        output.check_given(per_node, graph, force=force)
    loaded = read_files(graph, options)
    if not quiet:
        typer.echo(loaded.summary(), err=True)
    if simple:
        loaded = replace(loaded, graph=simplify(loaded.graph))
    report = run_query(query, loaded, None if quiet else running_line(query))
    if not quiet and not report.get("reached", True):
        typer.echo(f"rfp: warning: {shortfall(query, report)}", err=True)
    typer.echo(strict_json(report) if json_report else sentence(report))


@dataclass(frozen=True)
class Query:
    """One call of the command, checked; ``length`` is set for walks alone."""

    pattern: str
    length: int | None
    sampling: Sampling
    hubs: int | None
    exact: bool
    force: bool
    per_node: Path | None

    @property
    def name(self) -> str:
        return self.pattern if self.length is None else f"{self.pattern}:{self.length}"


def parse_query(
    pattern: str,
    sampling: Sampling,
    *,
    hubs: int | None = None,
    exact: bool = False,
    force: bool = False,
    per_node: Path | None = None,
) -> Query:
    """Read the pattern and refuse options that do not go together.

    >>> parse_query("walk:5", Sampling()).length
    5
    """
    if force and not exact and per_node is None:
        raise ArgumentError(
            "--force lifts the limit on the work of an --exact count, or replaces the file of --per-node; neither is "
            "asked for"
        )
    if per_node is not None and per_node.suffix.lower() not in (".csv", ".npy"):
        raise ArgumentError(f"--per-node writes .csv (with the node ids) or .npy, got {str(per_node)!r}")
    if pattern.startswith("walk:") and pattern[5:].isdecimal():
        if exact and per_node is not None:
            raise ArgumentError("--per-node with --exact knows triangle, cycle4, tailed_triangle and star, not walks")
        if hubs:
            raise ArgumentError(f"--hubs is for triangle and cycle4, not for walks, got {hubs}")
        return Query("walk", int(pattern[5:]), sampling, hubs, exact, force, per_node)
    if pattern not in PATTERNS:
        raise ArgumentError(
            "--pattern must be triangle, cycle4 or walk:P with P at least 0, or with --exact also tailed_triangle or "
            f"star, got {pattern!r}"
        )
    if not exact and pattern not in ESTIMATED:
        raise ArgumentError(f"{pattern} is only counted exactly; add --exact")
    return Query(pattern, None, sampling, hubs, exact, force, per_node)


def run_query(query: Query, loaded: LoadedGraph, progress: EstimateTold | None) -> dict[str, Any]:
    """Count, write the counts of the nodes if asked for, and return the report."""
    started = time.perf_counter()
    graph = loaded.graph
    report: dict[str, Any] = {
        "pattern": query.name,
        "num_nodes": graph.num_nodes,
        "num_edges": (graph.num_edges + int((graph.edge_index[0] == graph.edge_index[1]).sum())) // 2,
    }
    if query.exact:
        report["exact"] = True
        report["count"] = exact(query, graph, loaded)
    else:
        found = estimated(query, graph, progress)
        report |= {
            "exact": False,
            "count": found.value,
            "interval": list(found.interval),
            "confidence": found.confidence,
            "standard_error": found.standard_error,
            "num_samples": found.num_samples,
            "reached": found.reached,
        }
        if query.per_node is not None:
            columns = {"count": found.per_node, "standard_error": found.per_node_standard_error}
            write_nodes(query.per_node, loaded, columns)
    report["seconds"] = round(time.perf_counter() - started, 3)
    return report


def estimated(query: Query, graph: Graph, progress: EstimateTold | None) -> SampleEstimate:
    """The Monte-Carlo estimate."""
    arguments: dict[str, Any] = {field.name: getattr(query.sampling, field.name) for field in fields(query.sampling)}
    if query.length is not None:
        return count_walks(graph, length=query.length, progress=progress, **arguments)
    return ESTIMATED[query.pattern](graph, hubs=query.hubs, progress=progress, **arguments)


def exact(query: Query, graph: Graph, loaded: LoadedGraph) -> int:
    """The exact count; the counts of the nodes are written too if asked for."""
    if query.length is not None:
        limit = float("inf") if query.force else MAX_EXACT_WORK
        return int(exact_trace(require_simple(graph, loops=True), power=query.length, max_work=limit))
    limit = float("inf") if query.force else MAX_WORK
    if query.per_node is not None:
        counts = node_counts(graph, query.pattern, max_work=limit)
        orbits = PATTERNS[query.pattern].orbits
        names = orbits if len(orbits) > 1 else ("count",)
        write_nodes(query.per_node, loaded, dict(zip(names, counts.T, strict=True)))
    return int(graph_counts(graph, [query.pattern], max_work=limit).sum())


def write_nodes(path: Path, loaded: LoadedGraph, columns: dict[str, Tensor | None]) -> None:
    """One row for each node: ``.csv`` with its id, ``.npy`` the numbers alone, ``[n, columns]``."""
    values = {name: torch.zeros(0) if column is None else column.cpu() for name, column in columns.items()}
    with atomic_files([path]) as files:
        if path.suffix.lower() == ".npy":
            np.save(files[0], torch.stack(list(values.values()), dim=1).numpy())
            return
        import pyarrow as pa
        from pyarrow import csv

        ids = np.arange(loaded.graph.num_nodes) if loaded.node_ids is None else loaded.node_ids
        table = {"node": pa.array(ids.tolist() if ids.dtype == object else ids)}
        csv.write_csv(pa.table(table | {name: pa.array(column.numpy()) for name, column in values.items()}), files[0])


def running_line(query: Query) -> EstimateTold | None:
    """Rewrites one line on stderr with the running estimate, for a person at a terminal and for nobody else."""
    if query.exact or not sys.stderr.isatty():
        return None
    goal, limit = query.sampling.epsilon or 0.0, query.sampling.limit

    def show(estimate: SampleEstimate) -> None:
        done = estimate.reached or estimate.num_samples >= limit
        relative = estimate.relative_half_width
        needed = min(estimate.num_samples * (relative / goal) ** 2, limit)
        line = (
            f"{query.name} {estimate.value:,.0f} ± {relative:.1%} after {estimate.num_samples:,} samples, "
            f"about {needed:,.0f} needed for ± {goal:.1%}"
        )
        sys.stderr.write("\r\033[K" if done else f"\r\033[K{line}")
        sys.stderr.flush()

    return show


def sentence(report: dict[str, Any]) -> str:
    """The result for people.

    >>> sentence({"pattern": "triangle", "exact": True, "count": 45, "seconds": 0.01})
    'triangle: 45 (exact, 0.0 s)'
    """
    if report["exact"]:
        return f"{report['pattern']}: {report['count']:,} (exact, {report['seconds']:.1f} s)"
    # + 0.0: what rounds to zero has no sign.
    count, low, high = (round(value, 1) + 0.0 for value in (report["count"], *report["interval"]))
    return (
        f"{report['pattern']}: {count:,.1f}, {report['confidence']:.0%} interval {low:,.1f} to {high:,.1f} "
        f"({report['num_samples']:,} samples, {report['seconds']:.1f} s)"
    )


def strict_json(report: dict[str, Any]) -> str:
    """The report as JSON, which knows no infinity: ``null`` where there is no number.

    >>> strict_json({"interval": [-math.inf, 1.5]}).split()
    ['{', '"interval":', '[', 'null,', '1.5', ']', '}']
    """

    def known(value: Any) -> Any:
        if isinstance(value, list):
            return [known(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps({name: known(value) for name, value in report.items()}, indent=2, allow_nan=False)


def shortfall(query: Query, report: dict[str, Any]) -> str:
    """Why the interval is wider than asked for, and what to do."""
    low, high = report["interval"]
    if not (math.isfinite(low) and math.isfinite(high)):
        return (
            f"the interval has no ends at --confidence {report['confidence']}, which is too close to 1: give a smaller "
            "one, or count with --exact"
        )
    if low <= 0 <= high:
        reason = "the interval still holds 0: there are few or none, and a relative error cannot be reached"
    else:
        width = (high / 2 - low / 2) / abs(report["count"])
        reason = (
            f"the interval is ± {width:.1%} after {report['num_samples']:,} samples, not ± {query.sampling.epsilon:.1%}"
        )
    return f"{reason}; raise --num-samples or --deflation, or count with --exact"
