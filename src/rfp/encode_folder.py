"""Files in, a folder of row blocks out, or one file from it: what ``rfp encode`` does when memory will not do."""

from __future__ import annotations

import json
import math
import re
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rfp.atomic import atomic_files, check_free_space, refuse_to_replace_inputs
from rfp.encode_file import FileJob, MemoryShortError, Progress, encode_file, refuse_endless
from rfp.errors import ArgumentError, FileError
from rfp.estimate import available_memory, estimate_sizes
from rfp.io import LoadedGraph
from rfp.io.compression import open_unpacked
from rfp.io.metadata import as_text, describe_report, versions
from rfp.io.readers import find_parts
from rfp.io.writers import EncodedNodes, write_node_ids

if TYPE_CHECKING:
    from rfp.partitioned.reader import PartitionedEncoding

# Python, PyTorch and Numba take this much before anything is computed (0.22 GB of pages of their own were measured).
OWN_BYTES = 230_000_000
_LEAST_BYTES = 300_000_000
# Of the memory that is free, by default.
_FREE_PART = 0.6
_CLUSTER_BYTES = 2_000_000_000
# Text that is packed is about so many times as long unpacked; the bytes of a text that are in memory as it is read.
_PACKED, _READING_COPIES = 4, 3
# The factors of a QR of so many channels take 11 GB.
_MOST_CHANNELS = 10_000
_EXPORTS = (".npy", ".parquet")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def parse_size(text: str) -> int:
    """Bytes from ``"2GB"``, ``"330 MB"``, ``"1.5GiB"`` or a number.

    >>> parse_size("330MB"), parse_size("2 GiB"), parse_size("1e9")
    (330000000, 2147483648, 1000000000)
    """
    found = re.fullmatch(r"([0-9.]+(?:e[0-9]+)?)\s*([kmgt]i?)?b?", text.strip(), re.IGNORECASE)
    try:
        size = float(found[1]) * _UNITS[(found[2] or "").lower()] if found else -1.0
    except ValueError:
        size = -1.0
    if not 0 < size < math.inf:
        raise ArgumentError(f"--memory must be a size such as 2GB, 330MB or 1.5GiB, got {text!r}")
    return int(size)


@dataclass(frozen=True)
class Resources:
    """What an encoding by row blocks may use.

    Args:
        memory: Bytes of each process; ``None`` for a part of what is free.
        workers: Processes under Dask on this machine; ``None`` for this one.
        scheduler: Address of a scheduler of Dask instead.
        resume: Go on with what the folder holds; ``False`` begins anew.
    """

    memory: int | None = None
    workers: int | None = None
    scheduler: str | None = None
    resume: bool = True

    def __post_init__(self) -> None:
        if self.workers is not None and self.scheduler is not None:
            raise ArgumentError("--workers starts a cluster here, --scheduler takes another one; give one of them")
        if self.memory is not None and self.memory < _LEAST_BYTES:
            raise ArgumentError(
                f"--memory {self.memory / 1e6:.0f}MB is less than Python and PyTorch need; give at least "
                f"{_LEAST_BYTES / 1e6:.0f}MB"
            )

    @property
    def given(self) -> bool:
        """Whether any was asked for."""
        return (self.memory, self.workers, self.scheduler) != (None, None, None)

    @property
    def bytes_for_numbers(self) -> int:
        """What is left for blocks and panels in each process."""
        if self.memory is not None:
            return self.memory - OWN_BYTES
        free = None if self.scheduler is not None else available_memory()
        share = _CLUSTER_BYTES if free is None else int(free * _FREE_PART) // (self.workers or 1)
        return max(share, _LEAST_BYTES) - OWN_BYTES


def is_folder(output: str) -> bool:
    """Whether a name means a folder: it ends with a slash, is one, or has no suffix.

    >>> is_folder("store"), is_folder("store/"), is_folder("store.npy"), is_folder("-")
    (True, True, False, False)
    """
    return output != "-" and (output.endswith("/") or Path(output).is_dir() or not Path(output).suffix)


