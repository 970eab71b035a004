"""From a graph, or from files larger than memory, to sorted row blocks in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rfp.graph import Graph
from rfp.partitioned.layout import Layout, StoredGraph
from rfp.partitioned.row_blocks import BlockLimit, BlockWriter, Entries, merge


def prepare_graph(
    graph: Graph, layout: Layout, *, limit: BlockLimit, source: dict[str, Any] | None = None
) -> StoredGraph:
    """Write a graph that is in memory as row blocks.

    Args:
        graph: One graph, not a batch.
        layout: The folder to write to.
        limit: How large a block may become.
        source: What the manifest says of where the graph came from.
    """
    matrix = graph.to_scipy().tocsr()
    matrix.sort_indices()
    writer = BlockWriter(layout, graph.num_nodes, limit, symmetric=graph.is_undirected())
    writer.hash_edges(*graph.edge_index.long().numpy())
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(matrix.indptr))
    for low in range(0, graph.num_nodes, 1 << 20):
        part = slice(int(matrix.indptr[low]), int(matrix.indptr[min(low + (1 << 20), graph.num_nodes)]))
        columns = matrix.indices[part].astype(np.int64)
        writer.add(Entries(rows[part], columns, matrix.data[part].astype(np.float64)))
    return writer.finish(source or {})


def write_sorted(
    batches: Iterator[dict[str, Any]],
    writer: BlockWriter,
    *,
    duplicates: str | None,
    say: Callable[[int], None] = lambda entries: None,
) -> None:
    """Merge entries that come sorted by (row, column) and hand them to the writer.

    Args:
        batches: Columns ``row``, ``col`` and ``value`` as arrays; a row may go on in the next batch.
        writer: Takes the merged entries.
        duplicates: See :func:`~rfp.partitioned.row_blocks.merge`.
        say: Told the number of entries of each batch.
    """
    held: dict[str, Any] | None = None
    for batch in batches:
        say(len(batch["row"]))
        if held is not None:
            batch = {name: np.concatenate([held[name], batch[name]]) for name in batch}
        # The last row may go on in the next batch.
        complete = int(np.searchsorted(batch["row"], batch["row"][-1])) if len(batch["row"]) else 0
        held = {name: column[complete:] for name, column in batch.items()}
        _hand_on({name: column[:complete] for name, column in batch.items()}, writer, duplicates)
    if held is not None:
        _hand_on(held, writer, duplicates)


def _hand_on(batch: dict[str, Any], writer: BlockWriter, duplicates: str | None) -> None:
    merged = merge(batch["row"], batch["col"], batch["value"], duplicates)
    writer.hash_edges(merged.row, merged.col)
    writer.add(merged)


def describe_source(paths: list[Path]) -> dict[str, Any]:
    """Names, lengths and times of change of the files a graph was made from: whether they are still the same."""
    stats = [(str(path), path.stat()) for path in paths]
    return {"files": [{"name": name, "bytes": stat.st_size, "changed_ns": stat.st_mtime_ns} for name, stat in stats]}
