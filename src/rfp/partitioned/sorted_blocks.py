"""From a graph, or from files larger than memory, to sorted row blocks in a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rfp.edge_table.node_ids import shown
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
    name: Callable[[int], str] = str,
    say: Callable[[int], None] = lambda entries: None,
) -> None:
    """Merge entries that come sorted by (row, column) and hand them to the writer.

    Args:
        batches: Columns ``row``, ``col`` and ``value`` as arrays; a row may go on in the next batch.
        writer: Takes the merged entries.
        duplicates: See :func:`~rfp.partitioned.row_blocks.merge`.
        both_directions: Columns are doubled, and odd where the edge is listed the other way round: of the two
            directions, each merged, the larger is taken.
        name: What a node is called in an error.
        say: Told the number of entries of each batch.
    """

    def hand_on(batch: dict[str, Any]) -> None:
        merged = merge(batch["row"], batch["col"], batch["value"], duplicates, name)
        if both_directions:
            merged = merge(merged.row, merged.col // 2, merged.value, LARGER)
        writer.hash_edges(merged.row, merged.col)
        writer.add(merged)

    held: dict[str, Any] | None = None
    for batch in batches:
        say(len(batch["row"]))
        if held is not None:
            batch = {key: np.concatenate([held[key], batch[key]]) for key in batch}
        # The last row may go on in the next batch.
        complete = int(np.searchsorted(batch["row"], batch["row"][-1])) if len(batch["row"]) else 0
        held = {key: column[complete:] for key, column in batch.items()}
        hand_on({key: column[:complete] for key, column in batch.items()})
    if held is not None:
        hand_on(held)


def write_ids(layout: Layout, ids: Any) -> None:
    """Store the name of each node."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    layout.node_ids_file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids)}), layout.node_ids_file)
    save_sum(layout.node_ids_file)


def name_of(layout: Layout, node: int) -> str:
    """What a node is called in the files that it comes from."""
    if not layout.named():
        return str(node)
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(layout.node_ids_file).iter_batches(columns=["id"]):
        if node < len(batch):
            found = batch["id"][node].as_py()
            return shown(found) if isinstance(found, str) else str(found)
        node -= len(batch)
    return str(node)
