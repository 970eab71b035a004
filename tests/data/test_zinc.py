"""Made-up molecules in ZINC's layout; the real ones against PyG's own class and the values printed by its authors."""

import pickle
from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import ZINC

from rfp.data import load
from rfp.data.datasets import DATASETS
from rfp.data.loaded import LoadedTask
from rfp.errors import FileError


def molecule(size: int, y: float) -> dict[str, object]:
    """A chain whose bonds are single, double, triple, single, …"""
    bonds = torch.zeros(size, size, dtype=torch.int8)
    for i in range(size - 1):
        bonds[i, i + 1] = bonds[i + 1, i] = i % 3 + 1
    return {
        "num_atom": size,
        "atom_type": torch.arange(size, dtype=torch.int8),
        "bond_type": bonds,
        "logP_SA_cycle_normalized": torch.tensor([y]),
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    raw = tmp_path / "ZINC" / "raw"
    raw.mkdir(parents=True)
    for part, first in (("train", 2), ("val", 5), ("test", 7)):
        molecules = [molecule(first + i, first + i + 0.5) for i in range(3)]
        (raw / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
        (raw / f"{part}.index").write_text("2,0\n" if part == "train" else "1\n")
    return tmp_path


def read(root: Path) -> LoadedTask:
    spec = DATASETS["zinc"]
    return spec.read(root, spec.task)


def test_the_indexed_molecules_are_read(root: Path) -> None:
    loaded = read(root)
    assert loaded.y.tolist() == [[4.5], [2.5], [6.5], [8.5]]
    assert loaded.graphs.ptr.diff().tolist() == [4, 2, 6, 8]
    assert [loaded.rows(part).tolist() for part in ("train", "val", "test")] == [[0, 1], [2], [3]]
    first = loaded.data(0)
    assert first.x.tolist() == [[0], [1], [2], [3]]
    assert first.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [2, 3], [3, 2]]
    assert first.edge_attr.tolist() == [1, 1, 2, 2, 3, 3]
    assert loaded.notes == ()


def test_indices_that_say_nothing_give_a_note(root: Path) -> None:
    for part in ("train", "val", "test"):
        (root / "ZINC" / "raw" / f"{part}.index").write_text("0,1,2\n")
    assert "need not be the official" in read(root).notes[0]


def test_damaged_files_are_named(root: Path) -> None:
    raw = root / "ZINC" / "raw"
    (raw / "val.index").write_text("1,b\n")
    with pytest.raises(FileError, match=r"val.index: expected whole numbers"):
        read(root)
    (raw / "val.index").write_text("9\n")
    with pytest.raises(FileError, match=r"val.pickle cannot be read .*index out of range"):
        read(root)
    (raw / "val.index").write_text("0\n")
    (raw / "val.pickle").write_bytes(pickle.dumps([{"atom_type": torch.ones(2)}]))
    with pytest.raises(FileError, match=r"val.pickle: molecule 0 .*KeyError"):
        read(root)


@pytest.mark.data
@pytest.mark.slow
def test_equal_to_pyg_and_to_printed_values(data_root: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    for part in ("val", "test"):
        for kind in ("pickle", "index"):
            (raw / f"{part}.{kind}").symlink_to(data_root / "ZINC" / "raw" / f"{part}.{kind}")
    # PyG prepares all three parts; the one that is not compared has one molecule.
    (raw / "train.pickle").symlink_to(raw / "val.pickle")
    (raw / "train.index").write_text("0\n")
    loaded = load("zinc", data_root=data_root)
    assert [len(loaded.rows(part)) for part in ("train", "val", "test")] == [10000, 1000, 1000]
    for part in ("val", "test"):
        expected = ZINC(str(tmp_path), subset=True, split=part)
        for got, want in zip(loaded.data_list(part), expected, strict=True):
            assert torch.equal(got.x, want.x)
            assert torch.equal(got.edge_index, want.edge_index)
            assert torch.equal(got.edge_attr, want.edge_attr)
            assert torch.equal(got.y.view(-1), want.y)
    val, test = loaded.data(int(loaded.rows("val")[0])), loaded.data(int(loaded.rows("test")[0]))
    assert (val.num_nodes, val.num_edges) == (35, 78)
    assert (test.num_nodes, test.num_edges) == (16, 34)
    assert val.y.item() == pytest.approx(0.6299, abs=1e-4)
    assert test.y.item() == pytest.approx(1.9973, abs=1e-4)
    assert loaded.graphs.edge_attr is not None
    assert loaded.graphs.edge_attr.unique().tolist() == [1, 2, 3]
    assert loaded.graphs.graph.is_undirected()
