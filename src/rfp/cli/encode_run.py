"""The work of ``rfp encode``: read, decide between memory and stream, compute, write so that all appears or nothing."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from rfp.cli.progress import Bar
from rfp.cli.units import human_bytes
from rfp.encode import encode
from rfp.errors import ArgumentError, FileError, WriteError
from rfp.estimate import Estimate, available_memory, estimate
from rfp.graph import Graph
from rfp.io import Encoding, LoadedGraph, ReadOptions, read_graph
from rfp.io.atomic import atomic_files, check_free_space, refuse_to_replace_inputs
from rfp.io.metadata import arguments, as_text, describe_input, describe_output, describe_report, versions
from rfp.io.writers import find_writer, write_node_ids, write_npy
from rfp.propagate import Report
from rfp.settings import Settings
from rfp.streaming import stream

# Above this part of the free memory the result is streamed: the estimate leaves out what the allocator wastes.
MEMORY_SHARE = 0.7
# Steps beyond which nobody waits: a step takes 5 to 100 microseconds even on a graph of a few nodes.
MAX_STEPS = 1_000_000


@dataclass(frozen=True)
class Job:
    """One call of the command; ``stream=None`` decides by the memory, ``output="-"`` is standard output."""

    graph: Path
    options: ReadOptions
    settings: Settings
    device: torch.device
    output: str
    force: bool
    stream: bool | None

    @property
    def to_stdout(self) -> bool:
        return self.output == "-"

    @property
    def path(self) -> Path:
        return Path(self.output)

    @property
    def sidecar(self) -> Path:
        return Path(self.output + ".json")

    @property
    def nodes_file(self) -> Path:
        return Path(self.output + ".nodes.csv")

    @property
    def can_stream(self) -> bool:
        return self.to_stdout or self.path.suffix.lower() == ".npy"


def run(job: Job, bar: Bar) -> dict[str, Any]:
    """Do the job and return its report (the side-car and the times)."""
    if not job.to_stdout:
        find_writer(job.path)
        _refuse_existing(job)
    if job.stream and not job.can_stream:
        raise ArgumentError(f"--stream writes .npy only, got {job.output}; use -o {job.path.with_suffix('.npy')}")
    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[name], clock = round(now - clock, 3), now

    bar.stage(f"reading {job.graph}")
    loaded = read_graph(job.graph, job.options)
    lap("read")
    cost = estimate(loaded.graph, job.settings)
    _refuse_endless(job, cost)
    streamed = _decide(job, cost)
    num_nodes = loaded.graph.num_nodes
    about: dict[str, Any] = {
        "versions": versions(),
        "arguments": {**arguments(job.settings), "device": str(job.device)},
        "input": describe_input(job.graph, job.options, loaded),
        "output": {**describe_output(job.settings, num_nodes, job.output), "streamed": streamed},
    }
    with_nodes = job.path.suffix.lower() == ".npy" and (loaded.node_ids is not None or loaded.graph.ptr is not None)
    about["output"]["node_ids_file"] = str(job.nodes_file) if with_nodes else None
    steps = job.settings.num_steps * len(job.settings.operators)
    graph = loaded.graph.to(job.device)
    if job.to_stdout:
        if loaded.node_ids is not None:
            sys.stderr.write("rfp: note: rows follow the order of the node ids, which standard output does not carry\n")
        about["report"] = describe_report(_to_stdout(job, loaded, graph, streamed, bar, steps, about))
        lap("encode_and_write")
        return {**about, "seconds": seconds}
    check_free_space(job.path.absolute().parent, cost.trajectory_bytes, job.output)
    paths = [*([job.nodes_file] if with_nodes else []), job.sidecar, job.path]
    with atomic_files(paths) as files:
        bar.stage("propagating", steps)
        if streamed:
            report = stream(graph, files[-1], job.settings, progress=bar.advance)
            about["report"] = describe_report(report)
            lap("encode_and_write")
            encoding = Encoding(torch.empty(num_nodes, 0), loaded.node_ids, loaded.graph.ptr, "")  # for its names
        else:
            trajectory = encode(graph, job.settings, progress=bar.advance)
            about["report"] = describe_report(trajectory.report)
            lap("encode")
            bar.stage(f"writing {job.path}")
            array = trajectory.node_first().cpu()
            encoding = Encoding(array, loaded.node_ids, loaded.graph.ptr, json.dumps(about))
            find_writer(job.path)(files[-1], encoding)
        if with_nodes:
            write_node_ids(files[0], encoding)
        files[-2].write(as_text(about).encode() + b"\n")
    if not with_nodes:
        job.nodes_file.unlink(missing_ok=True)  # of the encoding that --force replaced
    lap("write")
    return {**about, "seconds": seconds}


def _refuse_existing(job: Job) -> None:
    written = (job.path, job.sidecar, job.nodes_file)
    refuse_to_replace_inputs([job.graph], written)
    there = [str(path) for path in written if path.exists()]
    if there and not job.force:
        raise FileError(f"{' and '.join(there)} already there; choose another name, or replace with --force")
    if job.path.is_dir():
        raise FileError(f"{job.path} is a folder; give a file name")


def _refuse_endless(job: Job, cost: Estimate) -> None:
    """Refuse, unless forced, what would take days, or more memory than there is even when it is streamed."""
    if job.force:
        return
    k, steps = job.settings.num_channels, job.settings.num_steps
    if steps > MAX_STEPS:
        raise ArgumentError(
            f"-P {steps:,} gives {cost.width:,} numbers for each node and may never end; channels have converged after "
            f"some hundred steps. Give -P of at most {MAX_STEPS:,}, or go on with --force"
        )
    available = available_memory(job.device)
    if available is not None and cost.working_bytes > available:
        raise ArgumentError(
            f"{job.graph} needs {human_bytes(cost.working_bytes)} of memory beside the result and "
            f"{human_bytes(available)} is free (a state has {human_bytes(cost.trajectory_bytes / (steps + 1))}, a "
            f"k x k matrix {human_bytes(8 * k * k)}); use fewer channels or trajectories, or go on with --force"
        )


def _decide(job: Job, cost: Estimate) -> bool:
    """Whether to stream. What was asked for is obeyed; otherwise by the memory that is free."""
    if job.stream is not None:
        return job.stream
    available = available_memory(job.device)
    if available is None or cost.total_bytes <= MEMORY_SHARE * available:
        return False
    if not job.can_stream:
        raise ArgumentError(
            f"the encoding needs {human_bytes(cost.total_bytes)} of memory and {human_bytes(available)} is free; "
            f"write it step by step with -o {job.path.with_suffix('.npy')}, or store less (--storage-dtype float16)"
        )
    return True


def _to_stdout(
    job: Job, loaded: LoadedGraph, graph: Graph, streamed: bool, bar: Bar, steps: int, about: dict[str, Any]
) -> Report:
    out: IO[bytes] = sys.stdout.buffer
    bar.stage("propagating", steps)
    try:
        if streamed:
            report = stream(graph, out, job.settings, progress=bar.advance)
        else:
            trajectory = encode(graph, job.settings, progress=bar.advance)
            report = trajectory.report
            write_npy(out, Encoding(trajectory.node_first().cpu(), loaded.node_ids, None, json.dumps(about)))
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"standard output cannot be written ({error.strerror or error})") from error
    return report
