"""A made-up citation network with a test node that no file knows; the real ones against PyG's own class."""

import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.datasets import Planetoid

from rfp.data import load
from rfp.data.datasets import DATASETS
from rfp.data.loaded import LoadedTask
from rfp.errors import FileError

from .conftest import write_splits

RAW = "planetoid/CiteSeer/geom-gcn/raw"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Nodes 0, 1 known; test nodes 4 and 2, in this order; node 3 is in no file."""
    raw = tmp_path / RAW
    raw.mkdir(parents=True)
    one_hot = np.eye(3)
    content = {
        "x": sp.csr_matrix([[1.0, 0]]),
        "y": one_hot[[0]],
        "allx": sp.csr_matrix([[1.0, 0], [0, 1.0]]),
        "ally": one_hot[[0, 1]],
        "tx": sp.csr_matrix([[4.0, 4.0], [2.0, 2.0]]),
        "ty": one_hot[[2, 1]],
        "graph": defaultdict(list, {0: [1, 1, 0], 1: [0], 4: [2], 2: [4]}),  # a duplicate and a self-loop
    }
    for name, value in content.items():
        (raw / f"ind.citeseer.{name}").write_bytes(pickle.dumps(value, protocol=4))
    (raw / "ind.citeseer.test.index").write_text("4\n2\n")
    write_splits(raw, "citeseer", num_nodes=5)
    return tmp_path


def read(root: Path) -> LoadedTask:
    spec = DATASETS["citeseer"]
    return spec.read(root, spec.task)


def test_test_nodes_go_to_their_own_numbers(root: Path) -> None:
    loaded = read(root)
    assert loaded.graphs.x is not None
    assert loaded.graphs.x.tolist() == [[1, 0], [0, 1], [2, 2], [0, 0], [4, 4]]
    assert loaded.y.tolist() == [0, 1, 1, 0, 2]
    assert sorted(loaded.graphs.edge_index.T.tolist()) == [[0, 1], [1, 0], [2, 4], [4, 2]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("allx", b"\x80\x02cut", r"ind.citeseer.allx cannot be read as a pickle"),
        ("test.index", b"4\nx\n", r"test.index: expected one node number a line"),
        ("tx", pickle.dumps(np.ones((1, 2)), protocol=4), r"ind.citeseer.tx: expected a row for each of the 2 nodes"),
        ("ty", pickle.dumps(np.ones(3), protocol=4), r"ind.citeseer.ty: expected a matrix"),
        ("graph", pickle.dumps({0: [77]}, protocol=4), r"ind.citeseer.graph: .*outside 0 to 4"),
        ("graph", pickle.dumps([1, 2], protocol=4), r"ind.citeseer.graph: expected a dict"),
    ],
)
def test_damaged_files_are_named(root: Path, name: str, content: bytes, message: str) -> None:
    (root / RAW / f"ind.citeseer.{name}").write_bytes(content)
    with pytest.raises(FileError, match=message):
        read(root)


@pytest.mark.data
@pytest.mark.parametrize("name", ["Cora", "CiteSeer", "PubMed"])
def test_equal_to_pyg(data_root: Path, tmp_path: Path, name: str) -> None:
    link = tmp_path / name / "geom-gcn" / "raw"
    link.parent.mkdir(parents=True)
    link.symlink_to(data_root / "planetoid" / name / "geom-gcn" / "raw")
    expected = Planetoid(str(tmp_path), name, split="geom-gcn")[0]
    got = load(name.lower(), data_root=data_root).data()
    for attribute in ("x", "y", "edge_index"):
        assert torch.equal(got[attribute], expected[attribute]), attribute
        assert got[attribute].dtype == expected[attribute].dtype, attribute
    for attribute in ("train_mask", "val_mask", "test_mask"):
        assert torch.equal(got[attribute], expected[attribute].bool()), attribute  # PyG keeps the files' uint8


@pytest.mark.data
def test_citeseer_has_isolated_nodes(data_root: Path) -> None:
    graphs = load("citeseer", data_root=data_root).graphs
    assert int((torch.bincount(graphs.edge_index[0], minlength=3327) == 0).sum()) == 48
