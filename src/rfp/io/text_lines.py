r"""The lines of a text file: their numbers, their fields, and which of them are comments.

Comments are taken out before anything is parsed and leave an empty line behind, so that line numbers stay those of the
file. Everything here that goes through the whole file does so in C.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rfp.errors import GraphError

MARKS = ("#", "%")
_BYTE_ORDER_MARK = "\ufeff".encode()


def unify_line_ends(content: bytes, file: str) -> bytes:
    r"""The content of a text, LF at the end of every line and without a byte-order mark.

    >>> unify_line_ends(b"\xef\xbb\xbf0 1\r\n1 2\r", "f")
    b'0 1\n1 2\n'
    """
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise GraphError(f"{file}, line 1: text in UTF-16; convert it, e.g. with iconv -f utf-16 -t utf-8")
    content = content.removeprefix(_BYTE_ORDER_MARK)
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\0" in content:
        line = content.count(b"\n", 0, content.index(0)) + 1
        raise GraphError(
            f"{file}, line {line}: a zero byte, so this is no text; fetch the file again, or name its format"
        )
    return content


def check_utf8(content: bytes, file: str) -> None:
    """Raise for the first line that is not text, or that has an invisible mark where files were joined."""
    if content.isascii():
        return
    if _BYTE_ORDER_MARK in content:
        number = content.count(b"\n", 0, content.index(_BYTE_ORDER_MARK)) + 1
        raise GraphError(
            f"{file}, line {number}: a byte-order mark (U+FEFF, invisible) that is not at the beginning of the file, "
            "as files joined end to end have; remove it"
        )
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content[content.rfind(b"\n", 0, error.start) + 1 :].partition(b"\n")[0]
        decode(line, content.count(b"\n", 0, error.start) + 1, file)


def decode(line: bytes, number: int, file: str) -> str:
    """A line as text."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise GraphError(
            f"{file}, line {number}: not text in UTF-8 (byte {error.start + 1}); convert it, e.g. with iconv -t utf-8, "
            "or name its format with --format"
        ) from error


def lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The number, from 1, and content of each line that is not blank."""
    start, number = 0, 0
    while start < len(content):
        stop = content.find(b"\n", start)
        stop = len(content) if stop < 0 else stop
        number += 1
        line = content[start:stop]
        if line.strip(b" \t"):
            yield number, line
        start = stop + 1


@dataclass(frozen=True)
class Fields:
    """How a line is cut into fields: at ``delimiter`` (a blank: at blanks and tabs), quoted ones in one piece."""

    delimiter: str
    quotes: bool = True

    @property
    def quoted(self) -> str:
        """A field in quotes, with the blanks around it, as a pattern that matches nowhere else in a line."""
        if self.delimiter == " ":
            return r'(?:^|(?<=[ \t]))("(?:[^"\n]|"")*")(?=[ \t]|$)'
        edge = re.escape(self.delimiter)
        return rf'(?:^|(?<={edge}))[ \t]*("(?:[^"\n]|"")*")[ \t]*(?={edge}|$)'

    def split(self, line: str) -> list[str]:
        r"""The fields of a line, without the blanks around them and without their quotes.

        >>> Fields(",").split(' "a, b" ,c,'), Fields(" ").split('0 \t"a b"')
        (['a, b', 'c', ''], ['0', 'a b'])
        """
        kept: list[str] = []
        if self.quotes and '"' in line:
            # Quoted fields are put aside under a name that no text has: files with a NUL byte are refused.
            kept = [found[1][1:-1].replace('""', '"') for found in re.finditer(self.quoted, line)]
            line = re.sub(self.quoted, "\0", line)
        parts = re.split(r"[ \t]+", line.strip(" \t")) if self.delimiter == " " else line.split(self.delimiter)
        aside = iter(kept)
        return [next(aside) if part == "\0" else part for part in (part.strip(" \t") for part in parts)]


def comment_lines(content: bytes, mark: str | None) -> re.Pattern[bytes] | None:
    """A pattern of the comment lines, or ``None`` where there is none. ``mark=None``: those of ``#`` and ``%``."""
    marks = MARKS if mark is None else (mark,) if mark else ()
    encoded = [each.encode() for each in marks]
    begins = content.lstrip(b" \t\n")
    indented = b"\n " in content or b"\n\t" in content
    if not any(begins.startswith(each) or indented or b"\n" + each in content for each in encoded):
        return None
    return re.compile(rb"^[ \t]*(?:" + b"|".join(map(re.escape, encoded)) + rb")[^\n]*$", re.MULTILINE)


def refuse_doubtful_comments(
    content: bytes, pattern: re.Pattern[bytes], fields: Fields, num_fields: int, first_line: int, texts: bool, file: str
) -> None:
    """Raise for the first comment that may as well be an edge: ``#jazz,ann`` in a file of tags.

    Args:
        content: The file with its comments.
        pattern: Pattern of the comment lines.
        fields: How a line is cut.
        num_fields: Number of fields of the first edge.
        first_line: Number of the first line that is no comment.
        texts: Whether the ids of the first edge are text.
        file: Its name, for errors.
    """
    for found in pattern.finditer(content):
        line = found[0].strip(b" \t")
        if len(line) < 2 or line[1:2] in b" \t#%":
            continue  # the mark stands apart
        number = content.count(b"\n", 0, found.start()) + 1
        after = number > first_line
        if (after or texts) and len(fields.split(decode(line, number, file))) == num_fields:
            begin = line[:40].decode(errors="replace")
            raise GraphError(
                f"{file}, line {number}: {begin!r} may be a comment or an edge; say --comment {chr(line[0])!r} "
                '(lines that begin with it are comments) or --comment "" (there are no comments)'
            )


def quote_problem(content: bytes, fields: Fields, file: str) -> GraphError | None:
    """The first line with a quote that is not closed or stands inside a field."""
    rest = re.sub(fields.quoted.encode(), b"", content, flags=re.MULTILINE)
    at = rest.find(b'"')
    if at < 0:
        return None
    number = rest.count(b"\n", 0, at) + 1
    return GraphError(
        f"{file}, line {number}: a quote that does not enclose a whole field on one line; correct "
        "it, or give --no-quotes if quotes are part of the text"
    )
