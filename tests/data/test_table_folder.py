"""Folders of CSV and Parquet files as tasks."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rfp.data import load
from rfp.errors import ArgumentError, FileError, GraphError


def write(folder: Path, **tables: str) -> Path:
    """One file for each table; lines are separated by blanks, so that a table fits a line."""
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text.replace(" ", "\n") + "\n")
    return folder


NODES = "node,age,label,split ann,30,yes,train bob,41,no,val cy,25,yes,test dee,60,,"
EDGES = "source,target,weight ann,bob,2 bob,cy,0.5"


def test_one_graph_with_node_labels(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, nodes=NODES, edges=EDGES))
    assert loaded.task.name == tmp_path.name
    assert (loaded.task.level.name, loaded.task.kind, loaded.task.names) == ("node", "classification", ("no", "yes"))
    assert loaded.y.tolist() == [1, 0, 1, -1]
    assert [loaded.rows(part).tolist() for part in ("train", "val", "test")] == [[0], [1], [2]]
    assert loaded.graphs.x is not None
    assert loaded.graphs.x.tolist() == [[30], [41], [25], [60]]
    assert loaded.graphs.num_nodes == 4  # dee has no edge
    assert loaded.graphs.graph.to_scipy().toarray().tolist() == [
        [0, 2, 0, 0],
        [2, 0, 0.5, 0],
        [0, 0.5, 0, 0],
        [0, 0, 0, 0],
    ]


def test_parquet_is_the_same(tmp_path: Path) -> None:
    table = {"source": [0, 1], "target": [1, 2]}
    pq.write_table(pa.table(table), tmp_path / "edges.parquet")
    split = ["train", "val", "test"]
    pq.write_table(pa.table({"node": [0, 1, 2], "label": [0.5, 1.5, 2.0], "split": split}), tmp_path / "nodes.parquet")
    loaded = load(tmp_path)
    assert loaded.task.kind == "regression"
    assert loaded.y.tolist() == [[0.5], [1.5], [2.0]]
    assert loaded.graphs.edge_weight is None


def test_many_graphs_with_several_targets_and_splits(tmp_path: Path) -> None:
    write(
        tmp_path,
        graphs="graph,label_mass,label_size,split_0,split_1 g2,1.5,10,train,test g1,2.5,20,val,train g3,3,30,test,val",
        edges="graph,source,target,kind g1,0,1,7 g2,0,1,8 g2,1,2,9 g3,5,6,7",
    )
    loaded = load(tmp_path)
    assert (loaded.task.level.name, loaded.task.kind, loaded.task.names) == ("graph", "regression", ("mass", "size"))
    assert loaded.y.tolist() == [[1.5, 10], [2.5, 20], [3, 30]]
    assert loaded.graphs.ptr.tolist() == [0, 3, 5, 7]  # in the order of graphs.csv
    assert [loaded.rows(part, 1).tolist() for part in ("train", "val", "test")] == [[1], [2], [0]]
    first = loaded.data(0)
    assert sorted(zip(first.edge_index.T.tolist(), first.edge_attr[:, 0].tolist(), strict=True)) == [
        ([0, 1], 8),
        ([1, 0], 8),
        ([1, 2], 9),
        ([2, 1], 9),
    ]
    assert load({"path": str(tmp_path), "target": "size"}).y.tolist() == [[10], [20], [30]]


def test_labels_of_nodes_in_many_graphs_follow_their_nodes(tmp_path: Path) -> None:
    write(
        tmp_path,
        nodes="graph,node,label,split b,0,1.5,train a,0,2.5,val b,1,3.5,test",
        edges="graph,source,target b,0,1",
    )
    loaded = load(tmp_path)
    assert loaded.y.tolist() == [[1.5], [3.5], [2.5]]  # graph b first, as it appears first
    assert loaded.rows("test").tolist() == [1]
    assert loaded.graphs.ptr.tolist() == [0, 2, 3]


def test_directed_on_request(tmp_path: Path) -> None:
    write(tmp_path, nodes=NODES, edges=EDGES)
    assert load({"path": str(tmp_path), "undirected": False}).graphs.edge_index.tolist() == [[0, 1], [1, 2]]


def test_kind_and_split_may_be_asked_for(tmp_path: Path) -> None:
    rows = " ".join(f"{i},{i % 2}" for i in range(8))
    write(tmp_path, nodes=f"node,label {rows}", edges="source,target 0,1")
    with pytest.raises(ArgumentError, match=r"nodes.csv, column label: labels are whole numbers"):
        load(tmp_path)
    with pytest.raises(ArgumentError, match=r"nodes.csv: there is no split; add a column split"):
        load({"path": str(tmp_path), "kind": "binary"})
    config = {"path": str(tmp_path), "kind": "binary", "metric": "average_precision", "random_split": [0.5, 0.25, 0.25]}
    loaded = load(config)
    assert (loaded.task.metric, loaded.y.shape) == ("average_precision", (8, 1))
    assert torch.equal(loaded.masks["train"], load(config).masks["train"])


@pytest.mark.parametrize(
    ("tables", "error", "message"),
    [
        ({"nodes": NODES}, FileError, "there is no edges file; expected edges.csv, edges.csv.gz, edges.parquet"),
        ({"nodes": NODES, "edges": "source,dest ann,bob"}, GraphError, "edges.csv: there is no column 'target'"),
        ({"nodes": NODES, "edges": "source,target ann,zoe"}, GraphError, "edges.csv, row 1: node zoe is not in nodes"),
        ({"nodes": NODES, "edges": "source,target,weight ann,bob,heavy"}, GraphError, "row 1: column 'weight'"),
        ({"nodes": NODES.replace("41", ""), "edges": EDGES}, GraphError, "nodes.csv, row 2: column 'age' is empty"),
        ({"nodes": NODES.replace("41", "old"), "edges": EDGES}, GraphError, "row 2: column 'age' must be a number"),
        ({"nodes": NODES.replace("val", "dev"), "edges": EDGES}, ArgumentError, "row 2: column 'split' must be train"),
        ({"nodes": NODES.replace("cy,25,yes", "cy,25,"), "edges": EDGES}, ArgumentError, "row 3 is in test but has no"),
        ({"nodes": NODES.replace("test", ""), "edges": EDGES}, ArgumentError, "a split has no test rows"),
        ({"nodes": NODES.replace("age", "label_2"), "edges": EDGES}, ArgumentError, "both 'label' and 'label_2'"),
        ({"nodes": "node,age ann,1 bob,2 cy,3", "edges": EDGES}, ArgumentError, "there are no labels; add a column"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, tables: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load(write(tmp_path, **tables))


def test_labels_in_two_places(tmp_path: Path) -> None:
    write(
        tmp_path,
        graphs="graph,label,split 1,0.5,train 2,0.1,val 3,0.2,test",
        nodes="graph,node,label,split 1,0,a,train 2,0,b,val 3,0,a,test",
        edges="graph,source,target 1,0,0",
    )
    with pytest.raises(ArgumentError, match="both nodes and graphs have labels; say level="):
        load(tmp_path)
    assert load({"path": str(tmp_path), "level": "graph"}).task.kind == "regression"
    assert load({"path": str(tmp_path), "level": "node"}).task.kind == "classification"
