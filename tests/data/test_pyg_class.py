"""Data set classes by import path."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from rfp.data import load
from rfp.errors import ArgumentError, FileError, GraphError

SPLIT = [0.5, 0.25, 0.25]


class Parted(InMemoryDataset):
    """Graphs of one part, as many as its name has letters; needs a root."""

    def __init__(self, root: str, split: str = "train", width: int = 1) -> None:
        super().__init__(root)
        self.split = split
        graphs = [
            Data(x=torch.ones(2, width), edge_index=torch.tensor([[0], [1]]), y=torch.tensor([i % 2]))
            for i in range(len(split))
        ]
        self.data, self.slices = self.collate(graphs)


class WithPublishedSplit(InMemoryDataset):
    """As OGB's classes have it: the split by a method."""

    def __init__(self, num_graphs: int) -> None:
        super().__init__()
        graphs = [
            Data(x=torch.ones(5, 1), edge_index=torch.tensor([[0], [1]]), y=torch.rand(5 if num_graphs == 1 else 1, 1))
            for _ in range(num_graphs)
        ]
        self.data, self.slices = self.collate(graphs)

    def get_idx_split(self) -> dict[str, torch.Tensor]:
        return {"train": torch.tensor([3, 0]), "valid": torch.tensor([1]), "test": torch.tensor([4])}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("my_datasets")
    module.Parted, module.WithPublishedSplit, module.value = Parted, WithPublishedSplit, 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_datasets", module)


def test_a_class_of_pyg() -> None:
    loaded = load({"class": "torch_geometric.datasets.KarateClub", "random_split": SPLIT})
    assert (loaded.graphs.num_nodes, loaded.graphs.num_edges) == (34, 156)
    assert (loaded.task.level.name, loaded.task.num_outputs) == ("node", 4)


@pytest.mark.parametrize(("key", "value"), [("num_splits", 2), ("split_seed", 1)])
def test_what_is_of_random_splits_is_refused_beside_a_published_one(key: str, value: int) -> None:
    published = {"class": "my_datasets.WithPublishedSplit", "args": {"num_graphs": 5}}
    name = load(published).task.name
    with pytest.raises(ArgumentError, match=f"{key}={value} is of random splits, and '{name}' has 1 split of its own"):
        load({**published, key: value})
    assert load({**published, "random_split": SPLIT, key: value}).num_splits == (value if key == "num_splits" else 1)


def test_nodes_of_several_types_are_refused() -> None:
    with pytest.raises(GraphError, match=r"nodes of several types, which no task here takes; use to_homogeneous\(\)"):
        load({"class": "torch_geometric.datasets.FakeHeteroDataset", "random_split": SPLIT})


def test_arguments_reach_the_class() -> None:
    config = {
        "class": "torch_geometric.datasets.FakeDataset",
        "args": {"num_graphs": 12, "num_channels": 3, "task": "graph", "num_classes": 2},
        "random_split": SPLIT,
    }
    loaded = load(config)
    assert loaded.task.level.name == "graph"
    assert loaded.graphs.num_graphs == 12
    assert loaded.graphs.x is not None
    assert loaded.graphs.x.size(1) == 3


def test_a_class_that_loads_one_part_at_a_time(tmp_path: Path) -> None:
    parts = {part: {"split": part} for part in ("train", "val", "test")}
    loaded = load({"class": "my_datasets.Parted", "args": {"width": 4}, "parts": parts}, cache=tmp_path)
    assert [len(loaded.rows(part)) for part in parts] == [5, 3, 4]
    assert loaded.graphs.x is not None
    assert loaded.graphs.x.size(1) == 4


def test_the_split_of_an_ogb_class() -> None:
    graphs = load({"class": "my_datasets.WithPublishedSplit", "args": {"num_graphs": 5}})
    assert [graphs.rows(part).tolist() for part in ("train", "val", "test")] == [[0, 3], [1], [4]]
    nodes = load({"class": "my_datasets.WithPublishedSplit", "args": {"num_graphs": 1}})
    assert nodes.task.level.name == "node"
    assert [nodes.rows(part).tolist() for part in ("train", "val", "test")] == [[0, 3], [1], [4]]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("TUDataset", "must be an import path"),
        ("no_such_package.Data", "cannot be imported"),
        ("torch_geometric.datasets.NoSuch", "cannot be imported"),
        ("my_datasets.value", "must be a subclass of torch_geometric.data.Dataset, got a int"),
        ("subprocess.Popen", "must be a subclass of torch_geometric.data.Dataset, got Popen"),
    ],
)
def test_only_data_set_classes(path: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        load({"class": path})


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="unexpected keyword argument 'widht'; it takes root, split, width"):
        load({"class": "my_datasets.Parted", "args": {"widht": 4}}, cache=tmp_path)
    with pytest.raises(FileError, match=r"WithPublishedSplit could not be made with .*'many'"):
        load({"class": "my_datasets.WithPublishedSplit", "args": {"num_graphs": "many"}})
    with pytest.raises(ArgumentError, match="there is no split"):
        load({"class": "torch_geometric.datasets.KarateClub"})
