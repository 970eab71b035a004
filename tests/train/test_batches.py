"""Batches on the device against PyG's own batching of the same graphs."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.tasks import Task
from rfp.graph import Graph
from rfp.nn.neighbors import sort_edges, sorted_edges
from rfp.train import batches as module
from rfp.train.batches import Batches


def molecules(count: int, level: str = "graph") -> LoadedTask:
    """Random small graphs with categories; half of the rows train, a quarter each validate and test."""
    generator = torch.Generator().manual_seed(count)
    graphs = []
    for g in range(count):
        n = 3 + g % 4
        pairs = torch.combinations(torch.arange(n)).T
        pairs = pairs[:, torch.rand(pairs.size(1), generator=generator) < 0.6]
        edges = torch.cat([pairs, pairs.flip(0)], dim=1)
        kinds = torch.randint(1, 4, (pairs.size(1),), generator=generator).repeat(2)
        x = torch.randint(0, 28, (n, 1), generator=generator)
        graphs.append(Data(x=x, edge_index=edges, edge_attr=kinds, num_nodes=n))
    collection = GraphCollection.from_data_list(graphs)
    rows = collection.num_nodes if level == "node" else count
    place = torch.arange(rows) % 4
    masks = {"train": (place < 2)[:, None], "val": (place == 2)[:, None], "test": (place == 3)[:, None]}
    y = torch.rand(rows, 1, generator=generator)
    return LoadedTask(
        Task("molecules", level, "regression", "mae", 1, categorical="zinc"), collection, y, masks, "here"
    )


def expected(loaded: LoadedTask, chosen: Tensor) -> PyGBatch:
    return PyGBatch.from_data_list([loaded.data(g) for g in chosen.tolist()])


@pytest.mark.parametrize("gathered", [1, 3, 64])
@pytest.mark.parametrize("level", ["graph", "node"])
def test_batches_are_those_of_pyg(level: str, gathered: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHERED_AT_ONCE", gathered)
    loaded = molecules(20, level)
    batches = Batches(loaded, "train", 0, batch_size=3, seed=5, sort=True)
    batches.epoch = 2
    parts = batches.order().split(3)
    made = list(batches)
    assert len(made) == len(parts) == len(batches)
    for batch, chosen in zip(made, parts, strict=True):
        theirs = expected(loaded, chosen)
        assert torch.equal(batch.graph.edge_index, theirs.edge_index)
        assert torch.equal(batch.graph.offsets, theirs.ptr)
        assert torch.equal(batch.graph.batch, theirs.batch)
        assert batch.graph.max_size == int(theirs.ptr.diff().max())
        assert torch.equal(batch.data.x, theirs.x)
        assert torch.equal(batch.data.edge_attr, theirs.edge_attr)
        assert torch.equal(batch.label, theirs.y)
        if level == "node":
            assert torch.equal(batch.counted, theirs.train_mask)
        known, own = sorted_edges(batch.graph), sort_edges(theirs.edge_index, theirs.num_nodes)
        assert torch.equal(known.target_ptr, own.target_ptr)
        assert torch.equal(known.by_target, own.by_target)
        assert torch.equal(known.source_ptr, own.source_ptr)
        assert torch.equal(known.by_source, own.by_source)


def test_order_is_a_function_of_seed_and_epoch() -> None:
    loaded = molecules(40)
    first, second = (Batches(loaded, "train", 0, batch_size=4, seed=7) for _ in range(2))
    zero = first.order()
    assert torch.equal(zero, second.order())
    assert sorted(zero.tolist()) == [g for g in range(40) if g % 4 < 2]
    first.epoch = 1
    assert not torch.equal(first.order(), zero)
    assert not torch.equal(Batches(loaded, "train", 0, batch_size=4, seed=8).order(), zero)
    assert Batches(loaded, "val", 0, batch_size=4).order().tolist() == list(range(2, 40, 4))


def test_draws_are_cut_with_their_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.DRAWN_AT_ONCE, "cpu", 4 * 20)
    loaded = molecules(20)
    calls = []

    def draw(data: Data, graph: object) -> list[Tensor]:
        calls.append(data.num_nodes)
        return [data.x.float()[None] * 10]

    batches = Batches(loaded, "train", 0, batch_size=2, seed=0, draw=draw, bytes_per_node=4)
    made = list(batches)
    assert len(made) == 5
    assert 1 < len(calls) < 5  # several batches at once, but not all
    assert all(nodes <= 20 for nodes in calls)
    for batch in made:
        assert torch.equal(batch.drawn[0], batch.data.x.float()[None] * 10)


def test_one_graph_is_kept_and_drawn_anew() -> None:
    loaded = molecules(1, "node")
    count = iter(range(10))
    batches = Batches(
        loaded, "train", 0, batch_size=8, seed=0, draw=lambda data, graph: [torch.full((1,), next(count))]
    )
    first, second = next(iter(batches)), next(iter(batches))
    assert first.graph is second.graph
    assert [int(first.drawn[0]), int(second.drawn[0])] == [0, 1]


@pytest.mark.parametrize(("limit", "times"), [(10**6, 1), (10, 3)])
def test_a_draw_that_is_always_the_same_is_kept(limit: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_DRAWN", limit)
    made: list[Tensor] = []

    def draw(data: Any, graph: Graph) -> list[Tensor]:
        made.append(torch.full((1, graph.num_nodes, 2), float(len(made))))
        return [made[-1]]

    batches = Batches(molecules(20), "val", 0, batch_size=3, draw=draw, draw_once=True, bytes_per_node=8)
    rounds = [[batch.drawn for batch in batches] for _ in range(3)]
    assert len(made) == times * len(batches)
    for number, drawn in enumerate(rounds):
        first = (number if times == 3 else 0) * len(batches)
        for i, (one,) in enumerate(drawn):  # type: ignore[misc]
            assert one is made[first + i]


def test_processes_share_every_batch() -> None:
    loaded = molecules(21)  # 11 of them train: batches of 4, 4 and 3 graphs
    shares = [Batches(loaded, "train", 0, batch_size=4, seed=3, share=(rank, 2)) for rank in range(2)]
    made = [list(share) for share in shares]
    assert [batch.graph.num_graphs for batch in made[0]] == [2, 2, 2]
    assert [batch.graph.num_graphs for batch in made[1]] == [2, 2, 2]
    order = shares[0].order()
    labels = torch.cat([torch.stack([a.label, b.label], dim=1).flatten(0, 1) for a, b in zip(*made, strict=True)])
    assert torch.equal(labels[:11], loaded.y[order])
    assert torch.equal(labels[11:], loaded.y[order[:1]])


def test_many_graphs_with_node_labels_take_those_that_have_one() -> None:
    loaded = molecules(6, "node")
    only = torch.zeros(loaded.num_rows, 1, dtype=torch.bool)
    only[int(loaded.graphs.ptr[4])] = True
    loaded = LoadedTask(loaded.task, loaded.graphs, loaded.y, {**loaded.masks, "val": only}, "here")
    (batch,) = Batches(loaded, "val", 0, batch_size=8)
    assert batch.graph.num_graphs == 1
    assert batch.counted.tolist() == [True] + [False] * (batch.graph.num_nodes - 1)


def test_signs_are_drawn_for_gathered_and_for_kept_batches() -> None:
    loaded = molecules(12)
    stored = torch.rand(loaded.graphs.num_nodes, 2) + 1
    loaded = replace(loaded, graphs=loaded.graphs.with_nodes(vectors=stored))
    calls = []

    def draw_signs(data: Any, graph: Graph) -> None:
        calls.append(graph.num_graphs)
        data.vectors = -data.vectors
        data.signs_drawn = True

    for seed in (3, None):  # shuffled, and in the same order at every pass
        batches = Batches(loaded, "train", 0, batch_size=4, seed=seed, draw_signs=draw_signs)
        plain = Batches(loaded, "train", 0, batch_size=4, seed=seed)
        for _ in range(2):
            for batch, other in zip(batches, plain, strict=True):
                assert torch.equal(batch.data.vectors, -other.data.vectors)
                assert batch.data.signs_drawn
                assert not other.data.signs_drawn
    assert calls == [6, 6, 4, 2, 4, 2]
    assert bool((loaded.graphs.nodes["vectors"] > 0).all())
