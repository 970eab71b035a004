"""Files in, a file out: read a graph, encode it in memory or step by step, write so that all appears or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rfp.atomic import atomic_files, check_free_space, refuse_to_replace_inputs
from rfp.backends.reference import REFERENCE
from rfp.baselines.fastrp import FastRP, fast_random_projection
from rfp.encode import encode_steps
from rfp.errors import ArgumentError, FileError, WriteError
from rfp.estimate import Estimate, available_memory, estimate_sizes
from rfp.graph import Graph
from rfp.io import EncodedNodes, LoadedGraph, ReadOptions, read_files
from rfp.io.metadata import arguments, as_text, describe_input, describe_output, describe_report, versions
from rfp.io.writers import Writer, find_writer, write_node_ids, write_npy
from rfp.report import Report
from rfp.settings import Settings
from rfp.streaming import stream_graph
from rfp.trajectory import kept_steps

# Above this part of the free memory the result is streamed: the estimate leaves out what the allocator wastes.
MEMORY_SHARE = 0.7
# Steps beyond which nobody waits: a step takes 5 to 100 microseconds even on a graph of a few nodes.
MAX_STEPS = 1_000_000
# Decompositions, and multiplications in them (n k² for each), up to which a new process is done by the plain loop
# before it would have loaded Numba: some tenths of a second.
ALONE_MAX_DECOMPOSITIONS, ALONE_MAX_WORK = 512, 10**8
_NO_NUMBA = "a small graph in a new process, which would take longer to load Numba"


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
    def effective(self) -> Settings:
        """The settings of what is computed."""
        if self.fastrp is None:
            return self.settings
        size, steps = self.fastrp.embedding_dimension, len(self.fastrp.iteration_weights)
        return Settings(
            num_channels=size,
            num_steps=steps,
            operators=("random_walk",),
            normalization="none",
            seed=self.fastrp.seed,
            dtype=self.settings.dtype,
            storage_dtype=self.settings.storage_dtype,
        )

    @property
    def kept(self) -> list[int]:
        """The steps that are written; FastRP writes their sum, which is as wide as one of them."""
        steps = self.effective.num_steps
        return [steps] if self.fastrp is not None else sorted(kept_steps(self.keep, steps))

    def cost(self, graph: Graph) -> Estimate:
        """What it costs to compute and to keep what is written."""
        whole = estimate_sizes(self.effective, graph.num_nodes, graph.num_edges, graph.num_graphs)
        num_steps = self.effective.num_steps
        per_step = {"trajectory_bytes": whole.trajectory_bytes, "width": whole.width}
        return replace(whole, **{name: size // (num_steps + 1) * len(self.kept) for name, size in per_step.items()})

    def describe(self, num_nodes: int) -> dict[str, dict[str, Any]]:
        """Every argument of what is computed, and shape, type and columns of the array, as JSON values."""
        kept = None if self.keep == "all" and self.fastrp is None else self.kept
        about, output = arguments(self.effective), describe_output(self.effective, num_nodes, self.output, kept)
        if self.fastrp is not None:
            parameters = {**asdict(self.fastrp), "iteration_weights": list(self.fastrp.iteration_weights)}
            chosen = {"preset": "fastrp", **parameters, "node_features": self.node_features}
            about = {**chosen, "dtype": about["dtype"], "storage_dtype": about["storage_dtype"]}
            size = self.fastrp.embedding_dimension
            output["layout"] = [{"operator": "fastrp", "step": "weighted sum", "start": 0, "stop": size}]
        elif kept is not None:
            about["steps_kept"] = kept
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

    @property
    def writer(self) -> Writer:
        """What writes the array."""
        return write_npy if self.to_stdout else find_writer(self.path)

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
        FileError: An input cannot be read, or an output is there already.
        WriteError: The output cannot be written.
    """
    _check_job(job)
    clock = _Clock()
    progress.stage(f"reading {', '.join(job.files)}", None)
    loaded = read_files(job.files, job.options)
    clock.lap("read")
    if on_read is not None:
        on_read(loaded)
    cost, available = job.cost(loaded.graph), available_memory(job.device)
    _refuse_endless(job, cost, available)
    streamed = _streams(job, cost, available)
    apart = job.names_rows_apart(loaded)
    described = job.describe(loaded.graph.num_nodes)
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
    progress.stage("propagating", job.effective.num_steps * len(job.effective.operators))
    with _opened(job, apart, cost.trajectory_bytes) as files:
        _compute(job, loaded, streamed, files, progress, about, clock)
    if not apart and not job.to_stdout:
        job.nodes_file.unlink(missing_ok=True)  # of the encoding that force replaced
    clock.lap("write")
    return {**about, "seconds": clock.seconds}


def _check_job(job: FileJob) -> None:
    job.kept  # noqa: B018 - raises if there are no such steps
    if job.stream and job.fastrp is not None:
        raise ArgumentError("FastRP adds up its steps and holds k columns alone: leave --stream out")
    if job.stream and not job.can_stream:
        raise ArgumentError(f"--stream writes .npy only, got {job.output}; use -o {job.path.with_suffix('.npy')}")
    if job.stream and job.settings.cache is not None:
        raise ArgumentError("--stream and --cache contradict each other: a stream is never whole; give one of them")
    if job.to_stdout:
        return
    job.writer  # noqa: B018 - raises if there is none for the suffix
    written = (job.path, job.sidecar, job.nodes_file)
    refuse_to_replace_inputs([Path(file) for file in job.files], written)
    there = [str(path) for path in written if path.exists()]
    if there and not job.force:
        raise FileError(f"{' and '.join(there)} already there; choose another name, or replace with --force")
    if job.path.is_dir():
        raise FileError(f"{job.path} is a folder; give a file name")


