"""The line-by-line view of an edge list, used to find the dialect and the place of an error."""

import pytest

from rfp.io.columns import Columns
from rfp.io.edge_list_lines import Dialect, find_dialect, line_of_row, lines, parse_problem
from rfp.io.options import ReadOptions


def test_lines_keep_their_numbers() -> None:
    content = b"# a\r\n\r\n1 2\r\n   \n% b\n 3 4"
    assert list(lines(content)) == [(3, b"1 2"), (6, b" 3 4")]
    assert list(lines(b"")) == []


@pytest.mark.parametrize(
    ("text", "delimiter", "header"),
    [
        (b"1,2\n", ",", False),
        (b"a b,c d\n", ",", False),
        (b"a\tb c\n", "\t", False),
        (b"x y\n1 2\n", " ", True),
        (b"ann bob 1\nann cy 2\n", " ", False),  # a number in the first line: no header
        (b"who whom n\nann cy 2\n", " ", True),
        (b"ann bob\nann 7\n", " ", False),  # one number alone proves nothing
        (b"src dst\nann bob\n", " ", True),
    ],
)
def test_dialect(text: bytes, delimiter: str, header: bool) -> None:
    dialect = find_dialect(text, "f", ReadOptions())
    assert dialect is not None
    assert (dialect.delimiter, dialect.header) == (delimiter, header)
    assert (dialect.names is not None) == header


def test_rows_to_lines_past_header_and_comments() -> None:
    content = b"# c\ns,t\n0,1\n\n1,2\n"
    dialect = find_dialect(content, "f", ReadOptions(header=True))
    assert dialect is not None
    assert [line_of_row(content, dialect, row) for row in (0, 1)] == [3, 5]


def test_quoted_fields_are_split_as_arrow_splits_them() -> None:
    assert Dialect(",", False, None, 2).split('"a,b",c') == ["a,b", "c"]
    assert Dialect(" ", False, None, 2).split(' "a b" c ') == ["a b", "c"]


def test_no_problem_in_a_good_file() -> None:
    assert parse_problem(b"0,1,2\n", "f", Dialect(",", False, None, 3), Columns(0, 1, 2)) is None
