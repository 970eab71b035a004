"""Edge lists in Parquet."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rfp.errors import FileError, GraphError
from rfp.io import LoadedGraph, ReadOptions, read_graph
from rfp.io.parquet import read_parquet


def read(folder: Path, table: dict[str, Any], **options: Any) -> LoadedGraph:
    pq.write_table(pa.table(table), folder / "g.parquet")
    return read_graph(folder / "g.parquet", **options)


def test_by_name_with_columns_ignored(tmp_path: Path) -> None:
    table = {"year": [1, 2], "target": [1, 2], "source": [0, 1], "weight": [0.5, 2.0]}
    loaded = read(tmp_path, table)
    assert loaded.graph.to_scipy().toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]
    assert loaded.weights == "column 'weight'"
    assert loaded.ignored == ("'year'",)


def test_by_position_directed(tmp_path: Path) -> None:
    loaded = read(tmp_path, {"a": [0, 1], "b": [1, 2]}, directed=True)
    assert loaded.graph.edge_index.tolist() == [[0, 1], [1, 2]]
    assert loaded.weights is None


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_text_ids(tmp_path: Path, kind: pa.DataType) -> None:
    loaded = read(tmp_path, {"source": pa.array(["z", "a"], kind), "target": pa.array(["a", "b"], kind)})
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == ["z", "a", "b"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint32(), pa.int64(), pa.uint64()])
def test_integer_ids_of_every_size(tmp_path: Path, kind: pa.DataType) -> None:
    loaded = read(tmp_path, {"source": pa.array([7, 3], kind), "target": pa.array([3, 9], kind)})
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == [3, 7, 9]


@pytest.mark.parametrize("weights", [pa.array([1, 2], pa.int16()), pa.array([1, 2], pa.float32())])
def test_weights_of_every_type(tmp_path: Path, weights: pa.Array) -> None:
    loaded = read(tmp_path, {"source": [0, 1], "target": [1, 2], "w": weights}, directed=True)
    assert loaded.graph.edge_weight is not None
    assert loaded.graph.edge_weight.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"source": [0, -1], "target": [1, 0]}, {}, "row 2: node id -1 is negative"),
        ({"source": [0, 5], "target": [1, 0]}, {"num_nodes": 5}, "row 2: node id 5 is out of range"),
        ({"source": [0, None], "target": [1, 0]}, {}, "row 2: column 'source' is null"),
        ({"source": [0, 1], "target": [1, 0], "weight": [1.0, float("nan")]}, {}, "row 2: weight nan is not finite"),
        ({"source": [0], "target": [1], "weight": ["x"]}, {}, "the weights in column 'weight' must be numbers"),
        ({"source": [0.5], "target": [1.0]}, {}, "node ids must be integers or text"),
        ({"source": ["a"], "target": ["b"]}, {"num_nodes": 2}, "with --num-nodes node ids must be integers"),
        ({"source": [[0]], "target": [[1]]}, {}, "node ids must be integers or text"),
        ({"source": pa.array([], pa.int64()), "target": pa.array([], pa.int64())}, {}, "holds no edges"),
        ({"source": [0]}, {}, "has 1 column"),
    ],
)
def test_mistakes(tmp_path: Path, table: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError) as error:
        read(tmp_path, table, **options)
    assert message in str(error.value)
    assert "g.parquet" in str(error.value)


def test_no_edges_with_num_nodes(tmp_path: Path) -> None:
    empty = pa.array([], pa.int64())
    assert read(tmp_path, {"source": empty, "target": empty}, num_nodes=3).graph.num_nodes == 3


def test_another_file(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(FileError, match="not a readable Parquet file"):
        read_parquet(tmp_path / "x.parquet", ReadOptions())


def test_names_of_columns_that_are_no_text(tmp_path: Path) -> None:
    """One byte of a name damaged, in every place where the file has it: PyArrow cannot decode it."""
    path = tmp_path / "g.parquet"
    pq.write_table(pa.table({"source": [0, 1], "target": [1, 2]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"source", b"so\xc3(ce"))
    with pytest.raises(FileError, match="not a readable Parquet file"):
        read_graph(path)
