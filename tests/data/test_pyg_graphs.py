"""PyG graphs become a task: level, kind and split are found or asked for."""

import pytest
import torch
from torch_geometric.data import Data

from rfp.data.data_config import DataConfig
from rfp.data.pyg_graphs import task_from_graphs
from rfp.data.splits import masks_of_consecutive
from rfp.errors import ArgumentError, GraphError

CONFIG = DataConfig(path="x", random_split=(0.5, 0.25, 0.25))


def graph(size: int, y: torch.Tensor, **more: torch.Tensor) -> Data:
    return Data(x=torch.ones(size, 2), edge_index=torch.tensor([[0], [1]]), y=y, **more)


def test_graph_level_by_the_number_of_labels() -> None:
    graphs = [graph(3 + i % 2, torch.tensor([i % 3])) for i in range(8)]
    loaded = task_from_graphs(graphs, CONFIG, "t", "f")
    assert (loaded.task.level.name, loaded.task.kind, loaded.task.num_outputs) == ("graph", "classification", 3)
    assert loaded.y.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]


def test_node_level_with_masks_of_several_splits() -> None:
    part = torch.arange(6) % 3
    masks = {f"{name}_mask": (part == i)[:, None].repeat(1, 4) for i, name in enumerate(("train", "val", "test"))}
    masks["test_mask"] = masks["test_mask"][:, 0]  # one test set for all splits
    one = graph(6, torch.tensor([0, 1, 0, 1, 0, 1]), **masks)
    loaded = task_from_graphs([one, one], DataConfig(path="x"), "t", "f")
    assert loaded.task.level.name == "node"
    assert loaded.num_splits == 4
    assert loaded.rows("test", 3).tolist() == [2, 5, 8, 11]


def test_minus_one_is_no_label_and_said() -> None:
    y = torch.tensor([0, 1, 2, 0, 1, 2, -1, -1])
    masks = {f"{name}_mask": torch.arange(8) % 3 == i for i, name in enumerate(("train", "val", "test"))}
    with pytest.raises(ArgumentError, match="f: row 7 is in train but has no label"):
        task_from_graphs([graph(8, y, **masks)], DataConfig(path="x"), "t", "f")
    loaded = task_from_graphs(
        [graph(8, y, **{part: mask & (y >= 0) for part, mask in masks.items()})], DataConfig(path="x"), "t", "f"
    )
    assert loaded.task.num_outputs == 3
    assert loaded.y.tolist() == y.tolist()
    assert loaded.notes == ("2 labels are -1 beside the classes, and were read as none",)
    drawn = task_from_graphs([graph(8, y)], CONFIG, "t", "f")
    assert sorted(row for part in ("train", "val", "test") for row in drawn.rows(part).tolist()) == list(range(6))


def test_a_split_over_graphs_holds_for_their_nodes() -> None:
    graphs = [graph(2, torch.tensor([[0.5], [1.0]])) for _ in range(3)]
    loaded = task_from_graphs(graphs, DataConfig(path="x"), "t", "f", masks_of_consecutive([1, 1, 1]))
    assert loaded.rows("val").tolist() == [2, 3]
    assert loaded.task.kind == "regression"


def test_bool_is_yes_or_no_and_rows_of_targets_stay() -> None:
    graphs = [graph(3, torch.tensor([[True, i % 2 == 0]])) for i in range(4)]
    loaded = task_from_graphs(graphs, CONFIG, "t", "f")
    assert (loaded.task.kind, loaded.task.num_outputs) == ("binary", 2)
    assert loaded.y.tolist() == [[1, 1], [1, 0], [1, 1], [1, 0]]


def test_what_cannot_be_told_is_asked_for() -> None:
    single = Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0).long(), y=torch.tensor([1.5]))
    with pytest.raises(ArgumentError, match="say level='node' or level='graph'"):
        task_from_graphs([single] * 4, CONFIG, "t", "f")
    assert task_from_graphs([single] * 4, DataConfig(path="x", level="graph", random_split=(0.5, 0.25, 0.25)), "t", "f")
    with pytest.raises(ArgumentError, match="neither each node nor the graph"):
        task_from_graphs([graph(3, torch.ones(2))], CONFIG, "t", "f")
    with pytest.raises(ArgumentError, match="whole numbers"):
        task_from_graphs([graph(3, torch.ones(1))] * 4, CONFIG, "t", "f")


def test_missing_parts_are_named() -> None:
    with pytest.raises(ArgumentError, match="f: graph 1 has no label tensor y"):
        task_from_graphs(
            [graph(3, torch.tensor([1])), Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 0).long())],
            CONFIG,
            "t",
            "f",
        )
    with pytest.raises(ArgumentError, match=r"y of graph 1 must have shape \[1, 2\] for a graph task, got \[1, 1\]"):
        task_from_graphs([graph(3, torch.rand(1, 2)), graph(3, torch.rand(1, 1))], CONFIG, "t", "f")
    with pytest.raises(ArgumentError, match="there is no split; a graph task needs"):
        task_from_graphs([graph(3, torch.tensor([i])) for i in range(4)], DataConfig(path="x"), "t", "f")
    with pytest.raises(ArgumentError, match="there is no split; a node task needs train_mask"):
        task_from_graphs([graph(3, torch.arange(3))], DataConfig(path="x"), "t", "f")
    with pytest.raises(GraphError, match="f: there are no graphs"):
        task_from_graphs([], CONFIG, "t", "f")
    bad = Data(x=torch.ones(2, 2), edge_index=torch.tensor([[0], [5]]), y=torch.tensor([1]))
    with pytest.raises(GraphError, match="f: edge_index holds node 5"):
        task_from_graphs([bad], CONFIG, "t", "f")
