"""Edges as they stand in a table: ids and weights, row by row; and the graph they make."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.edge_table.duplicates import both_ways, merge_duplicates
from rfp.edge_table.node_ids import Where, number_integers, number_texts, shown
from rfp.edge_table.table_options import LoadedGraph, NodeIds, TableOptions
from rfp.errors import GraphError
from rfp.graph import Graph

_SHOWN_EDGES = 3


@dataclass(frozen=True)
class EdgeTable:
    """The edges of a table.

    Args:
        integers: Ids ``[2, m]``, if they are integers.
        texts: Otherwise source and target as Arrow arrays of strings.
        weight: ``[m]``, or ``None``.
        where: Says where a row is: ``"edges.csv, line 17"``.
        weights: Where the weights come from.
        directed: What the table itself says about direction, if anything.
        ignored: Columns that were not used.
        facts: What was seen of its form (:class:`~rfp.edge_table.table_options.LoadedGraph`).
    """

    integers: NDArray[np.int64] | None
    texts: tuple[Any, Any] | None
    weight: NDArray[np.float64] | None
    where: Where
    weights: str | None = None
    directed: bool | None = None
    ignored: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_rows(self) -> int:
        return len(self.texts[0]) if self.texts is not None else 0 if self.integers is None else self.integers.shape[1]

    def first_edges(self) -> tuple[tuple[str, ...], ...]:
        """A few edges for people to look at."""
        rows = range(min(_SHOWN_EDGES, self.num_rows))
        if self.texts is not None:
            ends = [[shown(column[i].as_py())[1:-1] for column in self.texts] for i in rows]
        else:
            ends = [[] if self.integers is None else [str(end) for end in self.integers[:, i]] for i in rows]
        weights = [[] if self.weight is None else [f"{self.weight[i]:g}"] for i in rows]
        return tuple((*end, *weight) for end, weight in zip(ends, weights, strict=True))


def no_edges(file: str) -> EdgeTable:
    """The table of a graph of isolated nodes."""
    return EdgeTable(np.zeros((2, 0), np.int64), None, None, lambda row: file)


def join_tables(tables: Sequence[EdgeTable]) -> EdgeTable:
    """The rows of several tables one after the other; one table with text ids makes all ids text."""
    if len(tables) == 1:
        return tables[0]
    weighted = {table.weight is not None for table in tables if table.num_rows}
    if len(weighted) > 1:
        with_weight = next(t for t in tables if t.num_rows and t.weight is not None)
        without = next(t for t in tables if t.num_rows and t.weight is None)
        raise GraphError(
            f"{with_weight.where(0)} has a weight and {without.where(0)} has none; all files need the same columns, or "
            "--unweighted"
        )
    said = {table.directed for table in tables if table.num_rows}
    if len(said) > 1:
        raise GraphError(
            "some of the files say that their edges are directed, others not; say --directed or --undirected"
        )
    ends = list(accumulate(table.num_rows for table in tables))

    def where(row: int) -> str:
        part = bisect_right(ends, row)
        return tables[part].where(row - (ends[part - 1] if part else 0))

    integers, texts = None, None
    if all(table.texts is None for table in tables):
        integers = np.concatenate([table.integers for table in tables if table.integers is not None], axis=1)
    else:
        import pyarrow as pa

        columns = [_as_texts(table) for table in tables]
        texts = (pa.concat_arrays([c[0] for c in columns]), pa.concat_arrays([c[1] for c in columns]))
    weights = [table.weight for table in tables if table.weight is not None]
    source = next((table.weights for table in tables if table.weights is not None), None)
    return EdgeTable(
        integers,
        texts,
        np.concatenate(weights) if weights else None,
        where,
        source,
        next(iter(said), None),
        ignored=tuple(dict.fromkeys(name for table in tables for name in table.ignored)),
        facts={"files": f"{len(tables)}", **tables[0].facts},
    )


def _as_texts(table: EdgeTable) -> tuple[Any, Any]:
    import pyarrow as pa

    if table.texts is not None:
        return table.texts
    ends = np.zeros((2, 0), np.int64) if table.integers is None else table.integers
    return pa.array(ends[0]).cast(pa.string()), pa.array(ends[1]).cast(pa.string())


def direction_of(column: Any, asked: bool | None, where: Where) -> bool | None:
    """What Gephi's column of types says: directed, undirected, or ``None`` if it holds something else.

    Args:
        column: Arrow array of strings.
        asked: What was asked for: then a table of both kinds is no question.
        where: Place of a row, for errors.
    """
    import pyarrow.compute as pc

    kinds = pc.utf8_lower(column)
    if not set(pc.unique(kinds).to_pylist()) <= {"directed", "undirected"} or not len(kinds):
        return None
    directed = bool(kinds[0].as_py() == "directed")
    other = np.flatnonzero(pc.not_equal(kinds, kinds[0]).to_numpy(zero_copy_only=False))
    if len(other) and asked is None:
        raise GraphError(
            f"{where(int(other[0]))}: type {column[int(other[0])].as_py()}, but {column[0].as_py()} before; a graph "
            "is one or the other: say --directed or --undirected"
        )
    return directed


def load_table(table: EdgeTable, options: TableOptions, file: str) -> LoadedGraph:
    """Number the ids, merge edges with the same ends, and let them count both ways unless they are directed."""
    if not table.num_rows and not options.num_nodes:
        raise GraphError(
            f"{file} holds no edges; expected lines such as 0,1 (for a graph of N isolated nodes give --num-nodes N; "
            'if lines that begin with # or % are edges, give --comment "")'
        )
    directed = bool(table.directed) if options.directed is None else options.directed
    edges, num_nodes, ids = _numbered(table, options)
    lines = edges.shape[1]
    edges, weight, merged = merge_duplicates(
        edges, table.weight, num_nodes, directed=directed, duplicates=options.duplicates, where=table.where
    )
    weights = table.weights
    if weight is not None and weights is None:
        weights = "the number of lines of an edge"
    facts = {**table.facts, "ids": table.facts.get("ids", "text" if table.texts is not None else "integers")}
    if table.directed is not None and options.directed is None:
        facts["direction"] = f"{'directed' if directed else 'undirected'}, as the column of types says"
    if merged:
        facts["duplicates"] = f"{merged:,} of {lines:,} lines merged ({options.duplicates or 'equal'})"
    if not directed:
        edges, weight = both_ways(edges, weight, num_nodes)
    graph = Graph.unchecked(
        torch.from_numpy(np.ascontiguousarray(edges)),
        num_nodes,
        None if weight is None else torch.from_numpy(np.array(weight, dtype=np.float64)),
    )
    return LoadedGraph(graph, ids, directed, weights, table.ignored, facts, table.first_edges(), file)


def _numbered(table: EdgeTable, options: TableOptions) -> tuple[NDArray[np.int64], int, NodeIds | None]:
    if table.texts is None:
        ends = np.zeros((2, 0), np.int64) if table.integers is None else table.integers
        return number_integers(ends, options.num_nodes, table.where)
    if options.num_nodes is not None:
        for row in range(table.num_rows):
            for text in (table.texts[0][row].as_py(), table.texts[1][row].as_py()):
                if not (text.isascii() and text.isdigit() and (text == "0" or text[0] != "0") and len(text) < 19):
                    raise GraphError(
                        f"{table.where(row)}: node id {shown(text)} is not a node number, which --num-nodes asks for; "
                        "leave --num-nodes out to use text ids"
                    )
    return number_texts(*table.texts)
