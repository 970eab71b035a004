"""Sorted entries in, row blocks of a matrix out: what every way of preparing a graph ends in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.errors import GraphError
from rfp.hashing import GOLDEN, SOURCE, hash_of_edges, mix, signed
from rfp.partitioned.checked_files import save_array
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


def hash_of_weights(entries: Entries) -> int:
    """A sum of 64-bit words, modulo 2^64, of the entries that are not 1, which the key of a graph does not know.

    >>> place = np.array([0])
    >>> [hash_of_weights(Entries(place, place, np.array([weight]))) != 0 for weight in (1.0, 2.0)]
    [False, True]
    """
    other = entries.value != 1
    row, col = (torch.from_numpy(ends[other].astype(np.int64)) for ends in (entries.row, entries.col))
    bits = torch.from_numpy(entries.value[other] + 0.0).view(torch.int64)  # -0.0 is 0.0
    return int(mix(mix(row * SOURCE + col * GOLDEN) + bits).sum())


# How edges with the same ends become one, as :func:`rfp.read_graph` has it; ``None``: their weights must be equal.
DUPLICATE_RULES = (None, "sum", "first", "max", "error")
# Of the two directions of an edge the weight that is larger in magnitude, as :meth:`rfp.Graph.to_undirected` has it.
LARGER = "larger"


def merge(
    row: Ints, col: Ints, value: Floats, duplicates: str | None = None, name: Callable[[int], str] = str
) -> Entries:
    """Make one entry of those at the same place.

    Args:
        row: Sorted together with ``col``, and entries of one place in the order of the file.
        col: See ``row``.
        value: Weights.
        duplicates: One of :data:`DUPLICATE_RULES`, or :data:`LARGER`.
        name: What a node is called in an error.

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
        ends = [name(int(end[first[again]])) for end in (row, col)]
        raise GraphError(
            f"an edge of nodes {ends[0]} and {ends[1]} is listed more than once, which --duplicates error refuses"
        )
    if duplicates == LARGER:
        high, low = (pick.reduceat(value, first) for pick in (np.maximum, np.minimum))
        return Entries(row[first], col[first], np.where(-low > high, low, high))
    if duplicates in ("sum", "max"):
        merged = (np.add if duplicates == "sum" else np.maximum).reduceat(value, first)
        return Entries(row[first], col[first], merged)
    if duplicates is None:
        differ = np.flatnonzero(np.maximum.reduceat(value, first) != np.minimum.reduceat(value, first))
        if len(differ):
            ends = [name(int(end[first[differ[0]]])) for end in (row, col)]
            raise GraphError(
                f"the edges of nodes {ends[0]} and {ends[1]} have different weights; "
                "decide with --duplicates sum, first or max"
            )
    return Entries(row[first], col[first], value[first])


# A graph of several blocks of this size has so many of them at least: work for as many workers, whatever their memory.
_SMALL_BLOCK, _BLOCKS_AT_LEAST = 32_000_000, 16


