"""How the lines of an edge list are written, seen from the first of them: separator, header, columns."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rfp.edge_table.columns import SOURCE_NAMES, TARGET_NAMES
from rfp.errors import ArgumentError, GraphError
from rfp.io.options import ReadOptions
from rfp.io.text_lines import Fields, decode, lines

_INTEGER = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+[.,]?[0-9]*|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
_NAMES = {"\t": "tab", ",": "comma", ";": "semicolon", " ": "blanks"}


@dataclass(frozen=True)
class Dialect:
    """How the lines of an edge list are written.

    Args:
        fields: How a line is cut.
        num_fields: Fields in each line; one more than there are columns if lines end with a separator.
        header: Whether the first line names the columns.
        names: Names of the columns, from the first line or from the comment before it.
        first_line: Number of the first line that is no comment.
        first_edge: Fields of the first edge; empty if there is none.
        trailing: Whether every line ends with a separator.
    """

    fields: Fields
    num_fields: int
    header: bool
    names: tuple[str, ...] | None
    first_line: int
    first_edge: tuple[str, ...]
    trailing: bool = False

    @property
    def num_columns(self) -> int:
        return self.num_fields - self.trailing

    @property
    def separator(self) -> str:
        """For people."""
        return _NAMES.get(self.fields.delimiter, repr(self.fields.delimiter))

    def looks_integer(self, *positions: int) -> bool:
        """Whether the first edge has integers there (or is no edge at all)."""
        return all(_INTEGER.fullmatch(field) for i, field in enumerate(self.first_edge) if i in positions)

    @property
    def may_be_header(self) -> bool:
        """Whether the first edge could be the names of columns: it has no number, or is pandas' ``0,1``."""
        edge = self.first_edge[: self.num_columns]
        return not any(map(is_number, edge)) or self.is_numbered_header

    @property
    def is_numbered_header(self) -> bool:
        """Whether the first edge is ``0,1,...``, as pandas names columns without a name."""
        edge = list(self.first_edge[: self.num_columns])
        return self.fields.delimiter != " " and edge == [str(i) for i in range(self.num_columns)]


def find_dialect(content: bytes, comment: str | None, file: str, options: ReadOptions) -> Dialect | None:
    """Read the dialect off the first two lines; ``None`` if there is no line.

    Args:
        content: The file, comments taken out.
        comment: The last comment before the first line: it may name the columns.
        file: Name of the file, for errors.
        options: What was asked for.
    """
    first = [(number, decode(line, number, file)) for (number, line), _ in zip(lines(content), range(2), strict=False)]
    if not first:
        return None
    number = first[0][0]
    delimiter = options.delimiter
    if delimiter is None:
        delimiter = _guess_delimiter(first[0][1], options.quotes, f"{file}, line {number}")
    if len(delimiter) != 1 or delimiter in '"\n\r' or not delimiter.isascii():
        raise ArgumentError(
            f"--delimiter must be one ASCII character, got {delimiter!r} (a blank means any white space)"
        )
    fields = Fields(delimiter, options.quotes)
    rows = [fields.split(line) for _, line in first]
    header = is_header(rows) if options.header is None else options.header
    names = (
        tuple(rows[0]) if header else _names_in_comment(comment, fields, rows[0]) if options.header is None else None
    )
    edges = rows[1:] if header else rows
    edge = tuple(edges[0]) if edges else ()
    trailing = len(edge) > 2 and edge[-1] == "" and (names is None or (len(names) == len(edge) and names[-1] == ""))
    if trailing and names is not None:
        names = names[:-1]
    return Dialect(fields, len(rows[0]), header, names, number, edge, trailing)


def _guess_delimiter(line: str, quotes: bool, where: str) -> str:
    bare = re.sub(r'"(?:[^"]|"")*"', "q", line) if quotes else line
    bare = bare.strip(" \t")
    if "\t" in bare:
        delimiter = "\t"
    elif ";" in bare:
        delimiter = ";"
        if not _decimals_and_more([field.strip() for field in bare.split(";")]):
            raise GraphError(f"{where}: both ; and , separate columns here; say which with --delimiter")
    elif "," in bare and not _decimals_and_more(bare.split()):
        delimiter = ","
    else:
        delimiter = " "
    for field in bare.split(delimiter) if delimiter != " " else []:
        numbers = field.split()
        if len(numbers) > 1 and all(map(is_number, numbers)):
            raise GraphError(
                f"{where}: {field.strip()!r} is several numbers in one column; separate all columns in one way, or say "
                "with what with --delimiter"
            )
    return delimiter


def _decimals_and_more(fields: list[str]) -> bool:
    """Whether commas stand in decimal numbers alone, beside at least two other fields."""
    with_comma = [field for field in fields if "," in field]
    return all(map(_DECIMAL_COMMA.fullmatch, with_comma)) and len(fields) - len(with_comma) >= 2


def is_header(rows: list[list[str]]) -> bool:
    """Whether the first of one or two lines names the columns.

    >>> is_header([["who", "whom"], ["1", "2"]]), is_header([["ann", "bob"], ["bob", "cy"]])
    (True, False)
    """
    first = rows[0]
    if has_usual_names(first):
        return True
    if len(rows) == 1:
        return first[0] == ""
    if first[0] == "":  # over an index; where every line begins so, the lines are indented
        return rows[1][0] != ""
    second = rows[1]
    if first[:2] == ["0", "1"] and first == [str(i) for i in range(len(first))]:
        return not all(map(_INTEGER.fullmatch, second[:2]))
    if any(map(is_number, first)):
        return False
    numbers = [is_number(field) for field in second]
    return all(numbers[:2]) or any(numbers[2:])


def has_usual_names(fields: list[str]) -> bool:
    """Whether both ids have a usual name; u, v and w may be nodes."""
    names = {field.lower() for field in fields if len(field) > 1}
    return bool(names.intersection(SOURCE_NAMES) and names.intersection(TARGET_NAMES))


def _names_in_comment(comment: str | None, fields: Fields, first: list[str]) -> tuple[str, ...] | None:
    if comment is None:
        return None
    names = fields.split(comment.lstrip(" \t#%"))
    return tuple(names) if len(names) == len(first) and has_usual_names(names) else None


def is_number(text: str) -> bool:
    """Whether a field is a finite decimal number."""
    return _NUMBER.fullmatch(text) is not None