def _refuse_endless(job: FileJob, cost: Estimate, available: int | None) -> None:
    """Refuse, unless forced, what would take days, or more memory than there is even when it is streamed."""
    if job.force:
        return
    k, steps = job.effective.num_channels, job.effective.num_steps
    if steps > MAX_STEPS:
        raise ArgumentError(
            f"-P {steps:,} gives {cost.width:,} numbers for each node and may never end; channels have converged after "
            f"some hundred steps. Give -P of at most {MAX_STEPS:,}, or go on with --force"
        )
    if available is not None and cost.working_bytes > available:
        raise MemoryShortError(
            f"{', '.join(job.files)} needs {_size(cost.working_bytes)} of memory beside the result and "
            f"{_size(available)} is free (a state has {_size(cost.trajectory_bytes / len(job.kept))}, a "
            f"k x k matrix {_size(8 * k * k)}); use fewer channels or trajectories, or go on with --force"
        )


def _size(count: float) -> str:
    """Bytes for people, 8e12 as ``8.0 TB``."""
    from rich.filesize import decimal  # of the extra that reads files

    return decimal(int(count))


def _streams(job: FileJob, cost: Estimate, available: int | None) -> bool:
    """Whether to stream. What was asked for is obeyed; otherwise by the memory that is free."""
    if job.stream is not None or job.fastrp is not None:
        return bool(job.stream)
    if available is None or cost.total_bytes <= MEMORY_SHARE * available:
        return False
    if not job.can_stream:
        raise MemoryShortError(
            f"the encoding needs {_size(cost.total_bytes)} of memory and {_size(available)} is free; "
            f"write it step by step with -o {job.path.with_suffix('.npy')}, or store less (--storage-dtype float16)"
        )
    return True


def _in_memory(job: FileJob, graph: Graph, progress: Progress) -> tuple[Tensor, Report]:
    """What is written, ``[n, C]`` or ``[n, B, C]`` on the CPU; only the steps that are kept are held."""
    if job.fastrp is not None:
        x = None if job.node_features is None else _read_features(job.node_features, graph.num_nodes)
        dtype = job.settings.dtype
        rows = fast_random_projection(graph, job.fastrp, x=x, dtype=dtype, progress=progress.advance)
        return rows.to("cpu", job.settings.kept_dtype), Report("fastrp", "the preset")
    alone = (REFERENCE, _NO_NUMBA) if _done_before_numba_is_loaded(job.settings, graph) else None
    rows, report = encode_steps(graph, job.settings, job.kept, chosen=alone, progress=progress.advance)
    return (rows[:, 0] if rows.size(1) == 1 else rows).cpu(), report


def _done_before_numba_is_loaded(settings: Settings, graph: Graph) -> bool:
    """Whether the plain loop, which defines the result, takes less time here than a new process takes for Numba."""
    if settings.backend != "auto" or settings.cache is not None or graph.device.type != "cpu" or "numba" in sys.modules:
        return False
    runs = settings.num_steps * len(settings.operators) * settings.num_trajectories
    work = graph.num_nodes * settings.num_channels**2 * runs
    return graph.num_graphs * runs <= ALONE_MAX_DECOMPOSITIONS and work <= ALONE_MAX_WORK


def _read_features(path: str, num_nodes: int) -> Tensor:
    try:
        values = np.load(path, allow_pickle=False)
        x = torch.from_numpy(np.asarray(values, dtype=np.float64))
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise FileError(f"{path}: not an .npy file of numbers ({error})") from error
    if x.dim() not in (1, 2) or len(x) != num_nodes:
        raise FileError(f"{path}: must have a row for each of the {num_nodes} nodes, got shape {list(x.shape)}")
    return x


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
        with atomic_files([job.path, job.sidecar, *([job.nodes_file] if apart else [])]) as files:
            yield _Files(*files)
        return
    try:
        yield _Files(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise WriteError(f"standard output cannot be written ({error.strerror or error})") from error


def _compute(
    job: FileJob,
    loaded: LoadedGraph,
    streamed: bool,
    files: _Files,
    progress: Progress,
    about: dict[str, Any],
    clock: _Clock,
) -> None:
    """Encode and write, step by step or whole; and what is beside it."""
    graph = loaded.graph.to(job.device)
    if streamed:
        report = stream_graph(graph, files.out, job.settings, job.kept, progress=progress.advance)
        about["report"] = describe_report(report)
        clock.lap("encode_and_write")
    else:
        array, report = _in_memory(job, graph, progress)
        about["report"] = describe_report(report)
        clock.lap("encode")
        progress.stage(f"writing {job.output}", None)
        job.writer(files.out, EncodedNodes(array, loaded.node_ids, loaded.graph.ptr, json.dumps(about)))
    if files.nodes is not None:
        write_node_ids(
            files.nodes, EncodedNodes(torch.empty(graph.num_nodes, 0), loaded.node_ids, loaded.graph.ptr, "")
        )
    if files.sidecar is not None:
        files.sidecar.write(as_text(about).encode() + b"\n")


class _Clock:
    """Seconds since the last lap, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self.last = round(now - self.last, 3), now
