"""The side-car: everything needed to repeat an encoding and to find one's way in its columns."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch

from rfp._version import __version__
from rfp.io.options import LoadedGraph, ReadOptions
from rfp.plain_values import as_plain
from rfp.report import Report
from rfp.settings import Settings

# Blocks of columns that are listed one by one: more would make the side-car larger than many an encoding.
MAX_BLOCKS = 10_000


def arguments(settings: Settings) -> dict[str, Any]:
    """Every argument of the encoding as JSON values.

    >>> arguments(Settings(num_steps=2))["dtype"]
    'float32'
    """
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: as_plain(value) for name, value in values.items()}


def layout(settings: Settings, kept: Sequence[int] | None = None) -> list[dict[str, Any]]:
    """What the columns are: for each operator and step, the columns ``start`` to ``stop - 1`` hold its k channels.

    Of very many steps (see ``MAX_BLOCKS``) only the first and the last of each operator are listed; those between
    follow one another with k columns each.

    Args:
        settings: The arguments of the encoding.
        kept: The steps that are there, if not all.

    >>> layout(Settings(num_channels=4, num_steps=1))[1]
    {'operator': 'normalized_adjacency', 'step': 1, 'start': 4, 'stop': 8}
    """
    k, steps = settings.num_channels, range(settings.num_steps + 1) if kept is None else kept
    listed = range(len(steps)) if len(settings.operators) * len(steps) <= MAX_BLOCKS else (0, len(steps) - 1)
    return [
        {"operator": str(name), "step": steps[i], "start": (first + i) * k, "stop": (first + i + 1) * k}
        for o, name in enumerate(settings.operators)
        for first in [o * len(steps)]
        for i in listed
    ]


def describe_input(files: Sequence[str], options: ReadOptions, loaded: LoadedGraph) -> dict[str, Any]:
    """The input files, their content hashes, how they were read and what was found in them."""
    hashes = [_content_hash(Path(file)) for file in files]
    return {
        "file": files[0] if len(files) == 1 else list(files),
        "format": loaded.format,
        "options": asdict(options),
        "sha256": hashes[0] if len(files) == 1 else hashes,
        "as_read": dict(loaded.facts),
        "num_graphs": loaded.graph.num_graphs,
        "num_nodes": loaded.graph.num_nodes,
        "num_edges": loaded.graph.num_edges,
        "directed": loaded.directed,
        "weights": loaded.weights,
        "ignored_columns": list(loaded.ignored),
        "node_ids": "0 to n - 1"
        if loaded.node_ids is None
        else "text"
        if loaded.node_ids.dtype == object
        else "integers",
    }


def _content_hash(path: Path) -> str | list[str] | None:
    """The hash of a file, or those of the files in a folder; a pipe cannot be read twice and has none."""
    if path.is_dir():
        return [file_hash(part) for part in sorted(path.iterdir()) if part.is_file()]
    return file_hash(path) if path.is_file() else None


def file_hash(path: Path) -> str:
    """SHA-256 of the file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def describe_output(settings: Settings, num_nodes: int, name: str, kept: Sequence[int] | None = None) -> dict[str, Any]:
    """Shape, type and columns of the array."""
    columns, several = layout(settings, kept), settings.num_trajectories > 1
    return {
        "file": name,
        "shape": list(settings.stored_shape(num_nodes, None if kept is None else len(kept))),
        "axes": ["node", "trajectory", "column"] if several else ["node", "column"],
        "dtype": as_plain(settings.kept_dtype),
        "layout": columns,
    }


def describe_report(report: Report) -> dict[str, Any]:
    """What ran."""
    return {"backend": report.backend, "reason": report.reason, "events": dict(report.events)}


def as_text(about: dict[str, Any]) -> str:
    """JSON for people too: indented, but each block of columns on one line."""
    lines = json.dumps(about, indent=2)
    return re.sub(r"\{\s+(\"operator\": [^{}]*?)\s+\}", lambda block: "{" + _on_one_line(block[1]) + "}", lines)


def _on_one_line(text: str) -> str:
    return re.sub(r"\n\s+", " ", text)


def versions() -> dict[str, str]:
    """The versions a result depends on."""
    return {"rfp": __version__, "torch": str(torch.__version__)}
