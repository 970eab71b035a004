"""What ``rfp encode`` says: the cost beforehand, the summary afterwards."""

from __future__ import annotations

import json
from typing import Any

import torch
import typer

from rfp.cli.units import human_bytes, human_count
from rfp.estimate import available_memory, estimate
from rfp.io import LoadedGraph
from rfp.io.metadata import arguments
from rfp.settings import Settings


def print_estimate(settings: Settings, loaded: LoadedGraph, device: torch.device, *, as_json: bool) -> None:
    """Bytes and operations, on standard output."""
    cost = estimate(loaded.graph, settings)
    available = available_memory(device)
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
        typer.echo(json.dumps({**values, "arguments": arguments(settings)}, indent=2))
        return
    of = "" if available is None else f", of {human_bytes(available)} available"
    rows = [
        ("graph", f"{values['num_nodes']:,} nodes, {values['num_edges']:,} edges (each direction counted)"),
        ("output", f"{human_bytes(cost.trajectory_bytes)}, {settings.num_trajectories} x {cost.width} columns"),
        ("beside it", f"{human_bytes(cost.working_bytes)}: graph, operators, three steps, k x k matrices"),
        ("memory", human_bytes(cost.total_bytes) + of),
        ("work", f"{human_count(cost.operations)} floating-point operations"),
    ]
    for name, text in rows:
        typer.echo(f"{name:<10} {text}")


def summary(report: dict[str, Any]) -> str:
    """Two lines: what was read, what was written."""
    source, result = report["input"], report["output"]
    kinds = ["directed" if source["directed"] else "undirected"]
    kinds.append("unweighted" if source["weights"] is None else f"weights from {source['weights']}")
    if source["ignored_columns"]:
        kinds.append(f"ignored column {', '.join(source['ignored_columns'])}")
    graphs = "" if source["num_graphs"] == 1 else f"{source['num_graphs']:,} graphs, "
    shape = " x ".join(str(size) for size in result["shape"])
    dependent = report["report"]["events"].get("dependent_columns", 0)
    notes = f", {dependent} dependent columns set to zero" if dependent else ""
    return (
        f"{source['file']}: {graphs}{source['num_nodes']:,} nodes, {source['num_edges']:,} edges, {', '.join(kinds)}\n"
        f"{result['file']}: {shape} {result['dtype']} in {report['seconds']['total']:.2f} s "
        f"({report['report']['backend']} backend{notes})"
    )
