"""From a graph, or from files larger than memory, to sorted row blocks in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rfp.graph import Graph
from rfp.partitioned.checked_files import save_sum
from rfp.partitioned.layout import Layout, StoredGraph
from rfp.partitioned.row_blocks import LARGER, BlockLimit, BlockWriter, Entries, merge


def prepare_graph(
    graph: Graph,
    layout: Layout,
    *,
    limit: BlockLimit,
    sides: Sequence[str] = (),
    source: dict[str, Any] | None = None,
) -> StoredGraph:
    """Write a graph that is in memory as row blocks.

    Args:
        graph: One graph, not a batch.
        layout: The folder to write to.
        limit: How large a block may become.
        sides: Further matrices to write, of :data:`rfp.partitioned.layout.SIDES`.
        source: What the manifest says of where the graph came from.
    """
    matrix = graph.to_scipy().tocsr()
    more = {"T": lambda: matrix.T.tocsr(), "sym": lambda: graph.to_undirected().to_scipy().tocsr()}
    others = {side: more[side]() for side in sides}
    cuts = limit.cuts(np.max([np.diff(each.indptr).astype(np.int64) for each in (matrix, *others.values())], axis=0))
    writer = BlockWriter(layout, cuts, symmetric=graph.is_undirected())
    writer.hash_edges(*graph.edge_index.long().numpy())
    _write_matrix(matrix, writer)
    for side, other in others.items():
        second = BlockWriter(layout, cuts, symmetric=side == "sym", side=side)
        _write_matrix(other, second)
        second.finish({})
    return writer.finish(source or {})


def _write_matrix(matrix: Any, writer: BlockWriter) -> None:
    matrix.sort_indices()
    for low, high in pairwise(writer.cuts):
        part = slice(int(matrix.indptr[low]), int(matrix.indptr[high]))
        rows = np.repeat(np.arange(low, high), np.diff(matrix.indptr[low : high + 1]))
        writer.add(Entries(rows, matrix.indices[part].astype(np.int64), matrix.data[part].astype(np.float64)))


def write_sorted(
    batches: Iterator[dict[str, Any]],
    writer: BlockWriter,
    *,
    duplicates: str | None,
    both_directions: bool = False,
    say: Callable[[int], None] = lambda entries: None,
) -> None:
    """Merge entries that come sorted by (row, column) and hand them to the writer.

    Args:
        batches: Columns ``row``, ``col`` and ``value`` as arrays; a row may go on in the next batch.
        writer: Takes the merged entries.
        duplicates: See :func:`~rfp.partitioned.row_blocks.merge`.
        both_directions: Columns are doubled, and odd where the edge is listed the other way round: of the two
            directions, each merged, the larger is taken.
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
        _hand_on({name: column[:complete] for name, column in batch.items()}, writer, duplicates, both_directions)
    if held is not None:
        _hand_on(held, writer, duplicates, both_directions)


def _hand_on(batch: dict[str, Any], writer: BlockWriter, duplicates: str | None, both_directions: bool) -> None:
    merged = merge(batch["row"], batch["col"], batch["value"], duplicates)
    if both_directions:
        merged = merge(merged.row, merged.col // 2, merged.value, LARGER)
    writer.hash_edges(merged.row, merged.col)
    writer.add(merged)


def write_ids(layout: Layout, ids: Any) -> None:
    """Store the name of each node."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    layout.node_ids_file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids)}), layout.node_ids_file)
    save_sum(layout.node_ids_file)
