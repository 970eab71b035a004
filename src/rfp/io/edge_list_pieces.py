"""An edge list larger than memory, a piece of whole lines at a time, with the meaning it has in one.

Separator, header and columns are seen from the beginning of the file, as :mod:`rfp.io.edge_list` sees them, and hold
for all of it. What only the whole file tells (a third column of times, a first line that may be a header, weights with
a decimal comma) is kept in mind from piece to piece and decided at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO

from rfp.edge_table.columns import Columns, choose_columns
from rfp.edge_table.node_ids import doubtful_kinds
from rfp.edge_table.table import EdgeTable
from rfp.errors import FileError, GraphError
from rfp.io.compression import open_unpacked
from rfp.io.dialect import Dialect, find_dialect
from rfp.io.edge_list import (
    first_ids,
    has_decimal_point,
    has_ids,
    header_error,
    id_kinds,
    last_comment,
    looks_like_times,
    mark_error,
    mark_of,
    may_name_columns,
    parse_rows,
    times_error,
    told_form,
)
from rfp.io.networkx_lists import expand_dictionaries
from rfp.io.options import ReadOptions
from rfp.io.text_lines import check_utf8, comment_lines, lines, refuse_doubtful_comments, unify_line_ends

_BYTE_ORDER_MARK = "\ufeff".encode()
_COMMA = "decimals"


def read_pieces(path: Path, options: ReadOptions, piece_bytes: int) -> Iterator[EdgeTable]:
    """The edges of a text file, some ``piece_bytes`` of it at a time; O(piece) memory.

    Raises:
        GraphError: As :func:`rfp.read_graph`, with the line of the file.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "friends.csv"
        >>> _ = path.write_text("0,1\\n1,2\\n2,3\\n3,4\\n")
        >>> [piece.num_rows for piece in read_pieces(path, ReadOptions(), 8)]
        [2, 2]
    """
    with open_unpacked(path) as (stream, packed):
        reader = _PieceReader(str(path), options)
        for content in chain(_whole_lines(stream, piece_bytes), [None]):
            table = reader.next(content)
            if table is not None:
                yield table if packed is None else replace(table, facts={"compression": packed, **table.facts})
        reader.finish()


def _whole_lines(stream: IO[bytes], piece_bytes: int) -> Iterator[bytes]:
    """The stream in pieces that end where a line does."""
    rest = b""
    while block := stream.read(piece_bytes):
        block = rest + block
        end = block.rfind(b"\n") + 1
        if not end:  # lines that end with CR alone; the last byte may be the CR of a CR LF
            end = block.rfind(b"\r", 0, len(block) - 1) + 1
        rest = block[end:]
        if end:
            yield block[:end]
    if rest:
        yield rest


class _PieceReader:
    """Reads the pieces of one file, in order.

    Args:
        file: Its name, for errors.
        options: How to read it.
    """

    def __init__(self, file: str, options: ReadOptions) -> None:
        self.file, self.options = file, options
        self.form: tuple[Dialect, Columns] | None = None
        self.waiting, self.at_end = b"", False  # before the first two lines that are no comments
        self.lines_before, self.num_rows = 0, 0
        self.first: EdgeTable | None = None
        self.all_times = True
        self.header_in_doubt: tuple[str, str] | None = None
        self.kinds: dict[str, str] = {}  # of ids, each with the first of them
        self.marks: set[tuple[int, str] | None] = set()  # of all pieces
        self.point, self.comma = False, False

    def next(self, piece: bytes | None) -> EdgeTable | None:
        """The edges of the next piece, or of what is left at the end; ``None`` if it has none."""
        content, self.at_end = self.waiting + (piece or b""), piece is None
        if not content:
            return None
        if self.lines_before and content.startswith(_BYTE_ORDER_MARK):
            raise GraphError(
                f"{self.file}, line {self.lines_before + 1}: a byte-order mark (U+FEFF, invisible) that is not at the "
                "beginning of the file, as files joined end to end have; remove it"
            )
        try:
            table, num_lines = self._parse(content)
        except GraphError as error:
            raise GraphError(_shifted(str(error), self.file, self.lines_before)) from error
        if table is None:
            self.waiting = content if self.form is None else b""
            self.lines_before += 0 if self.form is None else num_lines
            return None
        self.waiting = b""
        before = self.lines_before
        self.lines_before += num_lines
        inner = table.where
        table = replace(table, where=lambda row: _shifted(inner(row), self.file, before))
        self._remember(table)
        return table

    def _parse(self, content: bytes) -> tuple[EdgeTable | None, int]:
        options, file = self.options, self.file
        content = unify_line_ends(content, file)
        num_lines = content.count(b"\n") + (not content.endswith(b"\n"))
        pattern = comment_lines(content, options.comment)
        bare, num_comments = (content, 0) if pattern is None else pattern.subn(b"", content)
        check_utf8(bare, file)
        begins = self.form is None
        if self.form is None:
            if expand_dictionaries(bare, file, options) is not None:
                raise FileError(
                    f"{file}: a list of NetworkX with dictionaries is read in memory alone; write the weights as a "
                    "column, e.g. with networkx.write_weighted_edgelist"
                )
            if not self.at_end and sum(1 for _ in zip(lines(bare), range(2), strict=False)) < 2:
                return None, num_lines  # the form is seen from two lines
            dialect = find_dialect(bare, last_comment(content) if num_comments else None, file, options)
            if dialect is None:
                return None, num_lines
            self.form = dialect, choose_columns(dialect.names, dialect.num_columns, options, file)
        dialect, columns = self.form
        if pattern is not None and options.comment is None:
            texts = not dialect.looks_integer(columns.source, columns.target)
            # Every comment of a later piece stands after the first line.
            first_line = dialect.first_line if begins else 0
            refuse_doubtful_comments(content, pattern, dialect.fields, dialect.num_fields, first_line, texts, file)
        if not bare.strip(b" \t\n"):
            return None, num_lines
        here = dialect if begins else replace(dialect, header=False)
        table = parse_rows(bare, file, here, columns, options)
        if columns.weight is not None and _COMMA not in table.facts and not self.point and b"." in bare:
            self.point = has_decimal_point(bare, here, columns.weight)  # and not an id, or a column that is not read
        return (replace(table, facts={**told_form(dialect, columns), **table.facts}) if begins else table), num_lines

    def _remember(self, table: EdgeTable) -> None:
        """What only the whole file decides."""
        assert self.form is not None
        dialect, _ = self.form
        self.num_rows += table.num_rows
        if self.first is None:
            self.first = table
            if dialect.names is None and self.options.header is None and dialect.may_be_header and table.num_rows:
                doubtful = table.num_rows == 1 or may_name_columns(table, dialect, self.options)
                self.header_in_doubt = first_ids(table) if doubtful else None
        elif self.header_in_doubt is not None and has_ids(table, self.header_in_doubt):
            self.header_in_doubt = None
        self.marks.add(None if dialect.names is not None else mark_of(table, self.options))
        self.kinds = {**id_kinds(table, self.options), **self.kinds}
        self.all_times = self.all_times and dialect.names is None and looks_like_times(table, self.options)
        self.comma = self.comma or _COMMA in table.facts
        if self.comma and self.point:
            raise GraphError(
                f"{self.file}: some weights have a decimal comma and elsewhere there is a decimal point; write all "
                "alike, or ignore weights with --unweighted"
            )

    def finish(self) -> None:
        """Raise for what the whole file has shown to be doubtful."""
        if self.first is None or self.form is None:
            return
        if self.all_times:
            raise times_error(self.first)
        if self.header_in_doubt is not None and self.num_rows > 1:
            raise header_error(self.first, self.form[0])
        if len(self.marks) == 1:
            (mark,) = self.marks
            if mark is not None:
                raise mark_error(self.first, *mark)
        doubt = doubtful_kinds(self.kinds)
        if doubt is not None:
            raise doubt


def _shifted(message: str, file: str, lines: int) -> str:
    """A message about lines of a piece, with the numbers they have in the file."""
    if not lines:
        return message
    return re.sub(re.escape(file) + r", line (\d+)", lambda m: f"{file}, line {int(m[1]) + lines}", message)
