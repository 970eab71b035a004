"""Text in the form that Arrow wants, and where that differs from what stands in the file."""

from pathlib import Path

import pyarrow as pa
import pytest

import rfp
from rfp.data.table_files import read_table
from rfp.io.arrow_text import line_of_row, line_problem, may_have_leading_zeros, prepare, read_columns
from rfp.io.dialect import Dialect, Fields


def dialect(delimiter: str, count: int = 2, *, header: bool = False, quotes: bool = True) -> Dialect:
    return Dialect(Fields(delimiter, quotes), count, header, None, 1, ())


@pytest.mark.parametrize(
    ("content", "delimiter", "expected"),
    [
        (b"0,1\n1,2\n", ",", b"0,1\n1,2\n"),
        (b"\n0,1\n \t\n1,2\n", ",", b"0,1\n\n1,2\n"),  # Arrow skips empty lines, not blank ones
        (b'"a b" , "c"\n', ",", b'"a b","c"\n'),
        (b"  0\t 1\n1   2 \n", " ", b"0 1\n1 2"),
    ],
)
def test_prepared(content: bytes, delimiter: str, expected: bytes) -> None:
    assert prepare(content, dialect(delimiter)) == (expected, delimiter)


def test_blanks_inside_quotes_stay() -> None:
    content, delimiter = prepare(b'"a  b" c\nc "d ""e"""\n', dialect(" "))
    assert delimiter == "\t"
    columns = read_columns(content, delimiter, dialect(" "), {0: pa.string(), 1: pa.string()})
    assert [columns[i].to_pylist() for i in (0, 1)] == [["a  b", "c"], ["c", 'd "e"']]


def test_quotes_that_are_characters() -> None:
    content, delimiter = prepare(b'"a,b\n', dialect(",", quotes=False))
    read = read_columns(content, delimiter, dialect(",", quotes=False), {0: pa.string()})
    assert read[0].to_pylist() == ['"a']


def test_columns_by_position_and_type() -> None:
    content = b"s,t,w\n1, x ,0.5\n2,NA,1e3\n"
    read = read_columns(content, ",", dialect(",", 3, header=True), {2: pa.float64(), 0: pa.int64(), 1: pa.string()})
    assert {i: column.to_pylist() for i, column in read.items()} == {0: [1, 2], 1: ["x", "NA"], 2: [0.5, 1000.0]}
    with pytest.raises(pa.ArrowInvalid):
        read_columns(b"1,2\nx,3\n", ",", dialect(","), {0: pa.int64()})


def test_a_line_longer_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.io.arrow_text.TEXT_BLOCK_BYTES", 16)
    long = "x" * 100
    read = read_columns(f"a,b\n{long},c\n".encode(), ",", dialect(","), {0: pa.string()})
    assert read[0].to_pylist() == ["a", long]


@pytest.mark.parametrize(
    ("content", "delimiter", "expected"),
    [
        (b"0,1\n10,20\n", ",", False),
        (b"007,1\n", ",", True),
        (b"1,00\n", ",", True),
        (b"1|02\n", "|", True),
        (b"1,0x7\n", ",", True),
        (b"1,-0\n", ",", True),
        (b"a02,b\n", ",", False),  # inside a name
        (b"1.05,2\n", ",", False),
        (b"5,0\n0,5\n", ",", False),
    ],
)
def test_leading_zeros(content: bytes, delimiter: str, expected: bool) -> None:
    assert may_have_leading_zeros(content, delimiter) is expected


def test_lines_are_counted_as_they_stand_in_the_file() -> None:
    content = b"s,t\n\n0,1\n\n1,2\n"
    assert [line_of_row(content, dialect(",", header=True), row) for row in (0, 1)] == [3, 5]
    problem = line_problem(b"0,1\n\n1,2,3\n", "f", dialect(","))
    assert str(problem).startswith("f, line 3: 3 columns where the first line has 2")
    assert line_problem(content, "f", dialect(",")) is None


def test_small_texts_are_read_without_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends while Arrow's threads start is aborted: seen in half of the errors in small files."""
    from pyarrow import csv

    seen: list[bool] = []
    read_csv = csv.read_csv

    def watched(source: object, *, read_options: csv.ReadOptions, **options: object) -> object:
        seen.append(read_options.use_threads)
        return read_csv(source, read_options=read_options, **options)

    monkeypatch.setattr(csv, "read_csv", watched)
    edges = b"1,2\n" * 100
    read_columns(edges, ",", dialect(","), {0: pa.int64()})
    (tmp_path / "edges.csv").write_bytes(b"source,target\n" + edges)
    read_table(tmp_path / "edges.csv")
    (tmp_path / "matrix.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
    rfp.read_graph(tmp_path / "matrix.mtx")
    assert seen == [False] * 3
    monkeypatch.setattr("rfp.io.arrow_text.TEXT_BLOCK_BYTES", 64)
    read_columns(edges, ",", dialect(","), {0: pa.int64()})
    assert seen[3:] == [True]
