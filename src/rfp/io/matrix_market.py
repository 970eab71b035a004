"""Matrix Market files, read strictly: each line has just the numbers that the header promises.

SciPy's reader is faster by half, but ends the process on a NUL byte, reads ``1 2 3.5.5`` as 3.5, and allocates what
the header asks for before it has seen an entry. Here Arrow parses the lines, and a line that is wrong is named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from rfp.edge_table.node_ids import numbers_of
from rfp.errors import FileError, GraphError, MissingExtraError
from rfp.io.arrow_text import block_options

_FIRST_LINE = re.compile(
    r"%%MatrixMarket\s+matrix\s+(coordinate|array)\s+(real|integer|unsigned-integer|double|complex|pattern)\s+"
    r"(general|symmetric|skew-symmetric|hermitian)\s*",
    re.IGNORECASE,
)
_INDEX = re.compile(r"\d+")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_MAX_DIGITS = 18  # of a size or an index: all such numbers fit 64 bits


@dataclass(frozen=True)
class _Header:
    layout: str  # coordinate or array
    field: str  # pattern, or one number for each entry
    symmetry: str
    num_rows: int
    num_columns: int
    num_entries: int
    num_lines: int  # lines up to the one with the sizes


def parse_matrix_market(content: bytes, file: str) -> sp.coo_array:
    """The matrix, with the other triangle of a symmetric one filled in; ``file`` is its name in errors.

    Example:
        >>> text = b"%%MatrixMarket matrix coordinate real symmetric\\n2 2 1\\n2 1 0.5\\n"
        >>> parse_matrix_market(text, "a.mtx").toarray().tolist()
        [[0.0, 0.5], [0.5, 0.0]]
    """
    if b"\0" in content:
        raise FileError(f"{file}: not a Matrix Market file (byte {content.index(0) + 1} is zero); fetch it again")
    content = content.removeprefix(b"\xef\xbb\xbf")  # a byte-order mark
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    header, body = _split(content, file)
    if header.field == "complex" or header.symmetry == "hermitian":
        raise GraphError(f"{file}: the matrix is complex; real weights are needed, e.g. abs(matrix)")
    # A number and a line end are two bytes at least: what cannot be in the file is not allocated either.
    if header.num_entries > len(body):
        raise FileError(
            f"{file}: the header promises {header.num_entries:,} entries and {len(body):,} bytes follow; the file is "
            "cut off, fetch it again"
        )
    read = _coordinates if header.layout == "coordinate" else _dense
    row, column, value = read(body, header, file)
    if header.symmetry != "general":
        row, column, value = _completed(row, column, value, header, file)
    return sp.coo_array((value, (row, column)), shape=(header.num_rows, header.num_columns))


def _split(content: bytes, file: str) -> tuple[_Header, bytes]:
    """What the first lines say, and the lines that follow."""
    start = number = 0
    kind: re.Match[str] | None = None
    while start < len(content):
        stop = content.find(b"\n", start)
        stop = len(content) if stop < 0 else stop
        line, start, number = content[start:stop].decode("latin1"), stop + 1, number + 1
        if number == 1:
            kind = _FIRST_LINE.fullmatch(line)
            if kind is None:
                break
        elif line.strip(" \t") and not line.startswith("%"):
            assert kind is not None
            return _sizes(kind, line, number, file), content[start:]
    if kind is None:
        raise FileError(
            f"{file}: not a Matrix Market file; its first line must be such as "
            "'%%MatrixMarket matrix coordinate real general'"
        )
    raise FileError(f"{file}: a Matrix Market file without its line of sizes; it is cut off, fetch it again")


def _sizes(kind: re.Match[str], line: str, number: int, file: str) -> _Header:
    layout, field, symmetry = (part.lower() for part in kind.groups())
    sizes = line.split()
    names = "rows, columns and entries" if layout == "coordinate" else "rows and columns"
    if len(sizes) != (3 if layout == "coordinate" else 2) or not all(map(_INDEX.fullmatch, sizes)):
        raise FileError(f"{file}, line {number}: expected the numbers of {names}, got {line.strip()[:60]!r}")
    if layout == "array" and field == "pattern":
        raise FileError(f"{file}, line 1: an array must have numbers, not only a pattern")
    if max(map(len, sizes)) > _MAX_DIGITS:
        raise FileError(f"{file}, line {number}: a matrix of this size cannot be represented: {line.strip()[:60]!r}")
    rows, columns = int(sizes[0]), int(sizes[1])
    if symmetry != "general" and rows != columns:
        raise FileError(f"{file}, line {number}: a {symmetry} matrix must be square, got {rows} x {columns}")
    triangle = {"symmetric": columns * (columns + 1) // 2, "skew-symmetric": columns * (columns - 1) // 2}
    entries = int(sizes[2]) if layout == "coordinate" else triangle.get(symmetry, rows * columns)
    return _Header(layout, field, symmetry, rows, columns, entries, number)


_Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def _coordinates(body: bytes, header: _Header, file: str) -> _Entries:
    weighted = header.field != "pattern"
    table = _parse(body, header, file, ["int64", "int64", *(["float64"] if weighted else [])])
    row, column = (numbers_of(table.column(i)) - 1 for i in (0, 1))
    for name, ends, size in (("row", row, header.num_rows), ("column", column, header.num_columns)):
        wrong = np.flatnonzero((ends < 0) | (ends >= size))
        if len(wrong):
            place = _line_of(body, header, int(wrong[0]))
            raise GraphError(f"{file}, line {place}: {name} {int(ends[wrong[0]]) + 1} is not one of 1 to {size}")
    return row, column, numbers_of(table.column(2)) if weighted else np.ones(len(row))


def _dense(body: bytes, header: _Header, file: str) -> _Entries:
    """Numbers one on a line, column by column; of a symmetric matrix those on and below the diagonal."""
    value = numbers_of(_parse(body, header, file, ["float64"]).column(0))
    n = header.num_columns
    if header.symmetry == "general":
        column, row = np.divmod(np.arange(len(value)), max(header.num_rows, 1))
    else:  # in the order of columns: the transposed upper triangle
        column, row = np.triu_indices(n, 1 if header.symmetry == "skew-symmetric" else 0)
    kept = value != 0
    return row[kept].astype(np.int64), column[kept].astype(np.int64), value[kept]


def _completed(
    row: NDArray[np.int64], column: NDArray[np.int64], value: NDArray[np.float64], header: _Header, file: str
) -> _Entries:
    sign = -1.0 if header.symmetry == "skew-symmetric" else 1.0
    other = row != column
    if sign < 0 and not other.all() and bool((value[~other] != 0).any()):
        raise GraphError(f"{file}: a skew-symmetric matrix cannot have an entry on its diagonal")
    return (
        np.concatenate([row, column[other]]),
        np.concatenate([column, row[other]]),
        np.concatenate([value, sign * value[other]]),
    )


def _parse(body: bytes, header: _Header, file: str, kinds: list[str]) -> Any:
    """The table of numbers; the first line that is wrong is named."""
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ImportError as error:
        raise MissingExtraError("pyarrow", "cli", "reading a Matrix Market file") from error
    body = body.replace(b"\t", b" ")
    while b"  " in body:
        body = body.replace(b"  ", b" ")
    plain = body.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" \n")
    types = {str(i): getattr(pa, kind)() for i, kind in enumerate(kinds)}
    if b"x" in plain or b"X" in plain:  # Arrow would read 0x10 as 16
        raise _problem(body, header, file, kinds) or FileError(f"{file}: not readable")
    if not plain:
        table = pa.table({name: pa.array([], kind) for name, kind in types.items()})
    else:
        try:
            table = csv.read_csv(
                pa.BufferReader(plain),
                read_options=block_options(len(plain), column_names=list(types)),
                parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=True),
                convert_options=csv.ConvertOptions(column_types=types, null_values=[]),
            )
        except pa.ArrowInvalid as error:
            raise _problem(body, header, file, kinds) or FileError(f"{file}: not readable ({error})") from error
    if table.num_rows != header.num_entries:
        raise FileError(
            f"{file}: the header promises {header.num_entries:,} entries and {table.num_rows:,} follow; the file is "
            "damaged, fetch it again"
        )
    return table


def _lines(body: bytes, header: _Header) -> list[tuple[int, list[str]]]:
    lines = body.replace(b"\t", b" ").decode("latin1").split("\n")
    fields = [[field for field in line.split(" ") if field] for line in lines]
    return [(header.num_lines + i, line) for i, line in enumerate(fields, 1) if line]


def _line_of(body: bytes, header: _Header, entry: int) -> int:
    return _lines(body, header)[entry][0]


def _problem(body: bytes, header: _Header, file: str, kinds: list[str]) -> GraphError | None:
    expected = {1: "one number", 2: "row and column", 3: "row, column and value"}[len(kinds)]
    for number, fields in _lines(body, header):
        where = f"{file}, line {number}"
        if len(fields) != len(kinds):
            return GraphError(f"{where}: expected {expected}, got {len(fields)} fields: {' '.join(fields)[:60]!r}")
        for field, kind in zip(fields, kinds, strict=True):
            if kind == "int64" and not (_INDEX.fullmatch(field) and len(field) <= _MAX_DIGITS):
                return GraphError(f"{where}: {field[:60]!r} is not the number of a row or column")
            if kind == "float64" and not _NUMBER.fullmatch(field):
                return GraphError(f"{where}: {field[:60]!r} is not a number")
    return None
