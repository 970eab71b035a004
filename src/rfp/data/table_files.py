"""CSV and Parquet tables of a folder, with errors that name the file, the row and the column."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.errors import ArgumentError, FileError, GraphError, MissingExtraError
from rfp.io.arrow_text import block_options

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")
PART_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class Table:
    """A table and the file it came from.

    Args:
        path: The file.
        columns: Arrow arrays by name.
        num_rows: Rows, without the header.
    """

    path: Path
    columns: dict[str, Any]
    num_rows: int

    def where(self, row: int) -> str:
        """The place of a row, counted from 1 without the header."""
        return f"{self.path}, row {row + 1}"

    def required(self, names: tuple[str, ...]) -> str:
        """The first of these columns that the table has."""
        found = next((name for name in names if name in self.columns), None)
        if found is None:
            raise GraphError(f"{self.path}: there is no column {names[0]!r}; it has {', '.join(self.columns)}")
        return found

    def of_role(self, role: str) -> list[str]:
        """The columns ``label``, or ``label_a``, ``label_b``, …"""
        several = [name for name in self.columns if name.startswith(f"{role}_")]
        if role in self.columns and several:
            raise ArgumentError(
                f"{self.path}: has both {role!r} and {several[0]!r}; use one column, or {role}_<name> only"
            )
        return [role] if role in self.columns else several

    def features(self, without: set[str | None]) -> Tensor | None:
        """All other columns as float32, ``[num_rows, columns]``."""
        names = [name for name in self.columns if name not in without]
        if not names:
            return None
        return torch.from_numpy(np.stack([self.numbers(name) for name in names], axis=1)).float()

    def is_text(self, name: str) -> bool:
        """Whether the column holds text (or nothing at all is a number)."""
        import pyarrow as pa

        kind = self.columns[name].type
        return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))

    def texts(self, name: str) -> list[str | None]:
        """A column as text; an empty field is ``None``."""
        import pyarrow as pa

        return [None if value is None else value.strip() for value in self.columns[name].cast(pa.string()).to_pylist()]

    def numbers(self, name: str, *, missing: bool = False) -> NDArray[np.float64]:
        """A column as finite numbers.

        Args:
            name: Name of the column.
            missing: Whether empty fields are allowed; they become NaN.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.columns[name]
        if self.is_text(name):
            for row, text in enumerate(self.texts(name)):
                if text is not None and not reads_as_float(text):
                    raise GraphError(f"{self.where(row)}: column {name!r} must be a number, got {text!r}")
        try:
            values = np.array(pc.fill_null(column.cast(pa.float64()), float("nan")), dtype=np.float64)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise GraphError(f"{self.path}: column {name!r} must hold numbers, got {column.type}") from error
        empty = np.array(column.is_null())
        if len(wrong := np.flatnonzero(~np.isfinite(values) & ~empty)):
            raise GraphError(f"{self.where(int(wrong[0]))}: column {name!r} is {values[wrong[0]]}, which is not finite")
        if not missing and empty.any():
            raise GraphError(f"{self.where(int(np.flatnonzero(empty)[0]))}: column {name!r} is empty")
        return values

    def ids(self, name: str) -> Any:
        """A column of ids: an Arrow array of int64 or strings, without gaps."""
        import pyarrow as pa

        column = self.columns[name]
        if column.null_count:
            row = int(np.flatnonzero(np.array(column.is_null()))[0])
            raise GraphError(f"{self.where(row)}: column {name!r} is empty; every row needs an id there")
        if pa.types.is_integer(column.type):
            return column.cast(pa.int64())
        if self.is_text(name):
            return pa.array(self.texts(name), pa.string())
        raise GraphError(f"{self.path}: column {name!r} must hold ids, whole numbers or text, got {column.type}")


def find_table(folder: Path, name: str) -> Table | None:
    """Read ``name.csv``, ``name.csv.gz`` or ``name.parquet`` of a folder; ``None`` if there is none."""
    found = [folder / f"{name}{suffix}" for suffix in TABLE_SUFFIXES if (folder / f"{name}{suffix}").is_file()]
    if len(found) > 1:
        raise FileError(f"{folder} has {' and '.join(path.name for path in found)}; keep one of them")
    return read_table(found[0]) if found else None


def read_table(path: Path) -> Table:
    """Read a CSV file with a header, or a Parquet file."""
    try:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "reading CSV and Parquet files") from error
    try:
        if path.suffix == ".parquet":
            table = pa.parquet.read_table(path)
        else:
            # Only an empty field stands for "missing": NA may be the name of a node.
            options = pa.csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
            reading = block_options(path.stat().st_size)
            table = pa.csv.read_csv(path, read_options=reading, convert_options=options)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise FileError(f"{path}: not a readable table with a header ({error})") from error
    names = [name.strip() for name in table.column_names]
    if len(set(names)) < len(names):
        raise FileError(f"{path}: two columns have the same name: {', '.join(names)}")
    columns = {name: _one_array(table.column(i)) for i, name in enumerate(names)}
    return Table(path, columns, table.num_rows)


def _one_array(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def reads_as_float(text: str) -> bool:
    """Whether Python reads it as one."""
    try:
        float(text)
    except ValueError:
        return False
    return True