@dataclass(frozen=True)
class BlockLimit:
    """How large a row block may become.

    Args:
        bytes_in_all: What a block may take while it is worked on.
        bytes_per_row: Size of its states.
        bytes_per_entry: A column, its value, and what is read of both before.
    """

    bytes_in_all: int
    bytes_per_row: int
    bytes_per_entry: int = 24

    def cost(self, rows: Any, entries: Any) -> Any:
        """Bytes of a block."""
        return rows * self.bytes_per_row + entries * self.bytes_per_entry

    def cuts(self, entries: Ints) -> tuple[int, ...]:
        """The first row of each block, and n: blocks of about equal cost, none above the limit unless it is one row.

        Args:
            entries: Entries of each row, ``[n]``; the diagonal is added to them.

        Raises:
            GraphError: There are no rows.

        Example:
            >>> BlockLimit(bytes_in_all=100, bytes_per_row=0, bytes_per_entry=10).cuts(np.array([3, 2, 20, 1, 1]))
            (0, 2, 3, 5)
        """
        if not len(entries):
            raise GraphError("the graph has no nodes, so there is nothing to encode")
        cost = np.cumsum(self.cost(1, entries + 1))
        total = int(cost[-1])
        size = min(self.bytes_in_all, max(_SMALL_BLOCK, total // _BLOCKS_AT_LEAST))
        size = max(1, -(-total // max(1, -(-total // max(1, size)))))
        cuts, before = [0], 0
        while cuts[-1] < len(cost):
            stop = max(int(np.searchsorted(cost, before + size, side="right")), cuts[-1] + 1)
            cuts.append(stop)
            before = int(cost[stop - 1])
        return tuple(cuts)


@dataclass
class BlockWriter:
    """Writes the row blocks of a matrix as its sorted entries come in; one block is in memory.

    Args:
        layout: The folder.
        cuts: First row of each block, and n.
        symmetric: Whether the matrix will be, so that sums over columns are those over rows.
        side: Which matrix of the graph; see :data:`rfp.partitioned.layout.SIDES`.
    """

    layout: Layout
    cuts: tuple[int, ...]
    symmetric: bool
    side: str = ""
    num_entries: int = 0
    num_edges: int = 0
    weighted: bool = False

    def __post_init__(self) -> None:
        self.num_nodes = n = self.cuts[-1]
        self.index_type = np.int32 if n <= _INT32_MAX else np.int64
        self.row_sums = np.zeros(n)
        self.col_sums = None if self.symmetric else np.zeros(n)
        self.has_loop = np.zeros(n, dtype=np.bool_)
        self.words, self.weight_words = 0, 0
        self.num_written = 0
        self.pending: list[Entries] = []

    def hash_edges(self, row: Ints, col: Ints) -> None:
        """Count edges into the key of the graph (:attr:`rfp.Graph.keys`), in any order."""
        self.words += int(hash_of_edges(torch.tensor(row), torch.tensor(col)))

    def add(self, entries: Entries) -> None:
        """Take the next entries, of whole rows."""
        if not len(entries.row):
            return
        self.pending.append(entries)
        self._write_blocks(int(entries.row[-1]))

    def _write_blocks(self, complete: int) -> None:
        """Write the blocks whose rows are all below ``complete``."""
        while self.num_written + 1 < len(self.cuts) and self.cuts[self.num_written + 1] <= complete:
            joined, stop = self._joined(), self.cuts[self.num_written + 1]
            self._write(joined, int(np.searchsorted(joined.row, stop)), stop)

    def finish(self, source: dict[str, Any]) -> StoredGraph:
        """Write the last blocks and the sums of weights."""
        self._write_blocks(self.num_nodes)
        if self.side != "T":  # its sums are those of the matrix itself, the other way round
            save_array(self.layout.sums_file("row", self.side), self.row_sums)
            save_array(self.layout.loops_file(self.side), self.has_loop)
            if self.col_sums is not None:
                save_array(self.layout.sums_file("col", self.side), self.col_sums)
        key = mix(signed(mix(signed(self.num_nodes * GOLDEN + 1)) + self.words))  # as rfp.Graph.keys
        return StoredGraph(
            self.num_nodes,
            self.num_entries,
            self.num_edges,
            key,
            self.weighted,
            self.symmetric,
            self.cuts,
            source,
            self.weight_words,
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
        block = self.num_written
        start = self.cuts[block]
        row, col, value = joined.row[:count], joined.col[:count], joined.value[:count]
        # A copy: a view would keep the whole of it.
        self.pending = [Entries(joined.row[count:].copy(), joined.col[count:].copy(), joined.value[count:].copy())]
        self.row_sums[start:stop] = np.bincount(row - start, np.abs(value), minlength=stop - start)
        if self.col_sums is not None:
            np.add.at(self.col_sums, col, np.abs(value))
        self.has_loop[row[(row == col) & (value != 0)]] = True
        self.num_edges += count
        self.weight_words = signed(self.weight_words + hash_of_weights(Entries(row, col, value)))
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
        save_array(self.layout.graph_file(block, "crow", self.side), crow)
        save_array(self.layout.graph_file(block, "col", self.side), col.astype(self.index_type))
        save_array(
            self.layout.graph_file(block, "value", self.side), value.astype(np.float64 if weighted else np.uint8)
        )
        self.num_entries += len(row)
        self.num_written += 1
