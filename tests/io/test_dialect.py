"""Separator, header and columns, seen from the first lines."""

import pytest

from rfp.errors import ArgumentError, GraphError
from rfp.io.dialect import Dialect, find_dialect, is_header, is_number
from rfp.io.options import ReadOptions


def dialect(text: str, comment: str | None = None, **options: object) -> Dialect:
    found = find_dialect(text.encode(), comment, "f", ReadOptions(**options))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("0 1", "blanks"),
        (" 0   1\t", "blanks"),  # a tab at the end separates nothing
        ("0\tann b", "tab"),
        ("0;1;0,5", "semicolon"),
        ("0,1", "comma"),
        ("a b,c d", "comma"),
        ("0 1 0,5", "blanks"),  # a decimal comma beside two other fields
        ("1,5 ann", "comma"),  # but not beside one
        ('"a\tb",c', "comma"),  # quoted text does not count
    ],
)
def test_separator(line: str, separator: str) -> None:
    assert dialect(line + "\n").separator == separator


@pytest.mark.parametrize(
    ("line", "message"), [("a;b,c", "both ; and , separate"), ("0 1,2", "'0 1' is several numbers in one column")]
)
def test_separators_that_may_be_either_are_refused(line: str, message: str) -> None:
    with pytest.raises(GraphError, match=f"f, line 1: .*{message}"):
        dialect(line + "\n")


@pytest.mark.parametrize("delimiter", ["", "ab", "é"])
def test_a_delimiter_is_one_ascii_character(delimiter: str) -> None:
    with pytest.raises(ArgumentError, match="--delimiter must be one ASCII character"):
        dialect("0 1\n", delimiter=delimiter)


@pytest.mark.parametrize(
    ("rows", "header"),
    [
        ([["source", "target"], ["a", "b"]], True),
        ([["u", "v"], ["v", "w"]], False),  # one letter may be a node
        ([["", "a", "b"], ["0", "x", "y"]], True),  # over pandas' index
        ([["", "0", "1"], ["", "1", "2"]], False),  # every line is indented
        ([["who", "whom"], ["1", "2"]], True),
        ([["who", "whom", "since"], ["a", "b", "1999"]], True),
        ([["0", "1"], ["a", "b"]], True),  # pandas' numbers of columns
        ([["0", "1"], ["1", "2"]], False),
        ([["a", "b"]], False),
    ],
)
def test_header(rows: list[list[str]], header: bool) -> None:
    assert is_header(rows) is header


def test_names_come_from_the_comment_before_the_first_line() -> None:
    found = dialect("0\t1\n", comment="# FromNodeId\tToNodeId")
    assert (found.header, found.names) == (False, ("FromNodeId", "ToNodeId"))
    assert dialect("0\t1\n", comment="# two columns").names is None
    assert dialect("0\t1\n", comment="# FromNodeId\tToNodeId", header=False).names is None


def test_a_separator_at_the_end_of_lines_is_no_column() -> None:
    found = dialect("a,b,\nb,c,\n")
    assert (found.num_fields, found.num_columns, found.trailing) == (3, 2, True)
    assert dialect("source,target,\na,b,\n").names == ("source", "target")


def test_no_line_has_no_dialect() -> None:
    assert find_dialect(b" \n\n", None, "f", ReadOptions()) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("1e-3", True), (".5", True), ("1,", True), ("1_0", False), ("٣", False)]
)
def test_numbers(text: str, expected: bool) -> None:
    assert is_number(text) is expected
