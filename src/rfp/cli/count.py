"""``rfp count``: triangles, 4-cycles and closed walks of a large graph, with a confidence interval."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rfp.cli import count_run
from rfp.cli import encode_options as reading
from rfp.errors import ArgumentError
from rfp.io import ReadOptions, read_graph
from rfp.theory import SampleEstimate, simplify
from rfp.theory.sampling import DEFAULT_LIMIT, Sampling
from rfp.theory.traces import Progress


def _estimating(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Estimating", **settings)


def _counting(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Counting", **settings)


Pattern = Annotated[
    str,
    _counting(
        metavar="triangle|cycle4|walk:P",
        help="walk:P are closed walks of P steps; with --exact also tailed_triangle and star.",
    ),
]
Exact = Annotated[bool, _counting("--exact", help="Count exactly; on sparse graphs often the faster way.")]
Force = Annotated[bool, _counting("--force", help="Count exactly however long it takes.")]
Simplify = Annotated[
    bool, _counting("--simplify", help="Drop weights, directions, self-loops and repeated edges first.")
]
PerNode = Annotated[
    Path | None, _counting(metavar="OUT", help="Also write the count of each node to OUT.csv or OUT.npy.")
]
Epsilon = Annotated[float, _estimating(help="Stop when the interval is the count ± this fraction of it.")]
Confidence = Annotated[float, _estimating(help="Coverage of the interval.")]
MaxSamples = Annotated[int, _estimating(min=2, help="Stop here in any case.")]
Deflation = Annotated[int, _estimating(min=0, help="Directions removed before sampling, 0 for none.")]
Hubs = Annotated[
    int | None,
    _estimating(
        min=0, help="Nodes of highest degree counted exactly, 0 for none. Default: as many as cost about 100 samples."
    ),
]
BlockSize = Annotated[
    int | None, _estimating(min=1, help="Samples that share one product. Default: 128 MB a state, at most 32.")
]
Distribution = Annotated[str, _estimating(metavar="rademacher|normal")]
Seed = Annotated[int, _estimating(help="Same seed and same graph, same samples.")]


def count(
    graph: reading.GraphFile,
    pattern: Pattern = "triangle",
    exact: Exact = False,
    force: Force = False,
    simple: Simplify = False,
    per_node: PerNode = None,
    epsilon: Epsilon = 0.05,
    confidence: Confidence = 0.95,
    max_samples: MaxSamples = DEFAULT_LIMIT,
    deflation: Deflation = 8,
    hubs: Hubs = None,
    block_size: BlockSize = None,
    distribution: Distribution = "rademacher",
    seed: Seed = 0,
    format: reading.Format = None,
    directed: reading.Directed = None,
    num_nodes: reading.NumNodes = None,
    source_column: reading.SourceColumn = None,
    target_column: reading.TargetColumn = None,
    unweighted: reading.Unweighted = False,
    header: reading.Header = None,
    delimiter: reading.Delimiter = None,
    json_report: reading.JsonReport = False,
    quiet: reading.Quiet = False,
) -> None:
    """Count triangles, 4-cycles or closed walks of a graph.

    Random features are propagated (Hutchinson's estimator of trace(A^P)) until the confidence interval is as narrow as
    asked for. With --hubs 0 --deflation 0 this is the paper's TraceTriangle. If the interval is not reached after
    --max-samples, the estimate is printed with the one it has, a warning goes to stderr, and "reached" is false in the
    JSON report.

    Examples:

        rfp count examples/karate.csv --epsilon 0.02

        rfp count web.txt.gz --pattern cycle4 --exact --json

        rfp count web.txt.gz --simplify --per-node triangles.csv
    """
    try:
        sampling = Sampling(
            max_samples, epsilon, confidence, distribution, seed, deflation, per_node is not None, block_size
        )
        query = count_run.parse_query(pattern, sampling, hubs=hubs, exact=exact, force=force, per_node=per_node)
    except ArgumentError as error:
        raise typer.BadParameter(str(error)) from error
    options = ReadOptions(
        format=format,
        directed=directed,
        num_nodes=num_nodes,
        source_column=source_column,
        target_column=target_column,
        unweighted=unweighted,
        header=header,
        delimiter=delimiter,
    )
    loaded = read_graph(graph, options)
    if simple:
        loaded = replace(loaded, graph=simplify(loaded.graph))
    report = count_run.run(query, loaded, None if quiet else running_line(query))
    if not quiet and not report.get("reached", True):
        typer.echo(f"rfp: warning: {shortfall(query, report)}", err=True)
    typer.echo(json.dumps(report, indent=2) if json_report else sentence(report))


def running_line(query: count_run.Query) -> Progress | None:
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
    low, high = report["interval"]
    return (
        f"{report['pattern']}: {report['count']:,.1f}, {report['confidence']:.0%} interval {low:,.1f} to {high:,.1f} "
        f"({report['num_samples']:,} samples, {report['seconds']:.1f} s)"
    )


def shortfall(query: count_run.Query, report: dict[str, Any]) -> str:
    """Why the interval is wider than asked for, and what to do."""
    low, high = report["interval"]
    if low <= 0 <= high:
        reason = "the interval still holds 0: there are few or none, and a relative error cannot be reached"
    else:
        width = (high - low) / 2 / abs(report["count"])
        reason = (
            f"the interval is ± {width:.1%} after {report['num_samples']:,} samples, not ± {query.sampling.epsilon:.1%}"
        )
    return f"{reason}; raise --max-samples or --deflation, or count with --exact"
