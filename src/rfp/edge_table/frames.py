"""Data frames in memory, of pandas, Polars and every other library that narwhals knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfp.edge_table.arrow import table_of_columns
from rfp.edge_table.table import load_table
from rfp.edge_table.table_options import LoadedGraph, TableOptions
from rfp.errors import ArgumentError, GraphError, MissingExtraError
from rfp.graph import Graph

_NAME = "the frame"


def load_frame(frame: Any, options: TableOptions) -> LoadedGraph:
    """Read a frame with a row for each edge, by the rules of Parquet files; its index is not used.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"source": ["ann", "bob"], "target": ["bob", "cy"]})
        >>> load_frame(frame, TableOptions()).node_ids.tolist()
        ['ann', 'bob', 'cy']
    """
    try:
        import narwhals as nw
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("narwhals and pyarrow", "frames", "reading a data frame") from error
    table = nw.from_native(frame)
    table = table.collect() if isinstance(table, nw.LazyFrame) else table
    names = [str(name) for name in table.columns]

    def read(positions: Sequence[int]) -> list[Any]:
        return [_as_arrow(table[:, int(position)], names[position], pa) for position in positions]

    return load_table(table_of_columns(names, read, options, _NAME), options, _NAME)


def graph_of_frame(frame: Any, weight: Any) -> Graph:
    """The graph of a frame whose ids are its node numbers, so that the rows of a result need no names.

    Args:
        frame: A row for each edge.
        weight: The name of the column of weights, if it is not the usual one.
    """
    if weight is not None and not isinstance(weight, str):
        raise ArgumentError(f"weight must be the name of a column of the frame, got {type(weight).__name__}")
    loaded = load_frame(frame, TableOptions(weight=weight))
    if loaded.node_ids is not None:
        raise GraphError(
            "the ids of the frame are not 0 to n - 1, so the rows of a result would have no names; read it with "
            "loaded = rfp.read_graph(frame), encode loaded, and find the names in loaded.node_ids"
        )
    return loaded.graph


def _as_arrow(series: Any, name: str, pa: Any) -> Any:
    try:
        values = series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise GraphError(f"{_NAME}: column {name!r} holds values of several types ({error}); cast it") from error
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    # Polars keeps text as views, which other functions of Arrow do not take yet.
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values
