"""How a table of edges is to be read, and the graph that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph

# int64 numbers, or Python strings in an object array: the name of node i is node_ids[i].
NodeIds = NDArray[np.int64] | NDArray[np.object_]

DUPLICATES = ("sum", "first", "max", "error")
IDS = ("text", "int")
_LARGEST_GRAPH = 2**40  # beyond any memory; products of node numbers would not fit 64 bits much later


@dataclass(frozen=True)
class TableOptions:
    """How a table of edges is to be read; ``None`` leaves it to the table.

    The fields are those arguments of :func:`rfp.read_graph` that files and frames have in common; it says what each
    means.
    """

    directed: bool | None = None
    num_nodes: int | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    unweighted: bool = False
    ids: str | None = None
    duplicates: str | None = None

    def __post_init__(self) -> None:
        for name, choices in (("ids", IDS), ("duplicates", DUPLICATES)):
            if getattr(self, name) not in (None, *choices):
                raise unknown_choice(name, getattr(self, name), choices)
        for name in ("source", "target", "weight"):
            value = getattr(self, name)
            if isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, name, str(value))
            elif not isinstance(value, str | None):
                raise ArgumentError(f"{name} must be the name or the number of a column, got {value!r}")
        if self.num_nodes is not None and not 1 <= self.num_nodes <= _LARGEST_GRAPH:
            raise ArgumentError(f"--num-nodes must be between 1 and 2^40, got {self.num_nodes}")
        if self.num_nodes is not None and self.ids == "text":
            raise ArgumentError("--num-nodes and --ids text contradict each other: node numbers are integers")
        if self.weight is not None and self.unweighted:
            raise ArgumentError("--weight and --unweighted contradict each other: give one of them")


@dataclass(frozen=True)
class LoadedGraph:
    """A graph, and how it was read.

    Args:
        graph: The graph, directions and duplicates as asked for.
        node_ids: The name of each node, ``[n]``, or ``None`` where they are simply 0 to n - 1.
        directed: Whether the direction of the edges was kept.
        weights: Where the weights came from, or ``None`` for an unweighted graph.
        ignored: Columns that were not used.
        facts: What was seen and decided, in the order of a reader's interest: ``{"separator": "comma", ...}``.
        first_edges: The first edges as they were read: source, target and, if there is one, weight.
        file: Where it was read from.
        format: How, a key of :data:`rfp.io.FORMATS`.
    """

    graph: Graph
    node_ids: NodeIds | None = None
    directed: bool = True
    weights: str | None = None
    ignored: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    first_edges: tuple[tuple[str, ...], ...] = ()
    file: str = ""
    format: str = ""

    @property
    def size(self) -> str:
        """Nodes and edges in words; an edge that counts both ways is one edge."""
        graph = self.graph
        num_edges, kind = graph.num_edges, "directed"
        if not self.directed:
            loops = int((graph.edge_index[0] == graph.edge_index[1]).sum())
            num_edges, kind = (num_edges + loops) // 2, "undirected"
        graphs = "" if graph.num_graphs == 1 else f"{graph.num_graphs:,} graphs, "
        return f"{graphs}{graph.num_nodes:,} nodes, {num_edges:,} {kind} edges"

    def summary(self) -> str:
        """All of it in one line.

        >>> import torch
        >>> pair = Graph(torch.tensor([[0], [1]]), 2)
        >>> LoadedGraph(pair, file="a.csv", format="edges", facts={"separator": "comma"}).summary()
        'a.csv: 2 nodes, 1 directed edges, unweighted; format edges, separator comma'
        """
        weights = "unweighted" if self.weights is None else f"weights from {self.weights}"
        facts = [f"format {self.format}", *(f"{name} {text}" for name, text in self.facts.items() if name != "weight")]
        facts += [f"ignored column {', '.join(self.ignored)}"] if self.ignored else []
        facts += [f"first edge {' '.join(self.first_edges[0])}"] if self.first_edges else []
        return " ".join(f"{self.file}: {self.size}, {weights}; {', '.join(facts)}".split())

    def preview(self) -> str:
        """The same with a line for each fact, and the first edges as they were read."""
        rows = [("file", self.file), ("format", self.format), *self.facts.items()]
        if self.ignored:
            rows.append(("ignored", "column " + ", ".join(self.ignored)))
        rows += [("graph", self.size), ("weights", self.weights or "none: every edge counts 1")]
        rows += [("first edges" if i == 0 else "", "  ".join(edge)) for i, edge in enumerate(self.first_edges)]
        return "\n".join(f"{name:<12} {' '.join(text.split(chr(10)))}" for name, text in rows)
