"""Edge lists in Parquet: columns by name; only those that are used are read from the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rfp.edge_table.arrow import table_of_columns
from rfp.edge_table.table import EdgeTable
from rfp.errors import FileError, MissingExtraError
from rfp.io.options import ReadOptions


def read_parquet(path: Path, options: ReadOptions) -> EdgeTable:
    """The edges of a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "reading Parquet") from error

    def read(positions: Sequence[int]) -> list[Any]:
        table = file.read(columns=[names[i] for i in positions])
        return [_whole(table.column(names[i])) for i in positions]

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            return table_of_columns(names, read, options, str(path))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # the last: damaged names of columns
        if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError | FileError):
            raise
        if "not in range" in str(error):
            why = f"an integer among the weights has no equal of floating point ({error}); --unweighted leaves them out"
            raise FileError(f"{path}: {why}") from error
        raise FileError(f"{path}: not a readable Parquet file ({error})") from error


def _whole(column: Any) -> Any:
    import pyarrow as pa

    column.validate(full=True)  # a damaged dictionary would be read past its end
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
