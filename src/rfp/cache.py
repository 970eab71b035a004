"""A folder of computed encodings, keyed by content: a stale entry cannot be read back."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from rfp._version import __version__
from rfp.atomic import atomic_files, make_folder
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.report import Report
from rfp.settings import Settings


class EncodingCache:
    """Trajectories on disk under the SHA-256 of graph content, every argument and the library's version.

    Files are written under another name and renamed, so a killed run leaves nothing that could be read, and loaded
    with ``weights_only=True``. A file that cannot be read, or is not what was written, is computed again and replaced.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def key(self, settings: Settings, graph: Graph, features: Tensor | None, graph_keys: Tensor | None) -> str:
        """The name of the entry; raises for arguments whose content cannot be hashed."""
        if not isinstance(settings.normalization, str) or not isinstance(settings.distribution, str):
            raise ArgumentError("cache= needs a named normalization and distribution: a callable cannot be hashed")
        for operator in settings.operators:
            kind = getattr(operator, "layout", type(operator).__name__)
            if not isinstance(operator, str) and kind != torch.strided:
                raise ArgumentError(f"cache= needs operators given by name or as a dense tensor, got {kind}")
        names = [operator if isinstance(operator, str) else "matrix" for operator in settings.operators]
        text = settings.as_text(leave_out=("operators", "cache"))
        digest = hashlib.sha256(f"rfp {__version__} {text}, operators={names} n={graph.num_nodes}".encode())
        tensors = [graph.edge_index, graph.edge_weight, graph.ptr, features, graph_keys]
        tensors += [operator for operator in settings.operators if isinstance(operator, Tensor)]
        tensors += [] if graph.known_keys is None else [graph.known_keys]
        for tensor in tensors:
            digest.update(b"-" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            if tensor is not None:
                digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()

    def through(
        self,
        settings: Settings,
        graph: Graph,
        features: Tensor | None,
        graph_keys: Tensor | None,
        compute: Callable[[], tuple[Tensor, Report]],
    ) -> tuple[Tensor, Report]:
        """The states and the report of these arguments; computed, and kept, where they are not here."""
        path = self.folder / f"{self.key(settings, graph, features, graph_keys)}.pt"
        try:
            content = torch.load(path, weights_only=True)
            events, storage = json.loads(content["events"]), content["storage"]
            if content["crc32"] != _crc32(storage):
                raise ValueError("the states are not what was written")
            return storage.to(graph.device), Report(content["backend"], f"cached in {path}", [events])
        except Exception:  # torch.load names no exception type; what cannot be read is computed again
            make_folder(self.folder)
            storage, report = compute()
        kept = {"storage": storage.cpu(), "crc32": _crc32(storage), "backend": report.backend}
        with atomic_files([path]) as (file,):
            torch.save({**kept, "events": json.dumps(report.events)}, file)
        return storage, report


def _crc32(states: Tensor) -> int:
    """Of their bytes: torch reads a file of which some have changed without a word."""
    return zlib.crc32(states.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
