"""Batches of pairs: no graph holds an edge that is asked about, and nothing of validation or test."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from rfp.data import LoadedTask, load
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.train import link_batches
from rfp.train.link_batches import HeldOutPairs, TrainingPairs


def edge_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    return {(min(u, v), max(u, v)) for u, v in pairs.T.tolist()}


@pytest.fixture
def club() -> LoadedTask:
    return load({"class": "torch_geometric.datasets.KarateClub", "level": "link", "hard_negatives": 5}).at_split(0)


def test_targets_are_never_in_the_graph(club: LoadedTask) -> None:
    assert club.held_out is not None
    train = edge_set(club.held_out.train)
    held = {
        pair for judged in club.held_out.judged.values() for pair in edge_set(judged.pairs[:, judged.label[:, 0] == 1])
    }
    batches = TrainingPairs(club, batch_size=20, seed=0)
    assert len(batches) == 4
    seen: list[tuple[int, int]] = []
    for batch in batches:
        yes = batch.label[:, 0] == 1
        targets, graph = edge_set(batch.data.pairs[:, yes]), edge_set(batch.graph.edge_index)
        assert graph == train - targets
        assert not graph & held
        negatives = edge_set(batch.data.pairs[:, ~yes])
        assert not negatives & train
        assert int((~yes).sum()) == int(yes.sum())
        assert not any(u == v for u, v in batch.data.pairs.T.tolist())
        assert batch.graph.num_nodes == 34
        seen += targets
    assert sorted(seen) == sorted(train)  # each once


def test_epochs_change_order_and_negatives_alone(club: LoadedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    def epoch(number: int, seed: int = 0) -> list[tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]]:
        batches = TrainingPairs(club, batch_size=20, seed=seed)
        batches.epoch = number
        return [
            tuple(frozenset(edge_set(b.data.pairs[:, b.label[:, 0] == answer])) for answer in (1, 0))  # type: ignore[misc]
            for b in batches
        ]

    first, second = epoch(0), epoch(1)
    assert first == epoch(0)
    assert first != second
    assert {yes for yes, _ in first} == {yes for yes, _ in second}
    assert {no for _, no in first} != {no for _, no in second}
    assert len({no for _, no in first}) == len(first)  # every batch has its own
    assert {yes for yes, _ in first} != {yes for yes, _ in epoch(0, seed=1)}
    monkeypatch.setattr(link_batches, "_KEPT_BYTES", 0)
    assert epoch(1) == second  # graphs that are not kept are the same


def test_encodings_are_those_of_the_batch_graph(club: LoadedTask) -> None:
    told: list[int] = []

    def encode(graph: Graph) -> dict[str, torch.Tensor]:
        told.append(graph.num_edges)
        return {"number": torch.full((34, 1), float(graph.num_edges))}

    batches = TrainingPairs(club, batch_size=30, seed=0, encode=encode)
    for _ in range(2):
        for batch in batches:
            assert float(batch.data.number[0]) == batch.graph.num_edges
    assert len(told) == len(batches)  # once each
    (held,) = HeldOutPairs(club, "val", encode=encode)
    assert held.graph.num_edges == club.graphs.num_edges == told[-1]


def test_processes_share_a_batch(club: LoadedTask) -> None:
    alone = next(iter(TrainingPairs(club, batch_size=20, seed=0)))
    halves = [next(iter(TrainingPairs(club, batch_size=20, seed=0, share=(rank, 2)))) for rank in (0, 1)]
    pairs = [tuple(pair) for half in halves for pair in half.data.pairs.T.tolist()]
    assert sorted(pairs) == sorted(tuple(pair) for pair in alone.data.pairs.T.tolist())


def test_dense_graphs(club: LoadedTask) -> None:
    from dataclasses import replace

    from rfp.data.link_edges import HeldOut

    pairs = torch.tensor(list(nx.complete_graph(34).edges)).T
    nearly = replace(club, held_out=HeldOut(pairs[:, 3:], {}))
    for batch in TrainingPairs(nearly, batch_size=300, seed=0):
        negatives = edge_set(batch.data.pairs[:, batch.label[:, 0] == 0])
        assert negatives <= {(0, 1), (0, 2), (0, 3)}
    with pytest.raises(ArgumentError, match="every pair of nodes is a training edge"):
        TrainingPairs(replace(club, held_out=HeldOut(pairs, {})), batch_size=300, seed=0)


def test_a_graph_of_fewer_edges_than_a_batch_has_some_left(club: LoadedTask) -> None:
    batches = TrainingPairs(club, batch_size=1000, seed=0)
    assert [batch.graph.num_edges for batch in batches] == [66, 66]
