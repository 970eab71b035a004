"""Splits, targets and graphs of a task in memory."""

from dataclasses import replace

import pytest
import torch

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.splits import masks_of_consecutive
from rfp.data.tasks import Task
from rfp.errors import ArgumentError


def graph_task() -> LoadedTask:
    """Five graphs of two nodes and an edge; targets are (number, 10 times number)."""
    edges = torch.tensor([[0], [1]]).repeat(1, 5)
    graphs = GraphCollection.from_sizes(edges, torch.full((5,), 2), torch.ones(5, dtype=torch.long))
    counts = torch.arange(5)[:, None] * torch.tensor([1, 10])
    return LoadedTask(
        Task("toy", "graph", "regression", "mae", 2, ("one", "ten")),
        graphs,
        counts / torch.tensor([2.0, 4.0]),
        masks_of_consecutive([3, 1, 1]),
        "made up",
        raw_y=counts,
        y_scale=torch.tensor([2.0, 4.0]),
    )


def node_task(num_splits: int = 2) -> LoadedTask:
    graphs = GraphCollection.from_sizes(torch.tensor([[0, 0], [1, 1]]), torch.tensor([2, 3]), torch.tensor([1, 1]))
    part = torch.arange(5)[:, None] % 3
    masks = {name: (part == i).repeat(1, num_splits) for i, name in enumerate(("train", "val", "test"))}
    return LoadedTask(Task("n", "node", "classification", "accuracy", 5), graphs, torch.arange(5), masks, "made up")


def test_rows_of_a_split() -> None:
    assert graph_task().rows("train").tolist() == [0, 1, 2]
    assert graph_task().rows("test").tolist() == [4]
    assert node_task().rows("val", split=1).tolist() == [1, 4]


def test_a_split_that_does_not_exist() -> None:
    with pytest.raises(ArgumentError, match="split 10 of 'n' does not exist; expected 0 to 9"):
        node_task(10).rows("train", 10)
    with pytest.raises(ArgumentError, match="split -1 of 'toy' does not exist; expected 0, the only one"):
        graph_task().rows("train", -1)
    with pytest.raises(ArgumentError, match="part must be one of 'train', 'val', 'test', got 'dev'"):
        graph_task().rows("dev")


def test_batches_carry_labels() -> None:
    batch = graph_task().batch(torch.tensor([4, 1]))
    assert batch.y.tolist() == [[2.0, 10.0], [0.5, 2.5]]
    assert batch.edge_index.tolist() == [[0, 2], [1, 3]]
    assert node_task().batch(torch.tensor([1, 0])).y.tolist() == [2, 3, 4, 0, 1]


def test_pyg_graphs() -> None:
    last = graph_task().data_list("test")
    assert len(last) == 1
    assert last[0].y.tolist() == [[2.0, 10.0]]
    first = node_task().data(0)
    assert first.y.tolist() == [0, 1]
    assert first.train_mask.shape == (2, 2)
    assert node_task(1).data(1).train_mask.tolist() == [False, True, False]
    assert len(node_task().data_list()) == 2
    with pytest.raises(ArgumentError, match="node task"):
        node_task().data_list("train")


def test_one_of_several_targets() -> None:
    ten = graph_task().only_target("ten")
    assert ten.task.num_outputs == 1
    assert ten.y.tolist() == [[0.0], [2.5], [5.0], [7.5], [10.0]]
    assert ten.raw_y is not None
    assert ten.raw_y[:, 0].tolist() == [0, 10, 20, 30, 40]
    assert ten.y_scale is not None
    assert ten.y_scale.tolist() == [4.0]
    with pytest.raises(ArgumentError, match="target must be one of 'one', 'ten', got 'two'"):
        graph_task().only_target("two")
    with pytest.raises(ArgumentError, match="one target only"):
        node_task().only_target("0")


def test_labels_must_fit_the_level() -> None:
    with pytest.raises(ArgumentError, match=r"row for each graph \(5\)"):
        replace(graph_task(), y=torch.ones(10, 2))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_task_on_a_gpu_gives_the_same_batches() -> None:
    task = graph_task()
    moved = task.to("cuda")
    assert {moved.y.device.type, moved.graphs.device.type, moved.masks["val"].device.type} == {"cuda"}
    chosen = torch.tensor([4, 1, 1])
    here, there = task.batch(chosen), moved.batch(chosen)
    for name in ("edge_index", "ptr", "batch", "y"):
        assert torch.equal(there[name].cpu(), here[name]), name


def test_describe() -> None:
    assert graph_task().summary() == (
        "toy: graph regression (mae), 2 outputs, 5 graphs, 10 nodes, 5 edges, 0 features, split 3/1/1"
    )
    assert "5 classes, 2 graphs" in node_task().summary()
    assert "2 splits, the first 2/2/1" in node_task().summary()


def test_targets_far_from_where_a_model_begins_are_told() -> None:
    assert graph_task().far_targets(0) == ""
    far = graph_task()
    far.y[:, 1] += 1e6
    assert far.far_targets(0).startswith("toy: the training targets 'ten' have the mean 1e+06 and the deviation 2.04")
    near = graph_task()
    near.y[3:] *= 1e6  # outside the training part
    assert near.far_targets(0) == ""
    near.y.mul_(1e-6)
    assert "have the mean 5e-07 and the deviation 4.08e-07" in near.far_targets(0)
    near.y[:] = 1.0  # which a model learns in no time
    assert near.far_targets(0) == ""
    classes = replace(far, task=Task("toy", "graph", "binary", "roc_auc", 2))
    assert classes.far_targets(0) == ""
