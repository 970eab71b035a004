"""From the ids in the files of a folder to numbers of graphs and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.data.table_files import Table
from rfp.errors import GraphError

_Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class GraphIds:
    """The graph of each row.

    Args:
        count: Number of graphs.
        of_edges: ``[rows of edges]``.
        of_nodes: ``[rows of nodes]``, or ``None`` without that file.
    """

    count: int
    of_edges: _Numbers
    of_nodes: _Numbers | None


@dataclass(frozen=True)
class NumberedNodes:
    """The numbers of the nodes, graph after graph.

    Args:
        ptr: ``[num_graphs + 1]``.
        order: ``[num_nodes]``: the row of ``nodes`` that each node has (without that file: 0, 1, 2, …).
        ends: ``[2, rows of edges]``.
    """

    ptr: _Numbers
    order: _Numbers
    ends: _Numbers


def number_graphs(edges: Table, nodes: Table | None, graphs: Table | None) -> GraphIds:
    """Graphs in the order of ``graphs``, else of their first appearance in ``nodes``, else in ``edges``."""
    tables = [table for table in (graphs, nodes, edges) if table is not None]
    many = graphs is not None or any("graph" in table.columns for table in tables)
    if not many:
        of_nodes = None if nodes is None else np.zeros(nodes.num_rows, dtype=np.int64)
        return GraphIds(1, np.zeros(edges.num_rows, dtype=np.int64), of_nodes)
    for table in tables:
        if "graph" not in table.columns:
            raise GraphError(
                f"{table.path}: there is no column 'graph', but {tables[0].path.name} speaks of several graphs"
            )
    codes = _codes([table.ids("graph") for table in tables])
    distinct, first = np.unique(codes[0], return_index=True)
    if graphs is not None and len(distinct) < graphs.num_rows:
        row = int(np.setdiff1d(np.arange(graphs.num_rows), first)[0])
        raise GraphError(f"{graphs.where(row)}: graph {graphs.ids('graph')[row]} is listed twice")
    number = np.full(max(int(code.max(initial=-1)) for code in codes) + 1, -1)
    number[distinct[np.argsort(first)]] = np.arange(len(distinct))
    for table, code in zip(tables[1:], codes[1:], strict=True):
        if len(unknown := np.flatnonzero(number[code] < 0)):
            row = int(unknown[0])
            raise GraphError(
                f"{table.where(row)}: graph {table.ids('graph')[row]} is not in {tables[0].path.name}; add it there"
            )
    by_table = {table.path: number[code] for table, code in zip(tables, codes, strict=True)}
    return GraphIds(len(distinct), by_table[edges.path], None if nodes is None else by_table[nodes.path])


def number_nodes(edges: Table, source: str, target: str, nodes: Table | None, graph_ids: GraphIds) -> NumberedNodes:
    """Nodes in the order of the rows of ``nodes``, else by ascending id (text: by first appearance) in each graph."""
    columns = [edges.ids(source), edges.ids(target)]
    if nodes is not None:
        if "node" not in nodes.columns:
            raise GraphError(f"{nodes.path}: there is no column 'node'; it has {', '.join(nodes.columns)}")
        columns.append(nodes.ids("node"))
    codes = _codes(columns)
    width = max(int(code.max(initial=-1)) for code in codes) + 1
    ends = np.stack([graph_ids.of_edges * width + code for code in codes[:2]])
    if nodes is None or graph_ids.of_nodes is None:
        keys, numbers = np.unique(ends, return_inverse=True)
        ptr = _offsets(keys // width, graph_ids.count)
        empty = np.flatnonzero(np.diff(ptr) == 0)
        if len(empty):
            raise GraphError(
                f"{edges.path}: graph number {int(empty[0]) + 1} has no edges; give its nodes in a nodes file"
            )
        return NumberedNodes(ptr, np.arange(len(keys)), numbers.reshape(2, -1))
    order = np.argsort(graph_ids.of_nodes, kind="stable")
    keys = (graph_ids.of_nodes * width + codes[2])[order]
    ascending = np.argsort(keys, kind="stable")
    ranked = keys[ascending]
    if len(twice := np.flatnonzero(np.diff(ranked) == 0)):
        row = int(order[ascending[twice[0] + 1]])
        raise GraphError(f"{nodes.where(row)}: node {columns[2][row]} is listed twice")
    place = np.minimum(np.searchsorted(ranked, ends), max(len(ranked) - 1, 0))
    unknown = np.ones(ends.shape, dtype=bool) if not len(ranked) else ranked[place] != ends
    if unknown.any():
        row = int(np.flatnonzero(unknown.any(axis=0))[0])
        side = 0 if unknown[0, row] else 1
        graph = f" of graph {edges.ids('graph')[row]}" if "graph" in edges.columns else ""
        raise GraphError(
            f"{edges.where(row)}: node {columns[side][row]}{graph} is not in {nodes.path.name}; add it there"
        )
    return NumberedNodes(_offsets(graph_ids.of_nodes, graph_ids.count), order, ascending[place])


def _offsets(graphs: _Numbers, count: int) -> _Numbers:
    return np.concatenate([[0], np.cumsum(np.bincount(graphs, minlength=count))])


def _codes(columns: list[Any]) -> list[_Numbers]:
    """Equal ids get equal numbers: whole numbers in ascending order, text in order of first appearance.

    If one column is text, the numbers of the others are read as text too.
    """
    import pyarrow as pa

    ends = np.cumsum([len(column) for column in columns])[:-1]
    if all(pa.types.is_integer(column.type) for column in columns):
        whole = np.concatenate([column.to_numpy() for column in columns])
        return [part.astype(np.int64) for part in np.split(np.unique(whole, return_inverse=True)[1], ends)]
    encoded = pa.concat_arrays([column.cast(pa.string()) for column in columns]).dictionary_encode()
    return np.split(encoded.indices.to_numpy().astype(np.int64), ends)
