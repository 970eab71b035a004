"""The best pairs against a sorted list of all."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import pytest
import torch

import rfp
from rfp.errors import ArgumentError
from rfp.links import SCORES, score_pairs, top_pairs


def open_pairs(graph: nx.Graph) -> torch.Tensor:
    pairs = [pair for pair in combinations(range(len(graph)), 2) if not graph.has_edge(*pair)]
    return torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("block", [1 << 24, 100])
def test_they_are_the_best_of_all(score: str, exact: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.links.top._BLOCK_ENTRIES", block)
    monkeypatch.setattr("rfp.links.exact._BLOCK_ENTRIES", block)
    graph = nx.powerlaw_cluster_graph(70, 4, 0.7, seed=5)
    pairs = open_pairs(graph)
    all_values = score_pairs(graph, pairs, score=score, exact=True, beta=0.05).value
    found = top_pairs(graph, 25, score=score, exact=exact, beta=0.05, dtype=torch.float64)  # 256 channels span 70 nodes
    expected = all_values.sort(descending=True).values[:25]
    torch.testing.assert_close(found.value, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(
        score_pairs(graph, found.pairs, score=score, exact=True, beta=0.05).value, found.value, atol=1e-9, rtol=0
    )
    assert len({tuple(pair) for pair in found.pairs.T.tolist()}) == 25
    assert not any(graph.has_edge(u, v) or u >= v for u, v in found.pairs.T.tolist())


def test_what_is_reported_is_not_what_was_chosen_by() -> None:
    """With few samples the best of many pairs are flukes; their reported scores must not be too high on average."""
    graph = nx.random_regular_graph(4, 400, seed=1)
    found = top_pairs(graph, 200, num_channels=16, num_trajectories=1)
    truth = score_pairs(graph, found.pairs, exact=True).value
    z = (found.value - truth) / found.standard_error
    assert abs(float(z.mean())) < 0.3
    assert list(found.value) == sorted(found.value, reverse=True)


def test_fewer_than_asked_for(awkward: nx.Graph) -> None:
    awkward = nx.convert_node_labels_to_integers(awkward)
    simple = rfp.as_graph(awkward)
    pairs = open_pairs(awkward)
    if not pairs.size(1):
        with pytest.raises(ArgumentError, match=r"every pair of the \d nodes is an edge"):
            top_pairs(simple, 5)
        return
    assert top_pairs(simple, 10_000).pairs.size(1) == pairs.size(1)
    positive = score_pairs(simple, pairs, exact=True).value > 0
    assert top_pairs(simple, 10_000, exact=True).pairs.size(1) == int(positive.sum())


def test_a_count_of_none() -> None:
    with pytest.raises(ArgumentError, match="count must be an integer of at least 1, got 0"):
        top_pairs(nx.path_graph(3), 0)
