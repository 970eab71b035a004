"""Pairs of nodes from a file, by the ids of a graph that was read from another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.edge_table.node_ids import shown
from rfp.edge_table.table import EdgeTable
from rfp.edge_table.table_options import LoadedGraph, NodeIds
from rfp.errors import FileError, GraphError
from rfp.io import ReadOptions
from rfp.io.compression import read_packed
from rfp.io.edge_list import parse_edge_list
from rfp.io.parquet import read_parquet
from rfp.io.readers import find_format


def read_pairs(path: str | Path, loaded: LoadedGraph) -> Tensor:
    """The pairs of a table, row by row, as node numbers of the graph: ``[2, p]`` int64.

    A table is text (two columns as in an edge list, or columns ``source`` and ``target``; further ones are ignored) or
    Parquet; ``-`` is text on standard input. The first line names the columns if neither of its ids is in the graph.

    Args:
        path: The file.
        loaded: The graph, as :func:`rfp.read_graph` returns it.

    Raises:
        FileError: The file cannot be read.
        GraphError: An id that the graph does not have, with its line.

    Example:
        >>> import rfp, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "edges.csv").write_text("ann,bob\\nbob,cy\\n")
        >>> _ = (folder / "pairs.csv").write_text("source,target\\ncy,ann\\n")
        >>> read_pairs(folder / "pairs.csv", rfp.read_graph(folder / "edges.csv"))
        tensor([[2],
                [0]])
    """
    path = Path(path)
    ids = loaded.node_ids
    options = ReadOptions(unweighted=True, ids="text" if ids is not None and ids.dtype == object else None)
    try:
        table = _table(path, options, loaded)
    except FileNotFoundError as error:
        raise FileError(f"{path}: no such file of pairs; the current folder is {Path.cwd()}") from error
    except IsADirectoryError as error:
        raise FileError(f"{path} is a folder; give a file of pairs") from error
    if not table.num_rows:
        raise GraphError(f"{path} holds no pairs; expected lines such as 0,1")
    numbers = _numbers(table, ids, loaded.graph.num_nodes)
    unknown = np.argwhere(numbers.T < 0)
    if len(unknown):
        row, column = (int(i) for i in unknown[0])
        raise GraphError(
            f"{table.where(row)}: node {shown(_text(table, column, row))} is not in the graph {loaded.file}; correct "
            "or remove the line"
        )
    return torch.from_numpy(numbers)


def _table(path: Path, options: ReadOptions, loaded: LoadedGraph) -> EdgeTable:
    if str(path) != "-" and find_format(path) == "parquet":
        return read_parquet(path, options)
    content, _ = read_packed(path)
    table = parse_edge_list(content, str(path), replace(options, header=False))
    if table.num_rows and not (_first_row(table, loaded) >= 0).any():
        named = parse_edge_list(content, str(path), replace(options, header=True))
        # A single line is a header if its names are the usual ones, as in an edge list, and else a pair with an error.
        return named if named.num_rows else parse_edge_list(content, str(path), options)
    return table


def _first_row(table: EdgeTable, loaded: LoadedGraph) -> NDArray[np.int64]:
    integers = None if table.integers is None else table.integers[:, :1]
    texts = None if table.texts is None else (table.texts[0][:1], table.texts[1][:1])
    return _numbers(replace(table, integers=integers, texts=texts), loaded.node_ids, loaded.graph.num_nodes)


def _numbers(table: EdgeTable, ids: NodeIds | None, num_nodes: int) -> NDArray[np.int64]:
    """Node numbers ``[2, rows]``, -1 for an id that there is not."""
    if ids is not None and ids.dtype == object:
        number = {name: i for i, name in enumerate(ids.tolist())}
        ends = [[number.get(_text(table, side, row), -1) for row in range(table.num_rows)] for side in (0, 1)]
        return np.array(ends, dtype=np.int64).reshape(2, -1)
    integers = table.integers
    if integers is None:
        assert table.texts is not None
        integers = np.array([[_integer(text) for text in column.to_pylist()] for column in table.texts], dtype=np.int64)
    if ids is None:
        return np.where((integers >= 0) & (integers < num_nodes), integers, -1)
    order = np.argsort(ids)
    place = np.searchsorted(ids, integers, sorter=order).clip(max=len(ids) - 1)
    found = order[place]
    return np.where(ids[found] == integers, found, -1)


def _integer(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1


def _text(table: EdgeTable, side: int, row: int) -> str:
    value: Any = table.integers[side, row] if table.texts is None and table.integers is not None else None
    return str(value) if table.texts is None else str(table.texts[side][row].as_py())
