"""Lines, fields and comments."""

import pytest

from rfp.errors import GraphError
from rfp.io.text_lines import Fields, check_utf8, comment_lines, lines, quote_problem, unify_line_ends


def test_line_ends_of_three_systems_are_one() -> None:
    assert unify_line_ends(b"a\r\nb\rc\nd", "f") == b"a\nb\nc\nd"
    assert unify_line_ends(b"a\r\r\nb", "f") == b"a\n\nb"  # an empty line, then one that ends as on Windows


@pytest.mark.parametrize("content", [b"0 1\r\n1 2\r\n3\0 4", b"0 1\r1 2\r3\0 4"])
def test_a_zero_byte_is_named_with_its_line(content: bytes) -> None:
    with pytest.raises(GraphError, match="f, line 3: a zero byte"):
        unify_line_ends(content, "f")


def test_a_byte_order_mark_belongs_at_the_beginning() -> None:
    mark = "\ufeff".encode()
    assert unify_line_ends(mark + b"0 1", "f") == b"0 1"
    for content in (b"a b\n" + mark + b"b c", mark + b"a b"):  # the second after one was dropped
        with pytest.raises(GraphError, match="a byte-order mark"):
            check_utf8(content, "f")


def test_what_is_not_utf8_is_named_with_line_and_byte() -> None:
    with pytest.raises(GraphError, match=r"f, line 2: not text in UTF-8 \(byte 3\)"):
        check_utf8(b"a b\nb \xffc\n", "f")


def test_blank_lines_count_but_are_not_given() -> None:
    assert list(lines(b"a\n \t\n\nb")) == [(1, b"a"), (4, b"b")]


@pytest.mark.parametrize(
    ("delimiter", "line", "fields"),
    [
        (",", "a , b,", ["a", "b", ""]),
        (",", '"a ""b""", "c,d" ', ['a "b"', "c,d"]),
        (" ", ' "a b"\tc ', ["a b", "c"]),
        ("\t", "a b\t\tc", ["a b", "", "c"]),
    ],
)
def test_fields(delimiter: str, line: str, fields: list[str]) -> None:
    assert Fields(delimiter).split(line) == fields


def test_quotes_may_be_characters_like_others() -> None:
    assert Fields(",", quotes=False).split('"a,b"') == ['"a', 'b"']


@pytest.mark.parametrize(
    ("mark", "kept"), [(None, b"\n0 1\n\n//x y"), ("//", b"# a\n0 1\n %b\n"), ("", b"# a\n0 1\n %b\n//x y")]
)
def test_comments_leave_empty_lines(mark: str | None, kept: bytes) -> None:
    content = b"# a\n0 1\n %b\n//x y"
    pattern = comment_lines(content, mark)
    assert (content if pattern is None else pattern.sub(b"", content)) == kept


@pytest.mark.parametrize(("line", "bad"), [('"a"b,c', True), ('a"b,c', True), ('"a,b', True), ('"a","b"', False)])
def test_quotes_that_enclose_no_whole_field(line: str, bad: bool) -> None:
    problem = quote_problem(b"x,y\n" + line.encode(), Fields(","), "f")
    assert ("f, line 2" in str(problem)) is bad
