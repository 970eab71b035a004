"""Data frames in memory, of pandas, Polars and every other library that narwhals knows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from rfp.edge_table.arrow import table_of_columns
from rfp.edge_table.table import load_table
from rfp.edge_table.table_options import LoadedGraph, TableOptions
from rfp.errors import GraphError, MissingExtraError

_NAME = "the frame"
# Libraries whose frames are read. A frame can only be of a library that is loaded already.
_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf", "narwhals")


def is_frame(value: Any) -> bool:
    """Whether it is a data frame; imports nothing."""
    library = type(value).__module__.partition(".")[0]
    return (
        library in _LIBRARIES and library in sys.modules and type(value).__name__ in ("DataFrame", "LazyFrame", "Table")
    )


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


def _as_arrow(series: Any, name: str, pa: Any) -> Any:
    try:
        values = series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise GraphError(f"{_NAME}: column {name!r} holds values of several types ({error}); cast it") from error
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    # Polars keeps text as views, which other functions of Arrow do not take yet.
    return values.cast(pa.large_string()) if pa.types.is_string_view(values.type) else values
