"""Edge lists in Parquet: columns by name, or the first two and a third as weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.errors import FileError, GraphError, MissingExtraError
from rfp.graph import Graph
from rfp.io.columns import choose_columns
from rfp.io.node_ids import check_weights, number_integers, number_texts
from rfp.io.options import LoadedGraph, NodeIds, ReadOptions


def read_parquet(path: Path, options: ReadOptions) -> LoadedGraph:
    """Read an edge list; only the columns that are used are read from the disk. Ids are numbered as in text files."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "reading Parquet") from error
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        columns = choose_columns(names, len(names), options, str(path))
        table = file.read(columns=[names[i] for i in columns.used])
    except pa.ArrowInvalid as error:
        raise FileError(f"{path}: not a readable Parquet file ({error})") from error
    if not table.num_rows and not options.num_nodes:
        raise GraphError(f"{path} holds no edges (for a graph of N isolated nodes give --num-nodes N)")

    def where(row: int) -> str:
        return f"{path}, row {row + 1}"

    def column(position: int) -> Any:
        values = table.column(names[position]).combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # combine_chunks keeps a chunked array when there is no chunk
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
        if values.null_count:
            row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise GraphError(f"{where(row)}: column {names[position]!r} is null; fill or remove the row")
        return values

    edges, num_nodes, ids = _numbered(column(columns.source), column(columns.target), options, path)
    weight = None
    if columns.weight is not None:
        values = _numbers(column(columns.weight), names[columns.weight], path)
        check_weights(values, where)
        weight = torch.from_numpy(values)
    graph = Graph.unchecked(torch.from_numpy(edges), num_nodes, weight)
    return LoadedGraph(
        graph=graph if options.directed else graph.to_undirected(),
        node_ids=ids,
        directed=bool(options.directed),
        weights=None if columns.weight is None else f"column {names[columns.weight]!r}",
        ignored=tuple(repr(name) for i, name in enumerate(names) if i not in columns.used),
    )


def _numbered(
    source: Any, target: Any, options: ReadOptions, path: Path
) -> tuple[NDArray[np.int64], int, NodeIds | None]:
    import pyarrow as pa

    if all(pa.types.is_integer(ids.type) for ids in (source, target)):
        ends = np.stack([ids.cast(pa.int64()).to_numpy() for ids in (source, target)])
        return number_integers(ends, options.num_nodes, lambda row: f"{path}, row {row + 1}")
    if options.num_nodes is not None or any(pa.types.is_floating(ids.type) for ids in (source, target)):
        raise GraphError(
            f"{path}: node ids must be integers or text (with --num-nodes: integers), got {source.type} and "
            f"{target.type}; cast the columns, or choose others with --source-column and --target-column"
        )
    try:
        return number_texts(source.cast(pa.string()), target.cast(pa.string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise GraphError(f"{path}: node ids must be integers or text, got {source.type} and {target.type}") from error


def _numbers(values: Any, name: str, path: Path) -> NDArray[np.float64]:
    import pyarrow as pa

    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    if not any(kind(values.type) for kind in kinds):
        raise GraphError(
            f"{path}: the weights in column {name!r} must be numbers, got {values.type}; "
            "choose another with --weight-column, or ignore weights with --unweighted"
        )
    return np.array(values.cast(pa.float64()), dtype=np.float64)
