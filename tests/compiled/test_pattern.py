"""Edges put into compressed rows by a kernel equal those that SciPy sorts; what it leaves to SciPy is left."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from rfp.compiled.pattern import compiled_pattern
from rfp.csr import from_entries
from rfp.graph import Graph


def plainly_added(edge_index: torch.Tensor, weight: torch.Tensor | None, num_nodes: int) -> np.ndarray:
    values = torch.ones(edge_index.size(1)) if weight is None else weight
    expected = np.zeros((num_nodes, num_nodes))
    np.add.at(expected, tuple(edge_index.numpy()), values.double().numpy())
    return expected


def random_edges(num_nodes: int, num_edges: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(num_nodes, (2, num_edges), generator=generator)
    return edge_index, torch.randint(-3, 4, (num_edges,), generator=generator).float()  # sums are exact


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("num_nodes", "num_edges"), [(0, 0), (1, 0), (1, 3), (5, 0), (9, 4), (9, 60), (40, 100)])
def test_rows_ascend_and_entries_at_one_place_are_added(num_nodes: int, num_edges: int, weighted: bool) -> None:
    """Isolated nodes, self-loops, duplicates, weights that are zero or cancel; every diagonal entry is there."""
    edge_index, weight = random_edges(num_nodes, num_edges) if num_nodes else (torch.zeros(2, 0).long(), torch.zeros(0))
    given = weight if weighted else None
    found = compiled_pattern(edge_index, given, num_nodes)
    assert found is not None
    assert found.crow.dtype == found.col.dtype == torch.int32
    assert found.value.dtype == torch.float64
    np.testing.assert_array_equal(found.to_scipy().toarray(), plainly_added(edge_index, given, num_nodes))
    places = (found.row * num_nodes + found.col).tolist()
    loops = [i * num_nodes + i for i in range(num_nodes)]
    assert places == sorted({*(edge_index[0] * num_nodes + edge_index[1]).tolist(), *loops})


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_edges_of_any_integers_and_in_any_memory(dtype: torch.dtype) -> None:
    edge_index, weight = random_edges(20, 50)
    as_pairs = edge_index.to(dtype).T.contiguous().T
    found, expected = compiled_pattern(as_pairs, weight.double(), 20), compiled_pattern(edge_index, weight, 20)
    assert found is not None
    assert expected is not None
    assert all(torch.equal(getattr(found, part), getattr(expected, part)) for part in ("crow", "col", "value"))


def test_what_is_in_great_disorder_is_left_to_a_sort() -> None:
    hub = torch.stack([torch.zeros(400).long(), torch.arange(400).flip(0)])
    assert compiled_pattern(hub, None, 400) is None
    assert compiled_pattern(hub.flip(1), None, 400) is not None
    far = torch.tensor([[0, 9000] * 20, [1] * 40])
    assert compiled_pattern(far, None, 10_000) is None
    assert compiled_pattern(far[:, far[0].argsort()], None, 10_000) is not None


@pytest.mark.parametrize("node", [-1, 3])
def test_a_node_that_is_not_there_is_not_written_to(node: int) -> None:
    assert compiled_pattern(torch.tensor([[0, node], [1, 1]]), None, 3) is None
    assert compiled_pattern(torch.tensor([[0, 1], [1, node]]), None, 3) is None


def test_a_batch_has_the_pattern_that_scipy_gives() -> None:
    """Of many edges in any order, some of them double."""
    generator = torch.Generator().manual_seed(1)
    local = torch.randint(10, (2, 600, 12), generator=generator)
    edge_index = (local + 10 * torch.arange(600)[:, None]).flatten(1)
    batch = Graph(edge_index, 6000, ptr=torch.arange(0, 6001, 10))
    assert batch.sorts_compiled
    diagonal = torch.arange(6000)
    row, col = (torch.cat([ends, diagonal]) for ends in edge_index)
    expected = from_entries(row, col, torch.cat([torch.ones(7200), torch.zeros(6000)]).double(), 6000)
    for part in ("crow", "col", "value"):
        assert torch.equal(getattr(batch.pattern, part), getattr(expected, part))
    weighted = Graph(edge_index, 6000, torch.ones(7200).requires_grad_(), batch.ptr)  # the pattern has no gradient
    assert weighted.sorts_compiled
    assert torch.equal(weighted.pattern.value, expected.value)
    assert not Graph(edge_index, 6000).sorts_compiled  # one graph of so few edges
