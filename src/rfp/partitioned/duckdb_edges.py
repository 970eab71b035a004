"""Edges in files, numbered, doubled and sorted by DuckDB within a limit on memory (extra ``large``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.errors import FileError, GraphError, MissingExtraError, WriteError
from rfp.partitioned.edge_numbers import KEY_BOUND, EdgeScan, NumberedEdges, number_edges, number_of_ids
from rfp.partitioned.layout import Layout, StoredGraph
from rfp.partitioned.row_blocks import BlockLimit, BlockWriter
from rfp.partitioned.sorted_blocks import name_of, write_ids, write_sorted

Ints = NDArray[np.int64]

# Rows of a batch that DuckDB hands over.
_BATCH = 1 << 20
# What DuckDB asks for to sort without trouble.
_BYTES_PER_THREAD = 125_000_000
# With less it gives up on graphs of a million edges.
_LEAST_FOR_SORTING = 256_000_000
# DuckDB's part of the memory; the rest is for the blocks that are written meanwhile.
_SORTING_PART = 0.5


@contextmanager
def connected(folder: Path, memory: int) -> Iterator[Any]:
    """A DuckDB session that spills to ``folder`` beyond ``memory`` bytes; what it spilled is gone afterwards."""
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError("duckdb", "large", "preparing files larger than memory") from error
    folder.mkdir(parents=True, exist_ok=True)
    database = duckdb.connect(str(folder / "prepare.duckdb"))
    try:
        database.execute(f"SET memory_limit = '{memory // 1_000_000}MB'")
        database.execute(f"SET temp_directory = '{_quoted(folder / 'spill')}'")
        # Each thread wants memory of its own, and would rather fail than do with less.
        allowed = max(1, memory // _BYTES_PER_THREAD)
        if allowed < (os.cpu_count() or 1):
            database.execute(f"SET threads = {allowed}")
        yield database
    except duckdb.OutOfMemoryException as error:
        raise FileError(
            f"sorting the edges needs more than {memory / 1e6:.0f} MB of memory; allow more with --memory"
        ) from error
    except duckdb.IOException as error:
        if "no space" in str(error).lower() or "disk" in str(error).lower():
            raise WriteError(
                f"{_first_line(error)}; free some space, or choose another folder: what is sorted beyond the memory "
                f"goes to {folder}"
            ) from error
        raise FileError(f"{_first_line(error)}; the folder for what does not fit in memory is {folder}") from error
    except duckdb.Error as error:
        raise FileError(_first_line(error)) from error
    finally:
        database.close()
        shutil.rmtree(folder, ignore_errors=True)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def prepare_table(
    table: EdgeScan,
    layout: Layout,
    *,
    directed: bool | None,
    duplicates: str | None,
    memory: int,
    limit: BlockLimit,
    num_nodes: int | None = None,
    sides: Callable[[bool], Sequence[str]] = lambda symmetric: (),
    source: dict[str, Any] | None = None,
    say: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> StoredGraph:
    """Number, double, sort and merge the edges of a table into row blocks.

    The nodes are numbered as :func:`rfp.read_graph` does it: integer ids in ascending order (or as they are, with
    ``num_nodes``), text ids in order of first appearance, source before target. So the encoding is that of memory.

    Args:
        table: What to read.
        layout: The folder to write to.
        directed: Keep the direction of the edges. ``None``: as the column of types says, if there is one.
        duplicates: How edges with the same ends become one; see :func:`~rfp.partitioned.row_blocks.merge`.
        memory: Bytes that may be used, about.
        limit: How large a block may become.
        num_nodes: The ids are 0 to ``num_nodes - 1``.
        sides: Further matrices to write, of :data:`rfp.partitioned.layout.SIDES`, of a symmetric matrix or another.
        source: For the manifest.
        say: Told ``(what, done, total)``.
    """
    with connected(layout.folder / "preparing", max(int(memory * _SORTING_PART), _LEAST_FOR_SORTING)) as database:
        if directed is None:
            directed = _direction(database, table)
        more = sides(not directed)
        say("numbering nodes", 0, 1)
        edges = number_edges(database, table, num_nodes, layout, in_order=duplicates == "first", memory=memory)
        if not edges.bound:
            raise GraphError("the graph has no nodes, so there is nothing to encode")
        say("counting edges", 0, 1)
        rows = RowsOfEdges.count(database, edges, directed=directed)
        if rows.numbers is not None:
            write_ids(layout, rows.ids)
        total, cuts = int(rows.entries.sum()), limit.cuts(rows.largest(more))
        writer = BlockWriter(layout, cuts, symmetric=not directed)

        def sort(side: str, writer: BlockWriter, total: int) -> None:
            done = 0

            def count(entries: int) -> None:
                nonlocal done
                done += entries
                say("sorting edges", done, total)

            say("sorting edges", 0, total)
            both = side == "sym"
            batches = sorted_batches(database, edges, _arcs(edges, side, directed), rows.numbers, doubled=both)
            name = partial(name_of, layout)
            write_sorted(batches, writer, duplicates=duplicates, both_directions=both, name=name, say=count)

        sort("", writer, total)
        stored = writer.finish(source or {})
        for side in more:
            other = BlockWriter(layout, cuts, symmetric=side == "sym", side=side)
            sort(side, other, total * (1 if side == "T" else 2))
            other.finish({})
        return stored


def _direction(database: Any, table: EdgeScan) -> bool:
    """What the column of types says, by the rule of :func:`rfp.edge_table.table.direction_of`."""
    if table.direction is None:
        return False
    query = f"SELECT DISTINCT lower({table.direction}) FROM {table.relation} LIMIT 3"
    kinds = {row[0] for row in database.execute(query).fetchall()}
    if not kinds or not kinds <= {"directed", "undirected"}:
        return False
    if len(kinds) > 1:
        raise GraphError(
            f"{table.told}: some edges are of the type directed, others undirected; a graph is one or the other: say "
            "--directed or --undirected"
        )
    return kinds == {"directed"}


@dataclass(frozen=True)
class RowsOfEdges:
    """How many entries each row of the matrix has, those of the same place counted one by one.

    Args:
        entries: Those of each row, ``[n]``.
        columns: Those of each column, where the graph is directed.
        numbers: Number of the node of each id, where ids have gaps.
    """

    entries: Ints
    columns: Ints | None
    numbers: NDArray[np.int32] | None

    @classmethod
    def count(cls, database: Any, edges: NumberedEdges, *, directed: bool) -> RowsOfEdges:
        """Count in one pass over the edges: O(bound) memory."""
        entries = np.zeros(edges.bound, dtype=np.int64)
        columns = np.zeros(edges.bound, dtype=np.int64) if directed else None
        ends = "CAST(s AS BIGINT), CAST(t AS BIGINT)"
        for s, t in _batches(database, f"SELECT {ends} FROM ({edges.relation})"):
            np.add.at(entries, s, 1)
            np.add.at(entries if columns is None else columns, t, 1)
            if columns is None:
                np.subtract.at(entries, s[s == t], 1)  # a self-loop is one entry
        there = entries > 0 if columns is None else (entries > 0) | (columns > 0)
        if not edges.gaps or there.all():
            return cls(entries, columns, None)
        return cls(entries[there], None if columns is None else columns[there], number_of_ids(there))

    @property
    def ids(self) -> Ints:
        """The id of each node, where ids have gaps."""
        assert self.numbers is not None
        return np.searchsorted(self.numbers, np.arange(len(self.entries)))

    def largest(self, sides: Sequence[str]) -> Ints:
        """The entries of each row, in that of the matrices which has most."""
        if not sides or self.columns is None:
            return self.entries
        return self.entries + self.columns if "sym" in sides else np.maximum(self.entries, self.columns)


def _arcs(edges: NumberedEdges, side: str, directed: bool) -> str:
    """The entries of a matrix.

    Of an undirected graph each edge also the other way round, but for self-loops. In the symmetrised matrix of a
    directed one the two directions of a place are told apart by the last bit of the column.
    """
    if side == "T":
        return edges.swapped()
    once = f"SELECT s, t{edges.more} FROM ({edges.relation})"
    if side == "sym":
        there = f"SELECT s, 2 * CAST(t AS BIGINT) AS t{edges.more} FROM ({edges.relation})"
        back = f"SELECT t AS s, 2 * CAST(s AS BIGINT) + 1 AS t{edges.more} FROM ({edges.relation}) WHERE s <> t"
        return f"{there} UNION ALL {back}"
    return once if directed else f"{once} UNION ALL {edges.swapped(' WHERE s <> t')}"


def _batches(database: Any, query: str) -> Iterator[list[Any]]:
    """The columns of the answer, a batch of rows at a time."""
    for batch in database.sql(query).to_arrow_reader(_BATCH):
        yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]


def sorted_batches(
    database: Any, edges: NumberedEdges, arcs: str, numbers: NDArray[np.int32] | None, *, doubled: bool = False
) -> Iterator[dict[str, Any]]:
    """Entries sorted by row and column, as node numbers.

    Row and column are sorted as one 64-bit key where they fit: a third of the memory, and of the time, of two columns.

    Args:
        database: Session of DuckDB.
        edges: What the entries were made of.
        arcs: The entries, with the columns of ``edges``.
        numbers: Number of each id, or ``None`` where they are the same.
        doubled: Columns carry one more bit, which is kept.
    """
    weight = ", w" if ", w" in edges.more else ""
    packed = edges.bound <= KEY_BOUND
    keys = "key" if packed else "s, t"
    key = f"CAST(s AS BIGINT) * {2**32} + CAST(t AS BIGINT) AS key" if packed else keys
    query = f"SELECT {keys}{weight} FROM (SELECT {key}{edges.more} FROM ({arcs})) ORDER BY {keys}{edges.order}"
    for batch in _batches(database, query):
        if packed:
            row, col = batch[0] >> 32, batch[0] & (2**32 - 1)
        else:
            row, col = (end.astype(np.int64, copy=False) for end in batch[:2])
        value = batch[-1] if weight else np.ones(len(row))
        if numbers is not None:
            row = numbers[row].astype(np.int64)
            col = 2 * numbers[col >> 1].astype(np.int64) + (col & 1) if doubled else numbers[col].astype(np.int64)
        yield {"row": row, "col": col, "value": value}
