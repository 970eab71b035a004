"""The work of ``rfp count``: a pattern and a graph in, a report out."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.errors import ArgumentError, FileError
from rfp.graph import Graph
from rfp.io import LoadedGraph
from rfp.io.atomic import atomic_files
from rfp.theory import PATTERNS, SampleEstimate, count_cycles4, count_triangles, count_walks, exact_trace
from rfp.theory.sampling import Sampling
from rfp.theory.simple import require_simple
from rfp.theory.substructures import MAX_WORK, graph_counts, node_counts
from rfp.theory.traces import MAX_EXACT_WORK, Progress

ESTIMATED = {"triangle": count_triangles, "cycle4": count_cycles4}


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
    if force and not exact:
        raise ArgumentError("--force belongs to --exact: it lifts the limit on the work of an exact count")
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


def run(query: Query, loaded: LoadedGraph, progress: Progress | None) -> dict[str, Any]:
    """Count, write the counts of the nodes if asked for, and return the report."""
    started = time.perf_counter()
    graph = loaded.graph
    if query.per_node is not None and not query.per_node.absolute().parent.is_dir():
        raise FileError(f"{query.per_node}: the folder {query.per_node.parent} does not exist; create it first")
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


def estimated(query: Query, graph: Graph, progress: Progress | None) -> SampleEstimate:
    """The Monte-Carlo estimate."""
    arguments: dict[str, Any] = {field.name: getattr(query.sampling, field.name) for field in fields(query.sampling)}
    if query.length is not None:
        return count_walks(graph, length=query.length, progress=progress, **arguments)
    return ESTIMATED[query.pattern](graph, hubs=query.hubs, progress=progress, **arguments)


def exact(query: Query, graph: Graph, loaded: LoadedGraph) -> int:
    """The exact count; the counts of the nodes are written too if asked for."""
    if query.length is not None:
        limit = float("inf") if query.force else MAX_EXACT_WORK
        return round(exact_trace(require_simple(graph, loops=True), power=query.length, max_work=limit))
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
