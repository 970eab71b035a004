"""``rfp bench partitioned``: graphs larger than memory, each measured in processes of its own.

Rows are appended as they come, and a row that is there is not measured again: a run of hours goes on where it was cut.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from rfp.environment import environment, slug

# Non-zeros for each node of the growing graphs: as ogbn-products and papers100M have them, about.
_PER_NODE = 20
_LIMIT = 330_000_000


@dataclass(frozen=True)
class Measured:
    """One line of the result file.

    Args:
        case: ``"growth"``, ``"limit"`` or ``"workers"``.
        name: Name of the row.
        num_nodes: n.
        num_entries: Non-zeros of the matrix, those of the diagonal without a self-loop not counted.
        channels: k.
        steps: P.
        phase: ``"prepare"``, ``"steps"`` or ``"all"``.
        seconds: Wall time of this phase.
        cpu_seconds: Time of all processes in it.
        peak_mib: Largest resident memory of one process.
        limit: How the memory was limited, if it was.
    """

    case: str
    name: str
    num_nodes: int
    num_entries: int
    channels: int
    steps: int
    phase: str
    seconds: float
    cpu_seconds: float
    peak_mib: float
    limit: str = ""


@dataclass(frozen=True)
class Run:
    """An encoding to measure.

    Args:
        case: See :class:`Measured`.
        name: See :class:`Measured`.
        nodes: n.
        edges: Undirected edges that are drawn; some fall together.
        channels: k.
        steps: P.
        memory: Bytes of each process, as ``--memory`` means it.
        workers: Processes under Dask; 0 for this one.
        limited: Hold the process that makes the steps to ``memory`` (RLIMIT_DATA); another prepares the graph.
    """

    case: str
    name: str
    nodes: int
    edges: int
    channels: int
    steps: int
    memory: int
    workers: int = 0
    limited: bool = False


def runs(largest: int) -> list[Run]:
    """What is measured, up to so many non-zeros."""
    decades = range(5, int(np.log10(largest)) + 1)
    growth = [
        Run("growth", f"10^{d} non-zeros", 10**d // _PER_NODE, 10**d // 2, 16, 4, memory=6_000_000_000) for d in decades
    ]
    n = 1_000_000 if largest >= 10**8 else 100_000
    pair: Any = {"nodes": n, "edges": 10 * n, "channels": 64, "steps": 8}
    return [
        Run("limit", "unlimited", memory=8_000_000_000, **pair),
        Run("limit", "330 MB", memory=_LIMIT, limited=True, **pair),
        Run("workers", "plain loop", memory=1_000_000_000, **pair),
        Run("workers", "two workers under Dask", memory=1_000_000_000, workers=2, **pair),
        *growth,
    ]


def measure_partitioned(
    largest: int, folder: Path, output: Path, say: Callable[[str], None], keep_graphs: bool = False
) -> list[Measured]:
    """Measure what the result file lacks.

    Args:
        largest: Non-zeros of the largest graph of the growth.
        folder: For edges and encodings; needs some 40 bytes a non-zero at a time.
        output: Folder of the result file.
        say: Hears each row.
        keep_graphs: Leave the files of edges for the next time.
    """
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"partitioned-{slug('cpu')}.csv"
    there = read_measured(path)
    for run in runs(largest):
        if any(_is_row_of(run, row) for row in there):
            say(f"{run.case}, {run.name}: measured before")
            continue
        edges = folder / f"edges-{run.nodes}-{run.edges}.parquet"
        folder.mkdir(parents=True, exist_ok=True)
        if not edges.exists():
            say(f"drawing {run.edges:,} edges")
            draw_edges(edges, run.nodes, run.edges)
        store = folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        rows = _measured(run, edges, store)
        shutil.rmtree(store, ignore_errors=True)
        for row in rows:
            took = f"{row.seconds:.1f} s, {row.cpu_seconds:.1f} CPU s, {row.peak_mib:.0f} MiB"
            say(f"{row.case}, {row.name}, {row.phase}: {took}")
        there += rows
        write_measured(there, path)
        if not keep_graphs and not any(other.nodes == run.nodes for other in _after(run, largest)):
            edges.unlink()
    return there


def _is_row_of(run: Run, row: Measured) -> bool:
    # A few of the nodes have no edge, and are not in the graph.
    return (row.case, row.name) == (run.case, run.name) and 0.9 * run.nodes < row.num_nodes <= run.nodes


def _after(run: Run, largest: int) -> list[Run]:
    all_runs = runs(largest)
    return all_runs[all_runs.index(run) + 1 :]


def draw_edges(path: Path, num_nodes: int, num_edges: int, seed: int = 0, batch: int = 5_000_000) -> None:
    r"""Edges of a graph with a heavy tail, drawn independently, as Parquet; O(batch) memory.

    An end is the node of rank :math:`n u^{2.5}`, u uniform: expected degrees fall as rank\ :sup:`-0.6`. Ranks are
    spread over the numbers of nodes by a multiplication modulo n.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    factor = next(f for f in range(int(num_nodes * 0.618) | 1, 2 * num_nodes + 3, 2) if np.gcd(f, num_nodes) == 1)
    part = path.with_suffix(".part")
    with pq.ParquetWriter(part, pa.schema({"source": pa.int64(), "target": pa.int64()}), use_dictionary=False) as file:
        for start in range(0, num_edges, batch):
            count = min(batch, num_edges - start)
            rank = (num_nodes * rng.random((2, count)) ** 2.5).astype(np.int64)
            source, target = rank * factor % num_nodes
            file.write_table(pa.table({"source": source, "target": target}))
    os.replace(part, path)


def _measured(run: Run, edges: Path, store: Path) -> list[Measured]:
    base = [sys.executable, "-m", "rfp.bench.partitioned_run", json.dumps(asdict(run)), str(edges), str(store)]
    found: list[dict[str, Any]] = []
    for only in ("prepare", "steps") if run.limited else ("all",):
        # What the C library keeps of freed memory would count against the limit, though nothing is in it.
        freed = (
            {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
            if run.limited and only == "steps"
            else {}
        )
        done = subprocess.run([*base, only], capture_output=True, text=True, check=False, env={**os.environ, **freed})
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise RuntimeError(f"{run.case}, {run.name}: the process ended with {done.returncode} ({reason})")
        found += json.loads(done.stdout.splitlines()[-1])
    whole = {name: sum(row[name] for row in found) for name in ("seconds", "cpu_seconds")}
    peak = max(row["peak_mib"] for row in found)
    found.append({**found[-1], **whole, "phase": "all", "peak_mib": peak})
    return [Measured(run.case, run.name, channels=run.channels, steps=run.steps, **row) for row in found]


def read_measured(path: Path) -> list[Measured]:
    """The rows of a result file; none if there is no such file."""
    if not path.exists():
        return []
    kinds: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str}
    with path.open(newline="") as file:
        return [
            Measured(**{field.name: kinds[str(field.type)](line[field.name]) for field in fields(Measured)})
            for line in csv.DictReader(file)
        ]


def write_measured(rows: Sequence[Measured], path: Path) -> None:
    """All rows, each with the environment."""
    facts = environment("cpu")
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=[*(field.name for field in fields(Measured)), *facts])
        writer.writeheader()
        writer.writerows({**asdict(row), **facts} for row in rows)
    os.replace(part, path)
