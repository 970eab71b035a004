"""A batch in two launches equals the reference, in Triton's interpreter; what they cannot do goes another way."""

from typing import Any
from unittest.mock import PropertyMock, patch

import pytest
import torch

import rfp
from rfp.backends.fused.new_batches import new_batch_trajectory
from rfp.graph import Graph
from rfp.operators import OPERATORS
from tests.interpreter import run_interpreted

EQUAL = """
from unittest.mock import PropertyMock, patch
import torch
import rfp
from rfp.backends.fused.new_batches import new_batch_trajectory
from rfp.graph import Graph
from rfp.operators import triton_small_graphs
from rfp.settings import Settings

triton_small_graphs._LOOKED_AT, triton_small_graphs._ADDED = 16, 16
ptr = torch.tensor([0, 3, 4, 9, 11])
edges = torch.tensor([[9, 0, 1, 4, 5, 9, 2, 8, 7, 9, 5, 4], [9, 1, 0, 5, 4, 10, 1, 7, 8, 9, 4, 5]])  # in no order
several = ["normalized_adjacency", "normalized_laplacian", "random_walk", "adjacency"]
weight = torch.linspace(-1, 2, 12)
for weight, options in (
    (None, {"operators": several[:1], "normalization": "qr", "num_steps": 1}),
    (weight, {"operators": several, "normalization": "l2", "num_trajectories": 2}),
    (None, {"operators": several[3:], "normalization": "none", "storage_dtype": torch.float16}),
):
    settings = Settings(**{"num_channels": 3, "num_steps": 2, "seed": 5, **options})
    graph = Graph.unchecked(edges, 11, weight, ptr, known_sizes=(1, 5))
    with patch.object(Graph, "sorts_on_gpu", new_callable=PropertyMock, return_value=True):
        storage, report = new_batch_trajectory(settings, graph)
    expected = rfp.encode(Graph(edges, 11, weight, ptr), settings, backend="reference")
    assert storage.dtype == expected.storage.dtype and report.backend == "fused"
    off = 2e-3 if storage.dtype == torch.float16 else 2e-5
    torch.testing.assert_close(storage, expected.storage, atol=off, rtol=off)
    assert report.dependent_columns == expected.report.dependent_columns
    assert report.events["zero_columns"] == expected.report.events["zero_columns"]
print("equal")
"""


@pytest.mark.slow
def test_equals_the_reference() -> None:
    run_interpreted(EQUAL)


def small_batch(**options: Any) -> Graph:
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    return Graph.unchecked(edges, 4, None, torch.tensor([0, 2, 4]), **{"known_sizes": (2, 2), **options})


@pytest.mark.parametrize(
    "arguments",
    [
        {"start": "unit"},
        {"strict": True},
        {"dtype": torch.float64},
        {"num_channels": 65},
        {"normalization": "inverse_gram"},
        {"normalization": lambda a, ptr: a},
        {"distribution": lambda uniform: uniform},
        {"operators": ["adjacency", "adjacency"]},
        {"operators": ["adjacency.T"]},
        {"operators": [torch.eye(4)]},
        {"backend": "reference"},
    ],
)
def test_what_the_kernels_cannot_do_goes_another_way(arguments: dict[str, Any]) -> None:
    with patch.object(Graph, "sorts_on_gpu", new_callable=PropertyMock, return_value=True):
        assert new_batch_trajectory(rfp.Settings(**arguments), small_batch()) is None


@pytest.mark.parametrize(("sizes", "is_small"), [((2, 2), True), ((2, 129), False), (None, False)])
def test_a_small_batch_is_known_to_be_one(sizes: tuple[int, int] | None, is_small: bool) -> None:
    """Nobody asks a GPU whether it is."""
    assert small_batch(known_sizes=sizes).is_small_batch == is_small


def test_all_graphs_together_look_at_so_many_edges() -> None:
    many = torch.zeros(2, 1 << 20, dtype=torch.long)
    ptr = torch.arange(18)
    assert Graph.unchecked(many, 17, None, ptr[:17], known_sizes=(1, 1)).is_small_batch
    assert not Graph.unchecked(many, 17, None, ptr, known_sizes=(1, 1)).is_small_batch


def test_a_batch_that_is_not_on_a_gpu_goes_another_way() -> None:
    assert new_batch_trajectory(rfp.Settings(operators=list(OPERATORS)), small_batch()) is None
