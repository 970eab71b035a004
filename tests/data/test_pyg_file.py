"""A saved file of PyG graphs in each of its forms."""

import os
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from rfp.data import load
from rfp.errors import FileError


def graphs(count: int = 8) -> list[Data]:
    return [
        Data(
            x=torch.full((2 + i % 2, 1), float(i)), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([i / 2 + 0.25])
        )
        for i in range(count)
    ]


def test_a_list(tmp_path: Path) -> None:
    torch.save(graphs(), tmp_path / "mine.pt")
    loaded = load({"path": str(tmp_path / "mine.pt"), "random_split": [0.5, 0.25, 0.25]})
    assert loaded.task.name == "mine"
    assert (loaded.task.kind, loaded.task.metric) == ("regression", "mae")
    assert loaded.y[:3].tolist() == [[0.25], [0.75], [1.25]]
    assert loaded.graphs.num_edges == 16  # both directions by default


def test_lists_of_each_part_need_no_more(tmp_path: Path) -> None:
    torch.save({"train": graphs(3), "val": graphs(1), "test": graphs(2)}, tmp_path / "mine.pt")
    loaded = load(tmp_path / "mine.pt")
    assert [loaded.rows(part).tolist() for part in ("train", "val", "test")] == [[0, 1, 2], [3], [4, 5]]


@pytest.mark.parametrize("as_dict", [True, False])
def test_a_processed_file(tmp_path: Path, as_dict: bool) -> None:
    data, slices = InMemoryDataset.collate(graphs())
    torch.save((data.to_dict() if as_dict else data, slices), tmp_path / "data.pt")
    loaded = load({"path": str(tmp_path / "data.pt"), "random_split": [0.5, 0.25, 0.25], "undirected": False})
    assert loaded.graphs.ptr.diff().tolist() == [2, 3] * 4
    assert loaded.graphs.edge_index[0].tolist() == [0, 2, 5, 7, 10, 12, 15, 17]
    assert torch.equal(loaded.y, torch.stack([graph.y for graph in graphs()]))


def test_one_graph(tmp_path: Path) -> None:
    part = torch.arange(4) % 3
    masks = {f"{name}_mask": part == i for i, name in enumerate(("train", "val", "test"))}
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]])
    torch.save(Data(edge_index=edge_index, num_nodes=4, y=torch.tensor([0, 1, 1, 0]), **masks), tmp_path / "g.pt")
    loaded = load(tmp_path / "g.pt")
    assert loaded.task.level.name == "node"
    assert loaded.graphs.x is None
    assert loaded.rows("train").tolist() == [0, 3]


class Malicious:
    def __reduce__(self) -> tuple:
        return os.mkdir, ("made-by-a-pickle",)


def test_other_content_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save([Malicious()], "bad.pt")
    with pytest.raises(FileError, match="without running code"):
        load("bad.pt")
    assert not Path("made-by-a-pickle").exists()
    torch.save({"train": graphs(1), "valid": graphs(1)}, "keys.pt")
    with pytest.raises(FileError, match=r"keys.pt holds a dict with the keys \['train', 'valid'\]; expected"):
        load("keys.pt")
    torch.save([torch.ones(2)], "tensors.pt")
    with pytest.raises(FileError, match="holds a list of Tensor"):
        load("tensors.pt")
