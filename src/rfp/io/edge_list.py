"""Edge lists as text: commas, semicolons, tabs or white space; gzip; header, weights and comments optional.

The file is parsed by Arrow (about five million lines a second on one core). Only when something is wrong is it gone
through line by line in Python, to name the line (:mod:`rfp.io.edge_list_lines`).
"""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rfp.errors import FileError, GraphError, MissingExtraError
from rfp.graph import Graph
from rfp.io.columns import Columns, choose_columns
from rfp.io.edge_list_lines import Dialect, find_dialect, line_of_row, parse_problem, text_id_problem
from rfp.io.node_ids import check_weights, number_integers, number_texts
from rfp.io.options import LoadedGraph, ReadOptions

_COMMENT_OR_BLANK_LINE = re.compile(rb"^[ \t]*(?:[#%][^\n]*|\r?)$", re.MULTILINE)


def read_edge_list(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read an edge list; ``-`` is standard input.

    Integer ids become nodes in ascending order, text ids in order of first appearance (see
    :class:`~rfp.io.options.ReadOptions` for ``num_nodes``).
    """
    return parse_edge_list(read_bytes(path), str(path), options)


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is gzip."""
    content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"{path}: not a complete gzip file ({error}); fetch or compress it again") from error


def parse_edge_list(content: bytes, file: str, options: ReadOptions) -> LoadedGraph:
    """Read an edge list from its bytes; ``file`` is its name in errors.

    Example:
        >>> loaded = parse_edge_list(b"# who knows whom\\nann,bob\\nbob,cy\\n", "friends.csv", ReadOptions())
        >>> loaded.node_ids.tolist(), loaded.graph.edge_index.tolist()
        (['ann', 'bob', 'cy'], [[0, 1, 1, 2], [1, 0, 2, 1]])
    """
    content = content.removeprefix(b"\xef\xbb\xbf")  # a byte-order mark is no part of the first id
    dialect = find_dialect(content, file, options)
    if dialect is None:
        return _without_edges(file, options)
    columns = choose_columns(dialect.names, dialect.num_columns, options, file)
    table, integers = _parse(content, file, dialect, columns)
    if not table.num_rows:
        return _without_edges(file, options)

    def where(row: int) -> str:
        return f"{file}, line {line_of_row(content, dialect, row)}"

    source, target = table.column(0).combine_chunks(), table.column(1).combine_chunks()
    if integers:
        ends = np.stack([source.to_numpy(), target.to_numpy()])
        edges, num_nodes, ids = number_integers(ends, options.num_nodes, where)
    else:
        _check_texts(source, target, content, file, dialect, columns, options)
        edges, num_nodes, ids = number_texts(source, target)
    weight = None
    if columns.weight is not None:
        values = table.column(2).to_numpy()
        check_weights(values, where)
        weight = torch.from_numpy(values.copy())
    graph = Graph.unchecked(torch.from_numpy(edges), num_nodes, weight)
    return LoadedGraph(
        graph=graph if options.directed else graph.to_undirected(),
        node_ids=ids,
        directed=bool(options.directed),
        weights=None if columns.weight is None else f"column {dialect.column_name(columns.weight)}",
        ignored=tuple(dialect.column_name(i) for i in range(dialect.num_columns) if i not in columns.used),
    )


def _without_edges(file: str, options: ReadOptions) -> LoadedGraph:
    if not options.num_nodes:
        raise GraphError(
            f"{file} holds no edges; expected lines such as 0,1 (for a graph of N isolated nodes give --num-nodes N)"
        )
    graph = Graph(torch.zeros(2, 0, dtype=torch.long), options.num_nodes)
    return LoadedGraph(graph, directed=bool(options.directed))


def _check_texts(
    source: Any, target: Any, content: bytes, file: str, dialect: Dialect, columns: Columns, options: ReadOptions
) -> None:
    import pyarrow.compute as pc

    numbers_only = options.num_nodes is not None
    if numbers_only or any(pc.any(pc.equal(ids, "")).as_py() for ids in (source, target)):
        problem = text_id_problem(content, file, dialect, columns, numbers_only=numbers_only)
        raise problem or GraphError(f"{file}: the node ids are not integers, which --num-nodes asks for")


def _parse(content: bytes, file: str, dialect: Dialect, columns: Columns) -> tuple[Any, bool]:
    """The table of (source, target, weight) and whether the ids are integers."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "reading an edge list") from error
    plain = _plain(content, dialect)
    # 0x10 is text: Arrow would read it as 16.
    attempts: list[Callable[[], Any]] = [pa.int64, pa.string]
    if not dialect.looks_integer(columns.source, columns.target) or b"0x" in plain or b"0X" in plain:
        attempts = [pa.string]
    for id_type in attempts:
        try:
            table = _parse_as(plain, dialect, columns, id_type())
        except pa.ArrowInvalid as error:
            failure = error
        else:
            return table, id_type is pa.int64
    problem = parse_problem(content, file, dialect, columns)
    raise problem or GraphError(f"{file}: {failure}") from failure


def _parse_as(plain: bytes, dialect: Dialect, columns: Columns, id_type: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    names = [str(i) for i in range(dialect.num_columns)]
    types = {str(columns.source): id_type, str(columns.target): id_type}
    if columns.weight is not None:
        types[str(columns.weight)] = pa.float64()
    table = csv.read_csv(
        pa.BufferReader(plain),
        read_options=csv.ReadOptions(column_names=names, skip_rows_after_names=1 if dialect.header else 0),
        parse_options=csv.ParseOptions(delimiter=dialect.delimiter),
        # Nothing stands for "missing": an empty field is an error, and NA may be the name of a node.
        convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
    )
    if id_type == pa.string():
        for i in (0, 1):
            table = table.set_column(i, table.column_names[i], pc.utf8_trim_whitespace(table.column(i)))
    return table


def _plain(content: bytes, dialect: Dialect) -> bytes:
    """Without comment lines and runs of blanks, which Arrow does not know. Each replacement is one pass in C."""
    if content[:1] in (b"#", b"%") or any(mark in content for mark in (b"\n#", b"\n%", b"\n ", b"\n\t")):
        content = _COMMENT_OR_BLANK_LINE.sub(b"", content)
    if dialect.delimiter != " ":
        return content.lstrip(b"\r\n")  # Arrow would take an empty first line for the header
    content = content.replace(b"\r", b"").replace(b"\t", b" ")
    while b"  " in content:
        content = content.replace(b"  ", b" ")
    return content.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" \n")
