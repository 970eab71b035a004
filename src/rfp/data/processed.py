"""Data sets that were read once, kept as plain tensors under a key of everything they depend on."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from rfp._version import __version__
from rfp.atomic import atomic_files
from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.tasks import PARTS, Task
from rfp.errors import FileError


def content_key(name: str, digests: Mapping[str, str]) -> str:
    """SHA-256 of the raw files' digests, the library's version and the sources of this package, which reads them."""
    key = hashlib.sha256(f"rfp {__version__} {name} {sorted(digests.items())}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        key.update(source.read_bytes())
    return key.hexdigest()[:32]


def load_or_read(path: Path, task: Task, read: Callable[[], LoadedTask]) -> LoadedTask:
    """The data set in ``path``, or, if that is not there or not readable, what ``read`` gives, which is then kept.

    Args:
        path: A file named after :func:`content_key`.
        task: Task of the data set.
        read: Reads the raw files.
    """
    try:
        return _from_content(torch.load(path, weights_only=True), task)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except Exception as error:  # torch.load names no exception type; any unreadable entry is made again
        warnings.warn(f"{path} cannot be read and is made again ({type(error).__name__})", stacklevel=2)
    loaded = read()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_files([path]) as (file,):
            torch.save(_to_content(loaded), file)
    except (OSError, RuntimeError) as error:  # torch reports a failed write as a RuntimeError
        reason = str(error).split(";")[0] if isinstance(error, FileError) else str(error)
        warnings.warn(
            f"{task.name} was read but not kept for the next time: {reason}. Choose a writable folder with RFP_CACHE",
            stacklevel=2,
        )
    return loaded


def _to_content(loaded: LoadedTask) -> dict[str, Any]:
    graphs = loaded.graphs
    return {
        "edge_index": graphs.edge_index,
        "ptr": graphs.ptr,
        "edge_ptr": graphs.edge_ptr,
        "nodes": dict(graphs.nodes),
        "edges": dict(graphs.edges),
        "y": loaded.y,
        "masks": {part: loaded.masks[part] for part in PARTS},
        "source": loaded.source,
        "raw_y": loaded.raw_y,
        "y_scale": loaded.y_scale,
        "notes": list(loaded.notes),
    }


def _from_content(content: dict[str, Any], task: Task) -> LoadedTask:
    graphs = GraphCollection(
        content["edge_index"], content["ptr"], content["edge_ptr"], content["nodes"], content["edges"]
    )
    return LoadedTask(
        task=task,
        graphs=graphs,
        y=content["y"],
        masks=content["masks"],
        source=content["source"],
        raw_y=content["raw_y"],
        y_scale=content["y_scale"],
        notes=tuple(content["notes"]),
    )
