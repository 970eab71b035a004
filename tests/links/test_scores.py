"""Scores of pairs against NetworkX, dense matrices and their own error bars."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.errors import ArgumentError, GraphError
from rfp.links import SCORES, score_pairs
from rfp.links import exact as exact_module

LOCAL = ("common_neighbors", "adamic_adar", "resource_allocation")


def all_pairs(graph: nx.Graph) -> list[tuple[int, int]]:
    return list(combinations(range(len(graph)), 2))


def by_networkx(graph: nx.Graph, score: str, pairs: list[tuple[int, int]], beta: float, length: int) -> np.ndarray:
    """The score by another method: NetworkX, and for Katz dense powers."""
    if score == "common_neighbors":
        return np.array([len(list(nx.common_neighbors(graph, u, v))) for u, v in pairs], dtype=float)
    if score == "adamic_adar":
        return np.array([p for _, _, p in nx.adamic_adar_index(graph, pairs)])
    if score == "resource_allocation":
        return np.array([p for _, _, p in nx.resource_allocation_index(graph, pairs)])
    adjacency = nx.to_numpy_array(graph, nodelist=sorted(graph), weight=None)
    total = sum(beta**i * np.linalg.matrix_power(adjacency, i) for i in range(1, length + 1))
    return np.array([total[u, v] for u, v in pairs])


@pytest.mark.parametrize(("score", "length"), [*((name, 2) for name in LOCAL), ("katz", 2), ("katz", 3), ("katz", 6)])
def test_every_way_agrees_with_networkx(awkward: nx.Graph, score: str, length: int) -> None:
    awkward = nx.convert_node_labels_to_integers(awkward)
    pairs = all_pairs(awkward)
    index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    expected = by_networkx(awkward, score, pairs, 0.05, length)
    exact = score_pairs(awkward, index, score=score, exact=True, beta=0.05, max_length=length)
    np.testing.assert_allclose(exact.value.numpy(), expected, rtol=1e-12, atol=1e-15)
    assert bool((exact.standard_error == 0).all())
    # As many channels as nodes: QQ' = I, and the estimate is the score.
    spanning = score_pairs(awkward, index, score=score, beta=0.05, max_length=length, dtype=torch.float64)
    np.testing.assert_allclose(spanning.value.numpy(), expected, atol=1e-9)
    assert float(spanning.standard_error.abs().sum()) == 0.0


def test_long_walks_are_the_whole_katz_index() -> None:
    graph = nx.karate_club_graph()
    adjacency = nx.to_numpy_array(graph, weight=None)
    beta = 0.5 / np.abs(np.linalg.eigvalsh(adjacency)).max()
    whole = np.linalg.inv(np.eye(34) - beta * adjacency) - np.eye(34)
    pairs = torch.tensor(all_pairs(graph)).T
    found = score_pairs(rfp.theory.simplify(graph), pairs, score="katz", beta=beta, max_length=60, exact=True)
    np.testing.assert_allclose(found.value.numpy(), whole[tuple(pairs.numpy())], rtol=1e-9)


def random_pairs(num_nodes: int, count: int) -> torch.Tensor:
    pairs = torch.randint(num_nodes, (2, count), generator=torch.Generator().manual_seed(0))
    return pairs[:, pairs[0] != pairs[1]]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("start", ["orthonormal", "drawn", "unit"])
def test_errors_are_as_large_as_they_say(score: str, start: str) -> None:
    graph = rfp.as_graph(nx.powerlaw_cluster_graph(150, 4, 0.6, seed=1))
    pairs = random_pairs(150, 200)
    truth = score_pairs(graph, pairs, score=score, exact=True, beta=0.05)
    z, covered = [], []
    for seed in range(24):
        found = score_pairs(
            graph, pairs, score=score, beta=0.05, start=start, num_channels=64, num_trajectories=1, seed=seed
        )
        z.append(((found.value - truth.value) / found.standard_error).numpy())
        low, high = found.interval()
        covered.append(float(((low <= truth.value) & (truth.value <= high)).double().mean()))
    # Pairs share their columns, so a draw is one observation: its mean over pairs, against its spread over draws.
    of_draws = np.stack(z).mean(axis=1)
    assert abs(of_draws.mean()) < 3.5 * of_draws.std() / np.sqrt(len(z))
    assert 0.85 < np.sqrt(np.square(z).mean()) < 1.15
    assert 0.9 < np.mean(covered) < 0.985


def test_errors_shrink_with_the_samples_and_seeds_repeat() -> None:
    graph = nx.powerlaw_cluster_graph(200, 3, 0.5, seed=0)
    pairs = random_pairs(200, 400)
    few = score_pairs(graph, pairs, num_channels=16, num_trajectories=4)
    many = score_pairs(graph, pairs, num_channels=16, num_trajectories=64)
    squares = [float(one.standard_error.square().mean()) for one in (few, many)]
    assert squares[0] / squares[1] == pytest.approx(16, rel=0.25)
    assert (few.num_samples, many.num_samples) == (64, 1024)
    assert torch.equal(few.value, score_pairs(graph, pairs, num_channels=16, num_trajectories=4).value)
    assert not torch.equal(few.value, score_pairs(graph, pairs, num_channels=16, num_trajectories=4, seed=1).value)


def test_one_sample_has_no_error_and_trajectories_of_one_sample_have() -> None:
    graph = nx.karate_club_graph()
    simple = rfp.theory.simplify(graph)
    pairs = torch.tensor([[0, 1, 2], [33, 5, 30]])
    alone = score_pairs(simple, pairs, num_channels=1, num_trajectories=1)
    assert bool(alone.standard_error.isinf().all())
    truth = score_pairs(simple, pairs, exact=True).value
    several = score_pairs(simple, pairs, num_channels=1, num_trajectories=400)
    assert bool(((several.value - truth).abs() < 4 * several.standard_error).all())
    assert bool((several.standard_error < 2).all())


def test_pairs_are_symmetric_and_keep_their_order() -> None:
    graph = nx.powerlaw_cluster_graph(80, 3, 0.5, seed=2)
    pairs = torch.tensor([[5, 0, 7], [9, 3, 1]])
    for score in SCORES:
        one = score_pairs(graph, pairs, score=score, num_channels=32)
        other = score_pairs(graph, pairs.flip(0), score=score, num_channels=32)
        torch.testing.assert_close(one.value, other.value)
        swapped = score_pairs(graph, pairs[:, [2, 0, 1]], score=score, num_channels=32)
        torch.testing.assert_close(swapped.value, one.value[[2, 0, 1]])


@pytest.mark.parametrize("score", SCORES)
def test_blocks_do_not_change_anything(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.powerlaw_cluster_graph(60, 3, 0.5, seed=2)
    pairs = torch.tensor(all_pairs(graph)).T
    whole = score_pairs(graph, pairs, score=score, exact=True).value
    estimated = score_pairs(graph, pairs, score=score, num_channels=16)
    monkeypatch.setattr(exact_module, "_BLOCK_ENTRIES", 130)
    monkeypatch.setattr("rfp.links.estimates.PAIR_BYTES", 1 << 10)
    told: list[tuple[int, int]] = []
    parts = score_pairs(graph, pairs, score=score, exact=True, progress=lambda *now: told.append(now))
    torch.testing.assert_close(parts.value, whole)
    assert len(told) > 5
    assert told[-1][0] == told[-1][1]
    again = score_pairs(graph, pairs, score=score, num_channels=16)
    torch.testing.assert_close(again.value, estimated.value)
    torch.testing.assert_close(again.standard_error, estimated.standard_error)


def test_no_pairs() -> None:
    graph = nx.path_graph(3)
    empty = torch.zeros(2, 0, dtype=torch.long)
    for exact in (False, True):
        for score in SCORES:
            assert score_pairs(graph, empty, score=score, exact=exact).value.shape == (0,)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (torch.tensor([[0], [3]]), r"nodes in 0\.\.2, got 3"),
        (torch.tensor([[-1], [1]]), r"nodes in 0\.\.2, got -1"),
        (torch.tensor([[1, 2], [0, 2]]), "got 2 twice in pair 1"),
        (torch.tensor([0, 1]), r"shape \[2, num_pairs\], got \[2\]"),
        (torch.tensor([[0.0], [1.0]]), "node numbers, got torch.float32"),
        ([[0], [1]], "got list"),
    ],
)
def test_pairs_that_are_none(pairs: torch.Tensor, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        score_pairs(nx.path_graph(3), pairs)


def test_arguments_and_graphs_that_do_not_fit() -> None:
    pairs = torch.tensor([[0], [1]])
    path = nx.path_graph(3)
    with pytest.raises(ArgumentError, match="score must be one of 'common_neighbors'"):
        score_pairs(path, pairs, score="jaccard")
    for beta in (0, -1.0, float("nan"), True):
        with pytest.raises(ArgumentError, match="beta must be a positive number"):
            score_pairs(path, pairs, score="katz", beta=beta)
    with pytest.raises(ArgumentError, match=r"beta=1e\+60 and max_length=6 may give scores beyond floating point"):
        score_pairs(path, pairs, score="katz", beta=1e60)
    assert score_pairs(path, pairs, score="katz", beta=1e40, exact=True).value.isfinite().all()
    with pytest.raises(ArgumentError, match="max_length must be an integer of at least 2"):
        score_pairs(path, pairs, score="katz", max_length=1)
    with pytest.raises(ArgumentError, match="an argument must be one of"):
        score_pairs(path, pairs, num_steps=2)  # type: ignore[call-arg]
    with pytest.raises(GraphError, match="undirected"):
        score_pairs(nx.DiGraph([(0, 1), (1, 2)]), pairs)
    with pytest.raises(GraphError, match="weight"):
        score_pairs(nx.Graph([(0, 1, {"weight": 2.0})]), pairs)
    with pytest.raises(GraphError, match="a batch of 2"):
        score_pairs([path, path], pairs)
