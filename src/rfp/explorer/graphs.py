"""The graphs on the page: what was opened or dropped, its edges to draw, its layout as it forms."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.explorer.jobs import Job
from rfp.explorer.limits import Limits
from rfp.graph import Graph
from rfp.io import LoadedGraph, ReadOptions, read_files
from rfp.viz import node_positions

# Dropped graphs kept; the one the page was started with is always there.
_KEPT_UPLOADS = 8


@dataclass
class OpenGraph:
    """A graph that can be explored.

    Args:
        loaded: The graph and its node ids.
        name: What the page calls it.
        source: How to get it again: ``("karate", "")``, ``("file", path)`` or ``("upload", name)``.
        options: Reading options that differ from the defaults, by name.
        initial: Settings the page begins with, where they are not the defaults.
    """

    loaded: LoadedGraph
    name: str
    source: tuple[str, str]
    options: dict[str, Any] = field(default_factory=dict)
    initial: dict[str, Any] = field(default_factory=dict)
    positions: node_positions.Positions = field(init=False)
    version: int = field(default=0, init=False)
    layout_job: Job[None] | None = field(default=None, init=False)
    spectra: dict[tuple[str, int], Any] = field(default_factory=dict, init=False)  # kept by rfp.explorer.analysis

    def __post_init__(self) -> None:
        self.positions = np.zeros((self.graph.num_nodes, 2), np.float32)

    @property
    def graph(self) -> Graph:
        return self.loaded.graph

    @property
    def key(self) -> str:
        """A name by content, ids included: a file dropped twice is one graph, and an address outlives a restart."""
        weight = self.graph.edge_weight
        digest = hashlib.sha256(self.graph.keys.cpu().numpy().tobytes())
        digest.update(b"" if weight is None else weight.cpu().double().numpy().tobytes())
        digest.update(repr((self.name, self.graph.num_nodes, self.graph.num_edges, self.loaded.directed)).encode())
        digest.update(repr(self.ids()).encode())
        return digest.hexdigest()[:12]

    def start_layout(self, pool: ThreadPoolExecutor) -> None:
        """Begin to lay the graph out; :attr:`positions` and :attr:`version` follow as it forms."""

        def work(job: Job[None]) -> None:
            for done, total, placed in node_positions.rounds(self.graph):
                job.total, job.done = total, done
                job.advance(0)
                self.positions = placed
                self.version += 1

        if self.layout_job is None:
            self.layout_job = Job(work).start(pool)

    def describe(self) -> dict[str, Any]:
        """The facts the page shows, as JSON values."""
        job = self.layout_job
        return {
            "name": self.name,
            "source": self.source[0],
            "num_nodes": self.graph.num_nodes,
            "num_edges": self.num_links,
            "num_graphs": self.graph.num_graphs,
            "directed": self.loaded.directed,
            "weighted": self.graph.edge_weight is not None,
            "layout": {
                "method": node_positions.method(self.graph.num_nodes),
                "version": self.version,
                **(job.describe() if job is not None else {}),
            },
        }

    @property
    def num_links(self) -> int:
        """Edges as people count them: once for both directions where direction was not kept."""
        if self.loaded.directed:
            return self.graph.num_edges
        loops = int((self.graph.edge_index[0] == self.graph.edge_index[1]).sum())
        return (self.graph.num_edges + loops) // 2

    def drawn_edges(self, limits: Limits) -> NDArray[np.uint32]:
        """Pairs of joined nodes, ``[m', 2]``; an even sample where there are more than are drawn."""
        source, target = self.graph.edge_index.cpu().numpy()
        if not self.loaded.directed:
            source, target = source[source < target], target[source < target]
        if len(source) > limits.drawn_edges:
            chosen = np.random.default_rng(0).choice(len(source), limits.drawn_edges, replace=False)
            source, target = source[chosen], target[chosen]
        return np.ascontiguousarray(np.stack([source, target], axis=1).astype(np.uint32))

    def degrees(self) -> NDArray[np.float32]:
        """Neighbours each node points to, ``[n]``; duplicates count once each."""
        counts = torch.bincount(self.graph.edge_index[0].cpu().long(), minlength=self.graph.num_nodes)
        return counts.numpy().astype(np.float32)

    def ids(self) -> list[str] | None:
        """The name of each node; ``None`` where they are 0 to n - 1."""
        if self.loaded.node_ids is not None:
            return [str(name) for name in self.loaded.node_ids]
        if self.graph.ptr is None:
            return None
        rows = np.arange(self.graph.num_nodes) - self.graph.offsets[self.graph.batch].numpy()
        return [f"{g}:{i}" for g, i in zip(self.graph.batch.tolist(), rows.tolist(), strict=True)]


def open_file(path: str, options: ReadOptions) -> OpenGraph:
    """A graph from a file that the user of the command named; what is not a default is kept, to be said again."""
    given = {f.name: getattr(options, f.name) for f in fields(options) if getattr(options, f.name) != f.default}
    return OpenGraph(read_files(path, options), Path(path).name, ("file", path), given)


class Shelf:
    """The open graphs by key."""

    def __init__(self, first: OpenGraph, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._uploads: OrderedDict[str, OpenGraph] = OrderedDict()
        self.first, self.first_key = first, first.key
        first.start_layout(pool)

    def add(self, graph: OpenGraph) -> str:
        """Put a dropped graph on the shelf; the oldest makes room."""
        key = graph.key
        if key != self.first_key:
            self._uploads.setdefault(key, graph)
            self._uploads.move_to_end(key)
            self._uploads[key].start_layout(self._pool)
        while len(self._uploads) > _KEPT_UPLOADS:
            _, old = self._uploads.popitem(last=False)
            if old.layout_job is not None:
                old.layout_job.cancel()
        return key

    def get(self, key: str) -> OpenGraph | None:
        return self.first if key == self.first_key else self._uploads.get(key)