def obstacle(job: FileJob) -> str | None:
    """Why a job cannot be done by row blocks; ``None`` if it can."""
    return _plain_obstacle(job) or _argument_obstacle(job)


def _plain_obstacle(job: FileJob) -> str | None:
    """What is seen before anything of row blocks is loaded."""
    if not is_folder(job.output) and job.path.suffix.lower() not in _EXPORTS:
        return f"row blocks become a folder, .npy or .parquet, got -o {job.output}"
    if job.fastrp is not None or job.keep != "all":
        return "row blocks hold whole encodings: leave out --preset, --last-only and --steps-kept"
    if job.settings.num_channels > _MOST_CHANNELS:
        return f"row blocks cut the nodes, but k x k matrices stay whole: -k of at most {_MOST_CHANNELS:,}"
    if job.settings.backend != "auto":
        return f"--backend {job.settings.backend} is of encodings in memory: leave it out"
    if job.settings.cache is not None:
        return "the folder is its own cache: leave out --cache"
    if job.stream:
        return "--stream is of encodings in memory: leave it out"
    return None


def _argument_obstacle(job: FileJob) -> str | None:
    from rfp.partitioned.encode_source import plain_arguments

    try:
        plain_arguments(job.settings)
    except ArgumentError as error:
        return str(error)
    return None


def why_folder(job: FileJob, resources: Resources) -> str | None:
    """Why a job is done by row blocks, in words; ``None`` if it is to be done in memory.

    Raises:
        ArgumentError: That was asked for and cannot be.
    """
    if resources.given or is_folder(job.output):
        blocked = obstacle(job)
        if blocked is not None:
            raise ArgumentError(blocked)
        return "as asked for"
    if _plain_obstacle(job) is not None or "-" in job.files or job.force:
        return None
    needed, free = least_bytes(job), available_memory()
    if free is None or needed <= free or _argument_obstacle(job) is not None:
        return None
    return f"reading it takes at least {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free"


def least_bytes(job: FileJob) -> int:
    """Memory that reading the files and holding their graph takes at least, from their sizes; 0 if that is unknown."""
    name, parts, _ = find_parts(job.files, job.options)
    if name not in ("edges", "parquet") or not all(part.is_file() for part in parts):
        return 0
    lines, text = 0.0, 0.0
    for part in parts:
        if name == "parquet":
            lines += _parquet_rows(part)
            continue
        with open_unpacked(part) as (stream, packed):
            begin = stream.read(1 << 16)
        size = part.stat().st_size * (_PACKED if packed else 1)
        text += size
        lines += size * begin.count(b"\n") / max(len(begin), 1)
    both = 1 if job.options.directed else 2
    return int(_READING_COPIES * text) + estimate_sizes(job.settings, 0, int(lines) * both).working_bytes


def _parquet_rows(path: Path) -> int:
    try:
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    except (ImportError, OSError, ValueError):  # who reads it says what is wrong
        return 0


def encode_job(
    job: FileJob,
    resources: Resources,
    progress: Progress,
    *,
    on_read: Callable[[LoadedGraph], None],
    on_blocks: Callable[[str], None],
    say: Callable[[str], None],
    steps_aloud: bool,
) -> dict[str, Any]:
    """In memory; by row blocks where that is asked for, or where memory will not do.

    Args:
        job: What to do.
        resources: What row blocks may use.
        progress: Is told what is being done.
        on_read: Is given the graph when it has been read into memory, before anything is computed.
        on_blocks: Is told why it is done by row blocks, before that begins.
        say: See :func:`encode_folder`.
        steps_aloud: See :func:`encode_folder`.

    Returns:
        What the side-car of the result holds, and the seconds it took.
    """
    refuse_endless(job)
    why = why_folder(job, resources)
    if why is None:
        try:
            return encode_file(job, progress, on_read=on_read)
        except MemoryShortError as error:
            if obstacle(job) is not None or "-" in job.files:
                raise
            why = str(error)
    on_blocks(why)
    return encode_folder(job, resources, progress, say=say, steps_aloud=steps_aloud)


