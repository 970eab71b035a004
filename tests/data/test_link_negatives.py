"""Negatives are no edges, follow the seed, and hard ones share neighbours."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

import rfp
from rfp.data import link_negatives
from rfp.data.link_negatives import hard_negatives, uniform_negatives
from rfp.errors import ArgumentError


def edges_of(graph: nx.Graph) -> torch.Tensor:
    return torch.tensor(list(graph.edges), dtype=torch.long).T


@pytest.mark.parametrize("listed", [1 << 22, 0])
def test_uniform_ones(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_negatives, "_LISTED_PAIRS", listed)
    graph = nx.gnm_random_graph(40, 120, seed=0)
    found = uniform_negatives(edges_of(graph), 40, 200, torch.Generator().manual_seed(0))
    pairs = found.T.tolist()
    assert len({tuple(pair) for pair in pairs}) == 200
    assert not any(graph.has_edge(u, v) or u >= v for u, v in pairs)
    again = uniform_negatives(edges_of(graph), 40, 200, torch.Generator().manual_seed(0))
    assert torch.equal(found, again)
    other = uniform_negatives(edges_of(graph), 40, 200, torch.Generator().manual_seed(1))
    assert not torch.equal(found, other)
    everything = uniform_negatives(edges_of(graph), 40, 10_000, torch.Generator().manual_seed(0))
    assert everything.size(1) == 40 * 39 // 2 - 120


def test_every_open_pair_is_as_likely() -> None:
    path = edges_of(nx.path_graph(5))
    counts: dict[tuple[int, int], int] = {}
    for seed in range(600):
        u, v = uniform_negatives(path, 5, 1, torch.Generator().manual_seed(seed)).flatten().tolist()
        counts[u, v] = counts.get((u, v), 0) + 1
    assert set(counts) == {(0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 4)}
    assert min(counts.values()) > 60  # 100 expected, deviation 9


def test_hard_ones_are_the_nearest_by_resource_allocation() -> None:
    graph = nx.convert_node_labels_to_integers(nx.karate_club_graph())
    edges = edges_of(graph)
    held = [(0, 8), (2, 32), (5, 16)]
    train = nx.Graph(graph)
    train.remove_edges_from(held)
    positives = torch.tensor(held).T
    pairs, group = hard_negatives(rfp.theory.simplify(train), positives, edges, 8, seed=0)
    assert group.tolist() == sorted(group.tolist())
    assert torch.bincount(group).tolist() == [8, 8, 8]
    for (u, v), g in zip(pairs.T.tolist(), group.tolist(), strict=True):
        assert u in held[g]
        assert u != v
        assert not graph.has_edge(u, v)
    for g, ends in enumerate(held):
        for kept in ends:
            rivals = [
                v for (u, v), owner in zip(pairs.T.tolist(), group.tolist(), strict=True) if owner == g and u == kept
            ]
            assert len(rivals) == len(set(rivals)) == 4
            open_nodes = [w for w in graph if w != kept and not graph.has_edge(kept, w)]
            scores = {w: p for _, w, p in nx.resource_allocation_index(train, [(kept, w) for w in open_nodes])}
            best = sorted(scores.values(), reverse=True)[:4]
            assert sorted((scores[v] for v in rivals), reverse=True) == pytest.approx(best)


def test_hard_ones_are_filled_up_and_bounded() -> None:
    ring = nx.cycle_graph(200)
    edges = edges_of(ring)
    pairs, group = hard_negatives(rfp.as_graph(ring), torch.tensor([[0], [1]]), edges, 20, seed=3)
    assert pairs.size(1) == 20
    first = pairs[:, :10]
    assert set(first[1, :2].tolist()) == {2, 198}  # the only two that share a neighbour with node 0
    small, _ = hard_negatives(
        rfp.as_graph(nx.path_graph(4)), torch.tensor([[0], [1]]), edges_of(nx.path_graph(4)), 50, seed=0
    )
    assert {tuple(pair) for pair in small.T.tolist()} == {(0, 2), (0, 3), (1, 3)}
    again, _ = hard_negatives(rfp.as_graph(ring), torch.tensor([[0], [1]]), edges, 20, seed=3)
    assert torch.equal(pairs, again)
    assert group.tolist() == [0] * 20


def test_a_complete_graph_has_none() -> None:
    complete = nx.complete_graph(5)
    with pytest.raises(ArgumentError, match="every pair of the 5 nodes is an edge"):
        uniform_negatives(edges_of(complete), 5, 3, torch.Generator())
    with pytest.raises(ArgumentError, match="every pair of the 5 nodes is an edge"):
        hard_negatives(rfp.as_graph(complete), torch.tensor([[0], [1]]), edges_of(complete), 3, seed=0)
