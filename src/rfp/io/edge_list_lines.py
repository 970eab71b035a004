"""An edge list line by line: its dialect, from the first lines, and the place of an error, when there is one."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass

from rfp.errors import ArgumentError, GraphError
from rfp.io.columns import SOURCE_NAMES, TARGET_NAMES, Columns
from rfp.io.options import ReadOptions

_INTEGER = re.compile(r"-?\d+")


@dataclass(frozen=True)
class Dialect:
    """How the lines of an edge list are written.

    Args:
        delimiter: One character; a space means any white space.
        header: Whether the first line names the columns.
        names: Names of the columns, if there is a header.
        num_columns: Fields in each line.
        first_edge: The fields of the first edge; empty if there is none.
    """

    delimiter: str
    header: bool
    names: tuple[str, ...] | None
    num_columns: int
    first_edge: tuple[str, ...] = ()

    def looks_integer(self, *positions: int) -> bool:
        """Whether the first edge has integers there (or is no edge at all)."""
        return all(_INTEGER.fullmatch(field) for i, field in enumerate(self.first_edge) if i in positions)

    def split(self, line: str) -> list[str]:
        if self.delimiter == " ":
            return line.split() if '"' not in line else next(csv.reader([line.strip()], delimiter=" "))
        return [field.strip() for field in next(csv.reader([line], delimiter=self.delimiter))]

    def column_name(self, position: int) -> str:
        return str(position + 1) if self.names is None else repr(self.names[position])


def lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The number, from 1, and content of each line that is neither blank nor a comment (``#`` or ``%``)."""
    start, number = 0, 0
    while start < len(content):
        stop = content.find(b"\n", start)
        stop = len(content) if stop < 0 else stop
        number += 1
        line = content[start:stop].strip(b"\r")
        if line.strip() and line.lstrip()[:1] not in (b"#", b"%"):
            yield number, line
        start = stop + 1


def find_dialect(content: bytes, file: str, options: ReadOptions) -> Dialect | None:
    """Read the dialect off the first two lines; ``None`` if there is no line.

    The first line is a header if it has usual names for both ids (source, target; src, dst; ...), or if it has no
    number at all and the second line has numbers for both ids or as weight.
    """
    first_lines = [_decode(line, number, file) for (number, line), _ in zip(lines(content), range(2), strict=False)]
    if not first_lines:
        return None
    delimiter = options.delimiter or _guess_delimiter(first_lines[0])
    if len(delimiter) != 1:
        raise ArgumentError(f"--delimiter must be one character, got {delimiter!r} (a space means any white space)")
    probe = Dialect(delimiter, False, None, 0)
    rows = [probe.split(line) for line in first_lines]
    header = _is_header(rows) if options.header is None else options.header
    edges = rows[1:] if header else rows
    first_edge = tuple(edges[0]) if edges else ()
    return Dialect(delimiter, header, tuple(rows[0]) if header else None, len(rows[0]), first_edge)


def _guess_delimiter(line: str) -> str:
    return next((mark for mark in ("\t", ",", ";") if mark in line.strip()), " ")


def _is_header(rows: list[list[str]]) -> bool:
    names = {field.lower() for field in rows[0] if len(field) > 1}  # u, v and w may be nodes
    if names.intersection(SOURCE_NAMES) and names.intersection(TARGET_NAMES):
        return True
    if len(rows) == 1 or any(map(_is_number, rows[0])):
        return False
    numbers = [_is_number(field) for field in rows[1]]
    return all(numbers[:2]) or any(numbers[2:])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _decode(line: bytes, number: int, file: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise GraphError(
            f"{file}, line {number}: not text in UTF-8 (byte {error.start + 1}); convert it, e.g. with iconv -t utf-8, "
            "or name its format with --format"
        ) from error


def _rows(content: bytes, file: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    body = lines(content)
    if dialect.header:
        next(body, None)
    for number, line in body:
        yield number, dialect.split(_decode(line, number, file))


def line_of_row(content: bytes, dialect: Dialect, row: int) -> int:
    """Line number, from 1, of the edge ``row``, from 0."""
    skip = row + (1 if dialect.header else 0)
    return next(number for i, (number, _) in enumerate(lines(content)) if i == skip)


def parse_problem(content: bytes, file: str, dialect: Dialect, columns: Columns) -> GraphError | None:
    """The first line that is not an edge, as an error that says what is wrong with it."""
    for number, fields in _rows(content, file, dialect):
        if len(fields) != dialect.num_columns:
            return GraphError(
                f"{file}, line {number}: {len(fields)} columns where the first line has {dialect.num_columns}; "
                "correct the line, or give the separator with --delimiter"
            )
        if columns.weight is not None and not _is_number(fields[columns.weight]):
            return _weight_problem(fields[columns.weight], f"{file}, line {number}")
    return None


def _weight_problem(text: str, where: str) -> GraphError:
    if text.startswith("{"):
        advice = "write the list with networkx.write_weighted_edgelist or data=False, or give --unweighted"
    else:
        advice = "correct it, choose another column with --weight-column, or ignore weights with --unweighted"
    return GraphError(f"{where}: weight {text!r} is not a number; {advice}")


def text_id_problem(
    content: bytes, file: str, dialect: Dialect, columns: Columns, *, numbers_only: bool
) -> GraphError | None:
    """The first line with an empty id, or (``numbers_only``) an id that is not a node number."""
    for number, fields in _rows(content, file, dialect):
        for field in (fields[columns.source], fields[columns.target]):
            if not field:
                return GraphError(f"{file}, line {number}: a node id is empty; correct or remove the line")
            if numbers_only and not (_INTEGER.fullmatch(field) and abs(int(field)) < 2**63):
                return GraphError(
                    f"{file}, line {number}: node id {field!r} is not a node number, which --num-nodes asks for; "
                    "leave --num-nodes out to use text ids"
                )
    return None
