"""What follows from a level: where rows lie, how hidden states become answers, which kinds there are."""

from __future__ import annotations

import pytest
import torch

from rfp.data.metrics import METRICS
from rfp.graph import Graph
from rfp.nn.levels import GRAPH, LEVELS, NODE, Level, ReadoutOptions

PTR = torch.tensor([0, 3, 3, 5])  # the second graph has no nodes
H = torch.tensor([[1.0, 2.0], [3.0, -4.0], [5.0, 0.0], [7.0, 1.0], [-1.0, 2.0]])
BATCH = Graph(torch.zeros(2, 0, dtype=torch.long), 5, ptr=PTR)


def test_rows_of_each_graph() -> None:
    assert GRAPH.row_ptr(PTR).tolist() == [0, 1, 2, 3]
    assert NODE.row_ptr(PTR).tolist() == [0, 3, 3, 5]
    assert GRAPH.graphs_of(torch.tensor([0, 2]), PTR).tolist() == [0, 2]
    assert NODE.graphs_of(torch.tensor([1, 2, 3]), PTR).tolist() == [0, 2]
    assert (GRAPH.shares_graphs, NODE.shares_graphs) == (False, True)


@pytest.mark.parametrize(("nodes", "expected"), [("sum", [[9, -2], [0, 0], [6, 3]]), ("max", [[5, 2], [0, 0], [7, 2]])])
def test_readout_of_graphs(nodes: str, expected: list[list[float]]) -> None:
    readout = GRAPH.readout(ReadoutOptions(2, nodes=nodes))
    assert readout(H, BATCH).tolist() == expected
    assert list(readout.parameters()) == []


@pytest.mark.parametrize(("trajectories", "expected"), [("sum", 3 * H), ("mean", 1.5 * H), ("max", H.max(2 * H))])
def test_readout_of_nodes(trajectories: str, expected: torch.Tensor) -> None:
    assert torch.equal(NODE.readout(ReadoutOptions(2))(H, BATCH), H)
    readout = NODE.readout(ReadoutOptions(2, joined=False, trajectories=trajectories))
    assert torch.allclose(readout(torch.stack([H, 2 * H]), BATCH), expected)


def test_trajectories_of_graphs_meet_in_deep_sets() -> None:
    torch.manual_seed(0)
    readout = GRAPH.readout(ReadoutOptions(2, joined=False, trajectories="sum"))
    both = readout(torch.stack([H, 2 * H]), BATCH)
    pooled = torch.tensor([[9.0, -2.0], [0.0, 0.0], [6.0, 3.0]])
    expected = readout.deep_sets.rho(readout.deep_sets.phi(pooled) + readout.deep_sets.phi(2 * pooled))
    assert torch.allclose(both, expected, atol=1e-6)
    assert torch.allclose(readout(torch.stack([2 * H, H]), BATCH), both, atol=1e-6)


@pytest.mark.parametrize("level", LEVELS.values(), ids=str)
def test_kinds_have_a_loss_and_a_score_that_fit(level: Level) -> None:
    for name, kind in level.kinds.items():
        assert name == kind.name
        assert name in METRICS[kind.metric].kinds
    assert level.head(4, 3, 2)(torch.ones(5, 4)).shape == (5, 3)


def test_the_mean_over_draws_is_one_of_probabilities() -> None:
    kinds = NODE.kinds
    out = torch.tensor([[0.0, 2.0], [1.0, -1.0]])
    assert torch.allclose(kinds["classification"].averaged(out).sum(-1), torch.ones(2))
    assert torch.equal(kinds["classification"].averaged(out).argmax(-1), out.argmax(-1))
    assert torch.allclose(kinds["binary"].averaged(out), 1 / (1 + (-out).exp()))
    assert torch.allclose(kinds["binary"].answer(kinds["binary"].averaged(out)), out, atol=1e-5)
    assert torch.equal(kinds["regression"].answer(kinds["regression"].averaged(out)), out)
