"""What a reader is told, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rfp.graph import Graph

# int64 numbers, or Python strings in an object array: the name of node i is node_ids[i].
NodeIds = NDArray[np.int64] | NDArray[np.object_]


@dataclass(frozen=True)
class ReadOptions:
    """How a file is to be read; ``None`` leaves it to the file.

    Args:
        format: A key of :data:`rfp.io.readers.FORMATS`; ``None`` goes by the suffix.
        directed: Keep the direction of the edges. ``None``: undirected for edge lists and Parquet, as stored otherwise.
        num_nodes: The ids are the node numbers 0 to ``num_nodes - 1``, and those that do not appear are isolated nodes.
            ``None``: the nodes are the distinct ids that appear.
        source_column: Name, or 1-based position, of the column of source ids.
        target_column: The same for target ids.
        weight_column: The same for weights (GraphML: name of the edge attribute).
        unweighted: Ignore the weights: every edge counts 1.
        header: Whether the first line of an edge list names the columns.
        delimiter: What separates the columns of an edge list; ``" "`` means any white space.
    """

    format: str | None = None
    directed: bool | None = None
    num_nodes: int | None = None
    source_column: str | None = None
    target_column: str | None = None
    weight_column: str | None = None
    unweighted: bool = False
    header: bool | None = None
    delimiter: str | None = None


@dataclass(frozen=True)
class LoadedGraph:
    """A graph and what its file said about it.

    Args:
        graph: The graph, directions and duplicates as asked for.
        node_ids: The name of each node, ``[n]``, or ``None`` where they are simply 0 to n - 1.
        directed: Whether the direction of the edges was kept.
        weights: Where the weights came from, or ``None`` for an unweighted graph.
        ignored: Columns that were not used.
    """

    graph: Graph
    node_ids: NodeIds | None = None
    directed: bool = True
    weights: str | None = None
    ignored: tuple[str, ...] = ()