def encode_folder(
    job: FileJob, resources: Resources, progress: Progress, *, say: Callable[[str], None], steps_aloud: bool
) -> dict[str, Any]:
    """Prepare, encode, and write one file of it if that is what was asked for; goes on where it was cut.

    Args:
        job: What to do. Its output is the folder, or a file beside which the folder stands until it is written.
        resources: What may be used.
        progress: Is told what is being done.
        say: Gets a line for what is worth one.
        steps_aloud: Whether it gets one for every finished step, with the time left.
    """
    from rfp.partitioned.dask_executor import Dask
    from rfp.partitioned.encode_source import encode_source, finished_steps
    from rfp.partitioned.sources import FileSource
    from rfp.step_clock import StepClock

    folder = Path(job.output) if is_folder(job.output) else Path(job.output + ".blocks")
    exported = None if is_folder(job.output) else job.path
    _check_outputs(job, folder, exported, anew=not resources.resume)
    clock = StepClock(progress, job.settings.num_steps, len(job.settings.operators), say if steps_aloud else None)
    source = FileSource(job.files, job.options)
    done, total = finished_steps(source, folder, job.settings), clock.num_steps
    if done is not None:
        say(f"{folder}: {done} of {total} steps are there{', going on' if done < total else ''}")
    started = time.perf_counter()
    several = resources.workers is not None or resources.scheduler is not None
    with Dask(resources.workers, scheduler=resources.scheduler, say=say) if several else nullcontext() as executor:
        encoding = encode_source(
            source,
            folder,
            job.settings,
            memory=resources.bytes_for_numbers,
            executor=executor,
            device="cuda" if "cuda" in str(job.device) else "cpu",
            tick=clock.tick,
            say=say,
        )
    clock.finish()
    about = _describe(job, encoding)
    if exported is not None:
        _export(job, encoding, exported, about, progress)
        shutil.rmtree(folder)
    return {**about, "seconds": {"total": round(time.perf_counter() - started, 3)}}


def _check_outputs(job: FileJob, folder: Path, exported: Path | None, *, anew: bool) -> None:
    from rfp.partitioned.encode_source import remove_all
    from rfp.partitioned.layout import Layout
    from rfp.partitioned.lock import locked

    written = [folder] if exported is None else [exported, job.sidecar, job.nodes_file]
    refuse_to_replace_inputs(job.files, [folder, *written])
    there = [str(path) for path in written if exported is not None and path.exists()]
    if there and not job.force:
        raise FileError(f"{' and '.join(there)} already there; choose another name, or replace with --force")
    if (anew or (job.force and exported is None)) and Layout(folder).manifest_file.exists():
        with locked(folder):
            remove_all(Layout(folder))


def _describe(job: FileJob, encoding: PartitionedEncoding) -> dict[str, Any]:
    graph = encoding.manifest.graph
    described = job.describe(graph.num_nodes)
    return {
        "versions": versions(),
        "arguments": described["arguments"],
        "input": {
            **graph.source,
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "undirected": graph.symmetric,
            "row_blocks": graph.num_blocks,
        },
        "output": described["output"],
        "report": describe_report(encoding.report),
    }


def _export(job: FileJob, encoding: PartitionedEncoding, path: Path, about: dict[str, Any], progress: Progress) -> None:
    """The one file that was asked for, its side-car, and the names of the rows where it does not hold them."""
    num_bytes = encoding.num_nodes * job.settings.num_trajectories * job.settings.num_columns
    check_free_space(path.absolute().parent, num_bytes * job.settings.dtype.itemsize, job.output)
    progress.stage(f"writing {path}", encoding.manifest.graph.num_blocks)
    ids = encoding.node_ids() if path.suffix.lower() == ".npy" else None
    about["output"]["node_ids_file"] = None if ids is None else str(job.nodes_file)
    encoding.export(path, progress.advance, metadata=json.dumps(about))
    with atomic_files([*([] if ids is None else [job.nodes_file]), job.sidecar]) as files:
        if ids is not None:
            write_node_ids(files[0], EncodedNodes(torch.empty(encoding.num_nodes, 0), ids, None, ""))
        files[-1].write(as_text(about).encode() + b"\n")
