"""Tables of both formats read alike; errors name file, row and column."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rfp.data.table_files import Table, find_table, read_table
from rfp.errors import FileError, GraphError, MissingExtraError

TEXT = "id,weight,name\n1,0.5,ann\n2,,NA\n3,7,\n"


@pytest.fixture(params=["csv", "csv.gz", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    path = tmp_path / f"edges.{request.param}"
    if request.param == "csv":
        path.write_text(TEXT)
    elif request.param == "csv.gz":
        path.write_bytes(gzip.compress(TEXT.encode()))
    else:
        pq.write_table(pa.table({"id": [1, 2, 3], "weight": [0.5, None, 7], "name": ["ann", "NA", None]}), path)
    found = find_table(tmp_path, "edges")
    assert found is not None
    return found


def test_columns(table: Table) -> None:
    assert table.num_rows == 3
    assert table.ids("id").to_pylist() == [1, 2, 3]
    assert table.texts("name") == ["ann", "NA", None]
    assert table.is_text("name")
    assert not table.is_text("weight")
    assert np.isnan(table.numbers("weight", missing=True)).tolist() == [False, True, False]


def test_wrong_values_are_named(table: Table) -> None:
    with pytest.raises(GraphError, match=r"edges\.\S+, row 2: column 'weight' is empty"):
        table.numbers("weight")
    with pytest.raises(GraphError, match=r"row 1: column 'name' must be a number, got 'ann'"):
        table.numbers("name")
    with pytest.raises(GraphError, match=r"row 3: column 'name' is empty; every row needs an id"):
        table.ids("name")
    with pytest.raises(GraphError, match="must hold ids"):
        Table(table.path, {"f": pa.array([0.5])}, 1).ids("f")
    with pytest.raises(GraphError, match=r"row 2: column 'f' is inf, which is not finite"):
        Table(table.path, {"f": pa.array([0.5, float("inf")])}, 2).numbers("f")
    with pytest.raises(GraphError, match="must hold numbers, got list"):
        Table(table.path, {"f": pa.array([[1.0]])}, 1).numbers("f")


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    assert find_table(tmp_path, "edges") is None
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n3\n")
    with pytest.raises(FileError, match=r"edges.csv: not a readable table .*2 columns"):
        find_table(tmp_path, "edges")
    (tmp_path / "edges.parquet").write_bytes(b"nothing")
    with pytest.raises(FileError, match=r"has edges.csv and edges.parquet; keep one"):
        find_table(tmp_path, "edges")
    with pytest.raises(FileError, match=r"edges.parquet: not a readable table"):
        read_table(tmp_path / "edges.parquet")
    (tmp_path / "twice.csv").write_text("a, a\n1,2\n")
    with pytest.raises(FileError, match="same name"):
        read_table(tmp_path / "twice.csv")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edges.csv").write_text("a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"needs pyarrow: pip install 'torch-rfp\[cli\]'"):
        find_table(tmp_path, "edges")
