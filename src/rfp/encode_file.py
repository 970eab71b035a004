"""Files in, a file out: read a graph, encode it in memory or step by step, write so that all appears or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch

from rfp.atomic import atomic_files, check_free_space, refuse_to_replace_inputs
from rfp.baselines.fastrp import FastRP
from rfp.errors import ArgumentError, FileError, WriteError
from rfp.estimate import Estimate, available_memory, estimate_sizes
from rfp.file_contents import Contents, EncodingContents, FastRPContents
from rfp.graph import Graph
from rfp.io import EncodedNodes, LoadedGraph, ReadOptions, read_files
from rfp.io.metadata import as_text, describe_input, describe_report, versions
from rfp.io.writers import Writer, find_writer, write_node_ids, write_npy
from rfp.settings import Settings
from rfp.streaming import stream_graph

# Above this part of the free memory the result is streamed: the estimate leaves out what the allocator wastes.
MEMORY_SHARE = 0.7
# Steps beyond which nobody waits: a step takes 5 to 100 microseconds even on a graph of a few nodes.
MAX_STEPS = 1_000_000


class MemoryShortError(ArgumentError):
    """The encoding does not fit the memory that is free."""


class Progress(NamedTuple):
    """What is told of the work: a part of it begins, of so many steps if that is known; steps are done."""

    stage: Callable[[str, int | None], None] = lambda name, total: None
    advance: Callable[[int], None] = lambda steps: None


_SILENT = Progress()


@dataclass(frozen=True)
class FileJob:
    """Which files to read and how, what to compute, where to write.

    Args:
        files: Files of the graph, as :func:`rfp.read_graph` takes them.
        output: ``.npy``, ``.npz``, ``.parquet`` or ``.pt``; ``"-"`` is standard output.
        settings: The arguments of the encoding.
        options: How to read.
        device: Where to compute.
        force: Replace what is there.
        stream: Write step by step (``.npy`` only). ``None``: if the result would not fit the memory.
        keep: Which steps are written, in ascending order: ``"all"``, ``"last"`` or a list of them.
        fastrp: Write the embedding by FastRP with these parameters instead; of the settings only the types count.
        node_features: ``.npy`` file ``[n, d]`` that FastRP starts from, a row for each node in the order of the result.
    """

    files: tuple[str, ...]
    output: str
    settings: Settings = field(default_factory=Settings)
    options: ReadOptions = field(default_factory=ReadOptions)
    device: torch.device | str = "cpu"
    force: bool = False
    stream: bool | None = None
    keep: str | tuple[int, ...] = "all"
    fastrp: FastRP | None = None
    node_features: str | None = None

    @property
    def contents(self) -> Contents:
        """What is computed and written."""
        if self.fastrp is not None:
            return FastRPContents(self.fastrp, self.settings, self.node_features)
        return EncodingContents(self.settings, self.keep)

    def cost(self, graph: Graph) -> Estimate:
        """What it costs to compute and to keep what is written."""
        settings, num_kept = self.contents.settings, len(self.contents.kept)
        whole = estimate_sizes(settings, graph.num_nodes, graph.num_edges, graph.num_graphs)
        per_step = {"trajectory_bytes": whole.trajectory_bytes, "width": whole.width}
        return replace(whole, **{name: size // (settings.num_steps + 1) * num_kept for name, size in per_step.items()})

    def describe(self, num_nodes: int) -> dict[str, dict[str, Any]]:
        """Every argument of what is computed, and shape, type and columns of the array, as JSON values."""
        about, output = self.contents.describe(num_nodes, self.output)
        return {"arguments": {**about, "device": str(self.device)}, "output": output}

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

    def names_rows_apart(self, loaded: LoadedGraph) -> bool:
        """Whether the ids of the nodes go to a file of their own, for the format has no place for them."""
        named = loaded.node_ids is not None or loaded.graph.ptr is not None
        return named and not self.to_stdout and self.path.suffix.lower() == ".npy"

    @property
    def can_stream(self) -> bool:
        return self.to_stdout or self.path.suffix.lower() == ".npy"


def encode_file(
    job: FileJob, progress: Progress = _SILENT, *, on_read: Callable[[LoadedGraph], None] | None = None
) -> dict[str, Any]:
    """Read, encode, write.

    Args:
        job: What to do.
        progress: Is told what is being done.
        on_read: Is given the graph when it has been read, before anything is computed.

    Returns:
        The content of the side-car ``OUT.json``, and the seconds each part took.

    Raises:
        FileError: An input cannot be read, an output is there already, or its folder is not.
        WriteError: The output cannot be written.
    """
    writer = _checked(job)
    clock = _Clock()
    progress.stage(f"reading {', '.join(job.files)}", None)
    loaded = read_files(job.files, job.options)
    clock.lap("read")
    if on_read is not None:
        on_read(loaded)
    apart = job.names_rows_apart(loaded)
    described = job.describe(loaded.graph.num_nodes)
    cost, streamed = _planned(job, loaded.graph)
    about: dict[str, Any] = {
        "versions": versions(),
        "arguments": described["arguments"],
        "input": describe_input(job.files, job.options, loaded),
        "output": {
            **described["output"],
            "streamed": streamed,
            "node_ids_file": str(job.nodes_file) if apart else None,
        },
    }
    settings = job.contents.settings
    progress.stage("propagating", settings.num_steps * len(settings.operators))
    with _opened(job, apart, cost.trajectory_bytes) as files:
        graph = loaded.graph.to(job.device)
        if streamed:
            report = stream_graph(graph, files.out, settings, job.contents.kept, progress=progress.advance)
            about["report"] = describe_report(report)
            clock.lap("encode_and_write")
        else:
            array, report = job.contents.rows(graph, progress.advance)
            about["report"] = describe_report(report)
            clock.lap("encode")
            progress.stage(f"writing {job.output}", None)
            writer(files.out, EncodedNodes(array, loaded.node_ids, loaded.graph.ptr, json.dumps(about)))
        if files.nodes is not None:
            none = torch.empty(graph.num_nodes, 0)
            write_node_ids(files.nodes, EncodedNodes(none, loaded.node_ids, loaded.graph.ptr, ""))
        if files.sidecar is not None:
            files.sidecar.write(as_text(about).encode() + b"\n")
    if not apart and not job.to_stdout:
        job.nodes_file.unlink(missing_ok=True)  # of the encoding that force replaced
    clock.lap("write")
    return {**about, "seconds": clock.seconds}


def refuse_endless(job: FileJob) -> None:
    """Raise where a job has so many steps that it would take days; before anything is made for each of them."""
    settings = job.contents.settings
    if settings.num_steps > MAX_STEPS and not job.force:
        raise ArgumentError(
            f"-P {settings.num_steps:,} gives {settings.num_columns:,} numbers for each node and may never end; "
            f"channels have converged after some hundred steps. Give -P of at most {MAX_STEPS:,}, or go on with --force"
        )


def _checked(job: FileJob) -> Writer:
    """What writes the array, if the job can be done and replaces nothing that it must not."""
    refuse_endless(job)
    job.contents.kept  # noqa: B018 - raises if there are no such steps
    if job.stream and job.fastrp is not None:
        raise ArgumentError("FastRP adds up its steps and holds k columns alone: leave --stream out")
    if job.stream and not job.can_stream:
        raise ArgumentError(f"--stream writes .npy only, got {job.output}; use -o {job.path.with_suffix('.npy')}")
    if job.stream and job.settings.cache is not None:
        raise ArgumentError("--stream and --cache contradict each other: a stream is never whole; give one of them")
    if job.to_stdout:
        return write_npy
    writer = find_writer(job.path)
    written = (job.path, job.sidecar, job.nodes_file)
    refuse_to_replace_inputs([Path(file) for file in job.files], written)
    there = [str(path) for path in written if path.exists()]
    if there and not job.force:
        raise FileError(f"{' and '.join(there)} already there; choose another name, or replace with --force")
    if job.path.is_dir():
        raise FileError(f"{job.path} is a folder; give a file name")
    if not job.path.absolute().parent.is_dir():  # no failed write, but a wrong name, and seen before anything is read
        raise FileError(f"{job.path}: the folder {job.path.parent} does not exist; create it first")
    return writer


def _planned(job: FileJob, graph: Graph) -> tuple[Estimate, bool]:
    """What the job costs, and whether it is streamed: as was asked for, otherwise by the memory that is free.

    Raises:
        MemoryShortError: It would take more memory than there is even when it is streamed; unless forced.
    """
    cost, available = job.cost(graph), available_memory(job.device)
    k = job.contents.settings.num_channels
    if available is not None and cost.working_bytes > available and not job.force:
        raise MemoryShortError(
            f"{', '.join(job.files)} needs {_size(cost.working_bytes)} of memory beside the result and "
            f"{_size(available)} is free (a state has {_size(cost.trajectory_bytes / len(job.contents.kept))}, a "
            f"k x k matrix {_size(8 * k * k)}); use fewer channels or trajectories, or go on with --force"
        )
    if job.stream is not None or job.fastrp is not None:
        return cost, bool(job.stream)
    if available is None or cost.total_bytes <= MEMORY_SHARE * available:
        return cost, False
    if not job.can_stream:
        raise MemoryShortError(
            f"the encoding needs {_size(cost.total_bytes)} of memory and {_size(available)} is free; "
            f"write it step by step with -o {job.path.with_suffix('.npy')}, or store less (--storage-dtype float16)"
        )
    return cost, True


def _size(count: float) -> str:
    """Bytes for people, 8e12 as ``8.0 TB``."""
    from rich.filesize import decimal  # of the extra that reads files

    return decimal(int(count))


class _Files(NamedTuple):
    """What is open for writing; standard output has nothing beside it."""

    out: IO[bytes]
    sidecar: IO[bytes] | None = None
    nodes: IO[bytes] | None = None


@contextmanager
def _opened(job: FileJob, apart: bool, num_bytes: int) -> Iterator[_Files]:
    """Standard output, or files that appear together when all of them are written."""
    if not job.to_stdout:
        check_free_space(job.path.absolute().parent, num_bytes, job.output)
        written = [job.path, job.sidecar, *([job.nodes_file] if apart else [])]
        with atomic_files(written, new=not job.force) as files:
            yield _Files(*files)
        return
    try:
        yield _Files(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"standard output cannot be written ({error.strerror or error})") from error


class _Clock:
    """Seconds since the last lap, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self.last = round(now - self.last, 3), now
