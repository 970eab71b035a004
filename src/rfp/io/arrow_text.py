"""Columns of a text file through Arrow's parser, which is fast, and strict about the form it wants."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rfp.errors import GraphError
from rfp.io.dialect import Dialect
from rfp.io.text_lines import decode, lines

_SCAN_BYTES = 1 << 22
TEXT_BLOCK_BYTES = 1 << 20
_BLANK_LINE = re.compile(rb"^[ \t]+$", re.MULTILINE)


def prepare(content: bytes, dialect: Dialect) -> tuple[bytes, str]:
    """The text in a form that Arrow knows, and its delimiter: no blank lines, no runs of blanks. Each replacement is
    one pass in C; where there is nothing to replace the bytes are not copied.
    """
    delimiter, quoted = dialect.fields.delimiter, dialect.fields.quotes and b'"' in content
    if delimiter != " ":
        if content[:1] in (b" ", b"\t") or b"\n " in content or b"\n\t" in content:
            content = _BLANK_LINE.sub(b"", content)
        if quoted:  # a quote must touch the delimiter
            content = re.sub(dialect.fields.quoted.encode(), rb"\1", content, flags=re.MULTILINE)
        return content.lstrip(b"\n"), delimiter  # Arrow would take an empty first line for the header
    if quoted:
        bare = re.sub(dialect.fields.quoted.encode(), b"", content, flags=re.MULTILINE)
        if any(content.count(blank) != bare.count(blank) for blank in (b" ", b"\t")):  # blanks inside quotes
            return _with_tabs(content, dialect), "\t"
    content = content.replace(b"\t", b" ")
    while b"  " in content:
        content = content.replace(b"  ", b" ")
    return content.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" \n"), " "


def _with_tabs(content: bytes, dialect: Dialect) -> bytes:
    rows = (dialect.fields.split(line.decode(errors="surrogateescape")) for _, line in lines(content))
    text = "\n".join("\t".join('"' + field.replace('"', '""') + '"' for field in row) for row in rows)
    return text.encode(errors="surrogateescape")


def block_options(num_bytes: int, block_size: int = TEXT_BLOCK_BYTES, **options: Any) -> Any:
    """Arrow's options to read this much text in blocks, with threads where there are several.

    One block gains nothing from threads, and a process that ends while Arrow starts them, as the command does after an
    error in a small file, is aborted by the C++ runtime where torch is loaded too.
    """
    from pyarrow import csv

    block_size = min(block_size, 2**31 - 1)
    return csv.ReadOptions(block_size=block_size, use_threads=num_bytes > block_size, **options)


def read_columns(prepared: bytes, delimiter: str, dialect: Dialect, types: dict[int, Any]) -> dict[int, Any]:
    """Some columns by position, each one Arrow array; raises ``ArrowInvalid`` where a field is not of its type."""
    import pyarrow as pa

    if dialect.header and b"\n" not in prepared:
        prepared += b"\n"  # Arrow does not skip a line without an end
    try:
        return _read_blocks(prepared, delimiter, dialect, types, TEXT_BLOCK_BYTES)
    except pa.ArrowInvalid as error:
        if "straddling" not in str(error):
            raise
    return _read_blocks(prepared, delimiter, dialect, types, len(prepared) + 1)  # a line longer than a block


def _read_blocks(
    prepared: bytes, delimiter: str, dialect: Dialect, types: dict[int, Any], block_size: int
) -> dict[int, Any]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    names = {position: str(position) for position in sorted(types)}
    table = csv.read_csv(
        pa.BufferReader(prepared),
        read_options=block_options(
            len(prepared),
            block_size,
            column_names=[str(i) for i in range(dialect.num_fields)],
            skip_rows_after_names=1 if dialect.header else 0,
        ),
        parse_options=csv.ParseOptions(delimiter=delimiter, quote_char='"' if dialect.fields.quotes else False),
        # Nothing stands for "missing": an empty field is an error, and NA may be the name of a node.
        convert_options=csv.ConvertOptions(
            column_types={names[i]: kind for i, kind in types.items()},
            include_columns=list(names.values()),
            null_values=[],
        ),
    )
    columns = {}
    for position, name in names.items():
        column = table.column(name)
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], types[position])
        columns[position] = pc.utf8_trim(column, " \t") if types[position] == pa.string() else column
    return columns


def may_have_leading_zeros(prepared: bytes, delimiter: str) -> bool:
    """Whether somewhere a number may begin like ``007`` or ``0x7``, or be ``-0``: Arrow reads those as 7 and 0."""
    if b"-0" in prepared:
        return True
    ends_field = ord(delimiter)
    for start in range(0, len(prepared), _SCAN_BYTES):
        # Two bytes more than the block, so that a number on its border is seen; a line end before the very first.
        block = prepared[max(0, start - 1) : start + _SCAN_BYTES + 1]
        values = np.frombuffer(block if start else b"\n" + block, dtype=np.uint8)
        before, zero, after = values[:-2], values[1:-1], values[2:]
        found = (zero == ord("0")) & ((before <= ord("-")) | (before == ends_field))
        found &= ((after >= ord("0")) & (after <= ord("9"))) | (after == ord("x")) | (after == ord("X"))
        if found.any():
            return True
    return False


def line_of_row(content: bytes, dialect: Dialect, row: int) -> int:
    """Line number, from 1, of the edge ``row``, from 0."""
    skip = row + (1 if dialect.header else 0)
    return next(number for i, (number, _) in enumerate(lines(content)) if i == skip)


def line_problem(content: bytes, file: str, dialect: Dialect) -> GraphError | None:
    """The first line that is not a row, as an error that says what is wrong with it."""
    for number, line in lines(content):
        found = len(dialect.fields.split(decode(line, number, file)))
        if found != dialect.num_fields:
            return GraphError(
                f"{file}, line {number}: {found} columns where the first line has {dialect.num_fields}; "
                "correct the line, or give the separator with --delimiter"
            )
    return None
