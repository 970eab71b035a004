"""Sorted entries in, row blocks of a matrix out: what every way of preparing a graph ends in."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.errors import GraphError
from rfp.graph import hash_of_edges
from rfp.hashing import GOLDEN, mix, signed
from rfp.partitioned.checked_files import save
from rfp.partitioned.layout import Layout, StoredGraph

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Entries:
    """Entries of a matrix, sorted by row and then by column, each place once.

    Args:
        row: ``[m]``.
        col: ``[m]``.
        value: ``[m]``.
    """

    row: Ints
    col: Ints
    value: Floats


# How edges with the same ends become one, as :func:`rfp.read_graph` has it; ``None``: their weights must be equal.
DUPLICATES = (None, "sum", "first", "max", "error")


def merge(row: Ints, col: Ints, value: Floats, duplicates: str | None = None) -> Entries:
    """Make one entry of those at the same place.

    Args:
        row: Sorted together with ``col``, and entries of one place in the order of the file.
        col: See ``row``.
        value: Weights.
        duplicates: One of :data:`DUPLICATES`.

    Raises:
        GraphError: Edges with the same ends have different weights, or there are any at all and that is an error.
    """
    if not len(row):
        return Entries(row, col, value)
    first = np.flatnonzero(np.r_[True, (row[1:] != row[:-1]) | (col[1:] != col[:-1])])
    if len(first) == len(row):
        return Entries(row, col, value)
    if duplicates == "error":
        again = int(np.flatnonzero(np.diff(np.r_[first, len(row)]) > 1)[0])
        raise GraphError(f"an edge of nodes {row[first[again]]} and {col[first[again]]} is listed more than once")
    if duplicates in ("sum", "max"):
        merged = (np.add if duplicates == "sum" else np.maximum).reduceat(value, first)
        return Entries(row[first], col[first], merged)
    if duplicates is None:
        differ = np.flatnonzero(np.maximum.reduceat(value, first) != np.minimum.reduceat(value, first))
        if len(differ):
            place = first[differ[0]]
            raise GraphError(
                f"the edges of nodes {row[place]} and {col[place]} have different weights; "
                "decide with --duplicates sum, first or max"
            )
    return Entries(row[first], col[first], value[first])


@dataclass(frozen=True)
class BlockLimit:
    """How large a row block may become.

    Args:
        bytes_in_all: What a block may take while it is worked on.
        bytes_per_row: Of its states.
        bytes_per_entry: A column, its value, and what is read of both before.
    """

    bytes_in_all: int
    bytes_per_row: int
    bytes_per_entry: int = 24

    def cost(self, rows: Any, entries: Any) -> Any:
        """Bytes of a block."""
        return rows * self.bytes_per_row + entries * self.bytes_per_entry


@dataclass
class BlockWriter:
    """Writes the row blocks of a graph as its sorted entries come in; one block is in memory.

    Args:
        layout: The folder.
        num_nodes: n.
        limit: How large a block may become; a row stays whole.
        symmetric: Whether the matrix will be, so that sums over columns are those over rows.
    """

    layout: Layout
    num_nodes: int
    limit: BlockLimit
    symmetric: bool
    cuts: list[int] = field(default_factory=lambda: [0])
    num_entries: int = 0
    num_edges: int = 0
    weighted: bool = False

    def __post_init__(self) -> None:
        n = self.num_nodes
        self.index_type = np.int32 if n <= _INT32_MAX else np.int64
        self.row_sums = np.zeros(n)
        self.col_sums = None if self.symmetric else np.zeros(n)
        self.has_loop = np.zeros(n, dtype=np.bool_)
        self.words = 0
        self.pending: list[Entries] = []
        self.num_pending = 0

    def hash_edges(self, row: Ints, col: Ints) -> None:
        """Count edges into the key of the graph (:attr:`rfp.Graph.keys`), in any order."""
        self.words += int(hash_of_edges(torch.tensor(row), torch.tensor(col)))

    def add(self, entries: Entries) -> None:
        """Take the next entries, of whole rows."""
        if not len(entries.row):
            return
        self.pending.append(entries)
        self.num_pending += len(entries.row)
        self._write_full_blocks(int(entries.row[-1]) + 1)

    def _write_full_blocks(self, complete: int) -> None:
        """Write blocks as long as the rows up to ``complete`` are more than one holds."""
        while self.limit.cost(complete - self.cuts[-1], self.num_pending) > self.limit.bytes_in_all:
            if complete - self.cuts[-1] <= 1:
                return  # one row stays whole
            joined, start = self._joined(), self.cuts[-1]

            def cost(stop: int, row: Ints = joined.row, start: int = start) -> int:
                return int(self.limit.cost(stop - start, int(np.searchsorted(row, stop))))

            stop = bisect_right(range(start + 1, complete), self.limit.bytes_in_all, key=cost) + start
            stop = max(stop, start + 1)
            self._write(joined, int(np.searchsorted(joined.row, stop)), stop)

    def finish(self, source: dict[str, Any]) -> StoredGraph:
        """Write the last block and the sums of weights."""
        self._write_full_blocks(self.num_nodes)
        if self.cuts[-1] < self.num_nodes:
            self._write(self._joined(), self.num_pending, self.num_nodes)
        save(self.layout.sums_file("row"), self.row_sums)
        if self.col_sums is not None:
            save(self.layout.sums_file("col"), self.col_sums)
        save(self.layout.loops_file, self.has_loop)
        key = mix(signed(mix(signed(self.num_nodes * GOLDEN + 1)) + self.words))  # as rfp.Graph.keys
        return StoredGraph(
            self.num_nodes,
            self.num_entries,
            self.num_edges,
            key,
            self.weighted,
            self.symmetric,
            tuple(self.cuts),
            source,
        )

    def _joined(self) -> Entries:
        if len(self.pending) == 1:
            return self.pending[0]
        if not self.pending:
            return Entries(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        parts = ([getattr(e, name) for e in self.pending] for name in ("row", "col", "value"))
        joined = Entries(*(np.concatenate(part) for part in parts))
        self.pending = [joined]
        return joined

    def _write(self, joined: Entries, count: int, stop: int) -> None:
        """Write the first ``count`` entries as the rows up to ``stop``."""
        start, block = self.cuts[-1], len(self.cuts) - 1
        row, col, value = joined.row[:count], joined.col[:count], joined.value[:count]
        self.pending = [Entries(joined.row[count:], joined.col[count:], joined.value[count:])]
        self.num_pending = len(joined.row) - count
        self.row_sums[start:stop] = np.bincount(row - start, np.abs(value), minlength=stop - start)
        if self.col_sums is not None:
            np.add.at(self.col_sums, col, np.abs(value))
        self.has_loop[row[(row == col) & (value != 0)]] = True
        self.num_edges += count
        weighted = bool((value != 1).any())
        self.weighted |= weighted
        there = np.zeros(stop - start, dtype=np.bool_)
        there[row[row == col] - start] = True
        missing = np.flatnonzero(~there) + start  # every row holds its diagonal entry
        place = np.searchsorted(row * self.num_nodes + col, missing * (self.num_nodes + 1))
        row, col = np.insert(row, place, missing), np.insert(col, place, missing)
        value = np.insert(value, place, 0.0)
        crow = np.zeros(stop - start + 1, dtype=np.int64)
        np.cumsum(np.bincount(row - start, minlength=stop - start), out=crow[1:])
        save(self.layout.graph_file(block, "crow"), crow)
        save(self.layout.graph_file(block, "col"), col.astype(self.index_type))
        save(self.layout.graph_file(block, "value"), value.astype(np.float64 if weighted else np.uint8))
        self.num_entries += len(row)
        self.cuts.append(stop)
