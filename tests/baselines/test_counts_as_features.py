"""Cycle and clique counts against NetworkX and against closed formulas."""

from __future__ import annotations

from itertools import combinations
from math import comb

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rfp.baselines import counts_as_features, substructure_counts
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph


def cycles_by_networkx(graph: nx.Graph, lengths: list[int]) -> np.ndarray:
    out = np.zeros((len(graph), len(lengths)))
    number = {node: i for i, node in enumerate(graph)}
    for cycle in nx.simple_cycles(graph, length_bound=max(lengths)):
        if len(cycle) in lengths:
            out[[number[v] for v in cycle], lengths.index(len(cycle))] += 1
    return out


def cliques_by_brute_force(graph: nx.Graph, sizes: list[int]) -> np.ndarray:
    out = np.zeros((len(graph), len(sizes)))
    nodes = list(graph)
    for column, size in enumerate(sizes):
        for chosen in combinations(range(len(nodes)), size):
            if all(graph.has_edge(nodes[u], nodes[v]) for u, v in combinations(chosen, 2)):
                out[list(chosen), column] += 1
    return out


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 9), p=st.floats(0.1, 0.7), seed=st.integers(0, 10**6))
def test_random_graphs(n: int, p: float, seed: int) -> None:
    graph = nx.gnp_random_graph(n, p, seed=seed)
    counts = substructure_counts(graph, cycles=[3, 4, 5, 6, 7], cliques=[3, 4, 5]).numpy()
    assert np.array_equal(counts[:, :5], cycles_by_networkx(graph, [3, 4, 5, 6, 7]))
    assert np.array_equal(counts[:, 5:], cliques_by_brute_force(graph, [3, 4, 5]))


def test_awkward_graphs(awkward: nx.Graph) -> None:
    counts = substructure_counts(awkward, cycles=[3, 4, 5])
    assert np.array_equal(counts, cycles_by_networkx(awkward, [3, 4, 5]))


def test_complete_graph_by_formula() -> None:
    # Through a node of K_n: C(n-1, l-1) choices of the others, (l-1)!/2 cyclic orders.
    counts = substructure_counts(nx.complete_graph(7), cycles=[3, 4, 5, 6], cliques=[3, 4, 7])
    expected = [comb(6, 2), comb(6, 3) * 3, comb(6, 4) * 12, comb(6, 5) * 60, comb(6, 2), comb(6, 3), 1]
    assert counts.tolist() == [[float(e) for e in expected]] * 7


def test_petersen_graph_by_hand() -> None:
    # 12 pentagons and 10 hexagons, no shorter cycle; every node is alike: 12·5/10 and 10·6/10.
    assert substructure_counts(nx.petersen_graph(), cycles=[3, 4, 5, 6]).tolist() == [[0.0, 0.0, 6.0, 6.0]] * 10


def test_direction_weights_loops_and_duplicates_play_no_role() -> None:
    plain = Graph(torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]]), 4)
    noisy = torch.tensor([[1, 1, 2, 3, 0, 2, 2, 0], [0, 2, 1, 2, 3, 0, 2, 3]])
    weighted = Graph(noisy, 4, torch.tensor([1.0, 2, 3, 4, 5, 6, 7, -1]))
    assert torch.equal(substructure_counts(plain), substructure_counts(weighted))


def test_a_batch_is_its_graphs_alone_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [as_graph(g) for g in (nx.karate_club_graph(), nx.cycle_graph(6), nx.empty_graph(2), nx.wheel_graph(6))]
    alone = torch.cat([substructure_counts(g, cliques=[3, 4]) for g in graphs])
    assert torch.equal(substructure_counts(graphs, cliques=[3, 4]), alone)
    monkeypatch.setattr(counts_as_features, "_CHUNK_PATHS", 50)
    assert torch.equal(substructure_counts(graphs, cliques=[3, 4]), alone)


def test_sizes_and_limits_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"cycles must be integers of at least 3, got \[2\]"):
        substructure_counts(nx.path_graph(3), cycles=[2])
    with pytest.raises(ArgumentError, match=r"cycles must be a list of sizes, such as \[3\], got 3"):
        substructure_counts(nx.path_graph(3), cycles=3)
    with pytest.raises(ArgumentError, match="at least one size"):
        substructure_counts(nx.path_graph(3), cycles=[])
    monkeypatch.setattr(counts_as_features, "MAX_PATHS", 100)
    with pytest.raises(ArgumentError, match="stopped after 100 paths of at most 6 nodes"):
        substructure_counts(nx.complete_graph(9))
