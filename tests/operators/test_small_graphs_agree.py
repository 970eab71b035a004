"""The look at the kernel of small batches before it counts: right ones are taken, wrong ones are not and are said."""

from __future__ import annotations

from tests.interpreter import run_interpreted

LOOK = """
import warnings
from dataclasses import replace
from unittest.mock import PropertyMock, patch
import torch
from rfp.backends.fused.new_batches import new_batch_trajectory
from rfp.graph import Graph
from rfp.operators import small_graphs_agree, triton_small_graphs
from rfp.settings import Settings

warnings.simplefilter("error")
triton_small_graphs._LOOKED_AT, triton_small_graphs._ADDED = 128, 32
names = ("normalized_adjacency", "normalized_laplacian", "random_walk", "adjacency")
edges, ptr = torch.tensor([[0, 1, 1, 2, 3], [1, 0, 2, 1, 3]]), torch.tensor([0, 3, 4])
graph = Graph.unchecked(edges, 4, None, ptr, known_sizes=(1, 3))
weighted = Graph.unchecked(edges, 4, torch.linspace(-1, 1, 5), ptr, known_sizes=(1, 3))
for some, dtype in ((graph, torch.float32), (weighted, torch.float32), (graph, torch.float64)):
    assert small_graphs_agree.small_graphs_agree(names, some, dtype)
assert len(small_graphs_agree._looks.known) == 3 and all(small_graphs_agree._looks.known.values())

right = small_graphs_agree.launch_small_graphs


def wrong_in(field, changed):
    def launch(*arguments):
        found = right(*arguments)
        return replace(found, **{field: changed(getattr(found, field))})

    return launch


for field, changed in (
    ("values", lambda values: values * (1 + 1e-6)),
    ("norms", lambda norms: norms / 2),
    ("norms", lambda norms: norms * 3),
    ("norms", lambda norms: norms * float("nan")),
    ("keys", lambda keys: keys + 1),
):
    small_graphs_agree._looks.known.clear()
    small_graphs_agree.launch_small_graphs = wrong_in(field, changed)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert not small_graphs_agree.small_graphs_agree(names, graph), field
        assert not small_graphs_agree.small_graphs_agree(names, graph), field
    assert ["kernel of small batches is wrong on cpu" in str(one.message) for one in said] == [True], said

# Whoever asks for a trajectory then gets it another way.
with patch.object(Graph, "sorts_on_gpu", new_callable=PropertyMock, return_value=True):
    small_graphs_agree._looks.known[("cpu", names, 32, torch.float32, torch.int64, None)] = False
    assert new_batch_trajectory(Settings(operators=names, num_channels=2, num_steps=1), graph) is None
print("equal")
"""


def test_right_ones_are_taken_and_wrong_ones_are_reported() -> None:
    run_interpreted(LOOK)
