"""The bench of links: its peer counts what NetworkX counts, and every contender runs."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from rfp.bench import link_case
from rfp.bench.cases import CASES
from rfp.bench.gate import GateError
from rfp.graph import Graph


def test_intersections_are_common_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = nx.gnm_random_graph(40, 150, seed=3)
    edges = torch.tensor(list(graph.edges)).T
    ours = Graph(torch.cat([edges, edges.flip(0)], dim=1), 42)  # two isolated nodes
    graph.add_nodes_from([40, 41])
    pairs = torch.combinations(torch.arange(42)).T
    expected = [len(list(nx.common_neighbors(graph, u, v))) for u, v in pairs.T.tolist()]
    assert link_case.intersections(ours, pairs).tolist() == expected
    monkeypatch.setattr(link_case, "_BLOCK", 7)
    assert link_case.intersections(ours, pairs).tolist() == expected


def test_every_contender_runs() -> None:
    contenders = list(link_case.link_contenders(300, 1500, 400, "cpu"))
    assert len(contenders) == 4
    for contender in contenders:
        assert contender.run is not None
        contender.run()
    assert {"links", "links-arxiv"} <= set(CASES)


def test_a_wrong_peer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_case, "intersections", lambda graph, pairs: torch.ones(pairs.size(1)).double())
    with pytest.raises(GateError, match="by intersections differ"):
        next(link_case.link_contenders(300, 1500, 400, "cpu"))
