"""Matrix Market files, compared with SciPy's reader and writer where those are right."""

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from rfp.errors import FileError, GraphError, RFPError
from rfp.io.matrices import read_matrix_market
from rfp.io.matrix_market import parse_matrix_market
from rfp.io.options import ReadOptions

REAL = b"%%MatrixMarket matrix coordinate real general\n"


def parse(content: bytes) -> sp.coo_array:
    return parse_matrix_market(content, "a.mtx")


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
@pytest.mark.parametrize("dense", [False, True])
def test_what_scipy_writes_is_read_as_scipy_reads_it(symmetry: str, field: str, dense: bool) -> None:
    if dense and field == "pattern":
        pytest.skip("an array has numbers")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        matrix = np.round(rng.normal(size=(6, 6)) * (rng.random((6, 6)) < 0.4) * 8)
        matrix = {"general": matrix, "symmetric": matrix + matrix.T, "skew-symmetric": matrix - matrix.T}[symmetry]
        matrix = matrix * 0.3 if field == "real" else matrix.astype(int)
        file = io.BytesIO()
        written = None if field == "pattern" and symmetry == "skew-symmetric" else field
        scipy.io.mmwrite(file, matrix if dense else sp.coo_array(matrix), symmetry=symmetry, field=written)
        expected = scipy.io.mmread(io.BytesIO(file.getvalue()))
        np.testing.assert_array_equal(parse(file.getvalue()).toarray(), sp.coo_array(expected).toarray())


def test_rectangles_blank_lines_tabs_comments_and_line_ends() -> None:
    text = b"%%matrixmarket Matrix Coordinate Real General\n% a\n%\n\n 2 3 2 \n\n1\t3   2.5\n \n  2 1 -1e3\t\n\n"
    for ends in (b"\n", b"\r\n", b"\r"):
        assert parse(text.replace(b"\n", ends)).toarray().tolist() == [[0, 0, 2.5], [-1000, 0, 0]]


def test_no_entries_and_an_empty_array() -> None:
    assert parse(REAL + b"3 3 0\n").shape == (3, 3)
    assert parse(b"%%MatrixMarket matrix array real general\n0 0\n").shape == (0, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"2 2 1\n1 2 3\0\n", "byte 58 is zero"),  # SciPy's reader ends the process here
        (b"2 2 1\n1 2 3.5.5\n", "line 3: '3.5.5' is not a number"),
        (b"2 2 1\n1 2 0x10\n", "line 3: '0x10' is not a number"),
        (b"2 2 1\n0x1 2 3\n", "line 3: '0x1' is not the number of a row or column"),
        (b"2 2 1\n\n1 2 3 4\n", "line 4: expected row, column and value, got 4 fields"),
        (b"2 2 1\n1.5 2 3\n", "line 3: '1.5' is not the number of a row or column"),
        (b"2 2 1\n1 99999999999999999999 3\n", "line 3: '99999999999999999999' is not the number"),
        (b"2 2 2\n1 2 3\n3 1 1\n", "line 4: row 3 is not one of 1 to 2"),
        (b"2 2 1\n1 0 3\n", "line 3: column 0 is not one of 1 to 2"),
        (b"2 2 3\n1 2 3\n", "promises 3 entries and 1 follow"),
        (b"2 2 1\n1 2 3\n1 1 1\n", "promises 1 entries and 2 follow"),
        (b"2 2 999999999999\n1 2 3\n", "promises 999,999,999,999 entries and 6 bytes follow"),
        (b"2 2\n1 2 3\n", "line 2: expected the numbers of rows, columns and entries, got '2 2'"),
        (b"2 -2 1\n1 2 3\n", "line 2: expected the numbers"),
        (b"9999999999999999999 2 1\n1 2 3\n", "cannot be represented"),
        (b"", "without its line of sizes"),
    ],
)
def test_mistakes_are_named_with_their_line(body: bytes, message: str) -> None:
    with pytest.raises(RFPError, match=message) as error:
        parse(REAL + body)
    assert str(error.value).startswith("a.mtx")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a Matrix Market file"),
        (b"0 1\n", "not a Matrix Market file"),
        (b"%%MatrixMarket vector coordinate real general\n", "not a Matrix Market file"),
        (b"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "is complex"),
        (b"%%MatrixMarket matrix array pattern general\n1 1\n1\n", "must have numbers"),
        (b"%%MatrixMarket matrix array real general\n1000000000 1000000000\n1\n", "promises"),
        (b"%%MatrixMarket matrix array real general\n2 1\n1\nx\n", "line 4: 'x' is not a number"),
        (b"%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n", "must be square"),
        (b"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n", "on its diagonal"),
    ],
)
def test_other_files(content: bytes, message: str) -> None:
    with pytest.raises((FileError, GraphError), match=message):
        parse(content)


def test_a_byte_order_mark_is_dropped() -> None:
    assert parse(b"\xef\xbb\xbf" + REAL + b"2 2 1\n2 1 0.5\n").toarray().tolist() == [[0, 0], [0.5, 0]]


def test_a_cut_gzip_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(REAL + b"3 3 3\n1 2 3\n2 3 1\n3 3 1\n")
    for size in (3, 12, len(whole) // 2, len(whole) - 4):
        (tmp_path / "a.mtx.gz").write_bytes(whole[:size])
        with pytest.raises(FileError, match=r"a\.mtx\.gz"):
            read_matrix_market(tmp_path / "a.mtx.gz", ReadOptions())
