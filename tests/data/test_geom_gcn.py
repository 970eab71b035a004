"""A made-up data set in Geom-GCN's layout, and every way its files can be damaged."""

from pathlib import Path

import numpy as np
import pytest

from rfp.data.datasets import DATASETS
from rfp.data.geom_gcn import read_masks, split_names
from rfp.data.loaded import LoadedTask
from rfp.errors import FileError


def read(root: Path) -> LoadedTask:
    spec = DATASETS["cornell"]
    return spec.read(root, spec.task)


def test_files_as_written(cornell_root: Path) -> None:
    before = sorted(path for path in cornell_root.rglob("*"))
    loaded = read(cornell_root)
    assert loaded.y.tolist() == [0, 1, 2, 0, 1, 2]
    assert loaded.graphs.x is not None
    assert loaded.graphs.x.tolist() == [[i % 2, 1, 0] for i in range(6)]
    assert loaded.graphs.edge_index.T.tolist() == [[0, 1], [1, 2], [2, 2], [2, 3], [3, 4], [4, 5]]
    assert loaded.num_splits == 10
    assert loaded.rows("val", 7).tolist() == [1]
    assert loaded.rows("test", 7).tolist() == [2]
    assert loaded.rows("train", 7).tolist() == [0, 3, 4, 5]
    assert sorted(path for path in cornell_root.rglob("*")) == before  # nothing was written beside the raw files


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("out1_node_feature_label.txt", "3\t1,1,0\t0", "3\t1,x,0\t0", r"feature_label.txt, line 5: expected node"),
        ("out1_node_feature_label.txt", "3\t1,1,0\t0", "3\t1,1,0", r"feature_label.txt, line 5"),
        ("out1_graph_edges.txt", "3\t4", "3", r"graph_edges.txt, line 5: expected two node numbers below 6"),
        ("out1_graph_edges.txt", "3\t4", "3\t99", r"graph_edges.txt, line 5"),
    ],
)
def test_a_malformed_line_is_named(cornell_root: Path, name: str, old: str, new: str, message: str) -> None:
    path = cornell_root / "webkb" / "cornell" / "raw" / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(FileError, match=message):
        read(cornell_root)


@pytest.mark.parametrize("name", ["out1_node_feature_label.txt", "out1_graph_edges.txt"])
@pytest.mark.parametrize("kept", [0, -1, -3])
def test_a_file_that_is_cut_off_is_named(cornell_root: Path, name: str, kept: int) -> None:
    path = cornell_root / "webkb" / "cornell" / "raw" / name
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FileError, match=f"{name}: cut off"):
        read(cornell_root)


def test_a_damaged_split_is_named(cornell_root: Path) -> None:
    path = cornell_root / "webkb" / "cornell" / "raw" / split_names("cornell")[4]
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(FileError, match=r"cornell_split_0.6_0.2_4.npz: not a split file"):
        read(cornell_root)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"train_mask": [1, 0], "val_mask": [0, 1]}, "not a split file"),
        ({"train_mask": [1, 0, 0], "val_mask": [0, 1, 0], "test_mask": [0, 0, 1]}, r"must have 2 entries.*\(3,\)"),
        ({"train_mask": [1, 0], "val_mask": [0, 1], "test_mask": [0, 5]}, "yes or no"),
        ({"train_mask": [1, 0], "val_mask": [0, 1], "test_mask": [0, 1]}, "two of train, val and test"),
    ],
)
def test_wrong_masks(tmp_path: Path, arrays: dict[str, list[int]], message: str) -> None:
    for name in split_names("toy"):
        np.savez(tmp_path / name, **{key: np.array(value) for key, value in arrays.items()})
    with pytest.raises(FileError, match=message):
        read_masks(tmp_path, "toy", 2)


def test_a_split_may_not_hold_pickles(tmp_path: Path) -> None:
    for name in split_names("toy"):
        np.savez(tmp_path / name, train_mask=np.array([{}], dtype=object))
    with pytest.raises(FileError, match="not a split file"):
        read_masks(tmp_path, "toy", 1)
