"""A call on a fresh batch asks a GPU for nothing: seen without a GPU, on tensors that have a device and no values.

Whoever asks such a tensor for a number, or for how many elements are not zero, gets an error in place of an answer. The
kernels are left out; what they compute is tested where they stand.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch_geometric.data import Batch, Data

import rfp
from rfp.nn.model_graph import model_graph

pytest.importorskip("triton")
RING = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])


def loaded(**attributes: Any) -> Batch:
    """Three graphs of 3, 4 and 3 nodes, as a loader puts them together."""
    sizes = (3, 4, 3)
    data = [Data(edge_index=RING, num_nodes=size, **{k: v(size) for k, v in attributes.items()}) for size in sizes]
    return Batch.from_data_list(data)


class _NoKernel:
    """Launches nothing, and counts how often it is asked to."""

    def __init__(self) -> None:
        self.launches = 0

    def __call__(self, *arguments: Any, **options: Any) -> None:
        self.launches += 1


@contextmanager
def device_without_values() -> Iterator[_NoKernel]:
    kernel = _NoKernel()
    places = (
        "rfp.operators.triton_small_graphs._launched",
        "rfp.backends.fused.kernel_launches._launched",
    )
    with FakeTensorMode(allow_non_fake_inputs=True):
        patches = [patch(place, kernel) for place in places]
        # The first call of a process looks at the kernel and waits for it; this is about those that follow.
        patches.append(patch("rfp.operators.small_graphs_agree.small_graphs_agree", lambda *arguments: True))
        patches.append(patch("torch.cuda.current_device", lambda: 0))
        patches.append(patch("torch.cuda.get_device_capability", lambda device: (9, 0)))
        for one in patches:
            one.start()
        try:
            yield kernel
        finally:
            for one in patches:
                one.stop()


def on_gpu(batch: Batch) -> Batch:
    """The batch, its tensors on a GPU and without values; what a loader keeps on the host stays as it is."""
    for name in ("edge_index", "ptr", "batch", "x", "edge_weight"):
        if name in batch:
            batch[name] = torch.empty_like(batch[name], device="cuda")
    return batch


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("operators", "normalization", "most"),
    [
        (["normalized_adjacency", "normalized_laplacian"], "qr", 2),
        (["normalized_adjacency", "normalized_laplacian", "random_walk"], "l2", 2),
    ],
)
def test_nothing_is_waited_for(operators: list[str], normalization: str, most: int, weighted: bool) -> None:
    layer = rfp.nn.RandomFeaturePropagation(4, num_steps=3, operators=operators, normalization=normalization)
    attributes = {"x": lambda size: torch.ones(size, 1)}
    if weighted:
        attributes["edge_weight"] = lambda size: torch.ones(6)
    batch = loaded(**attributes)
    with device_without_values() as kernel:
        assert layer(on_gpu(batch)).shape == (1, 10, len(operators) * 4 * 4)
    assert kernel.launches <= most


def test_the_tensors_of_this_test_do_not_answer() -> None:
    with device_without_values(), pytest.raises((DataDependentOutputException, RuntimeError)):
        int(torch.empty(3, device="cuda").sum())


@pytest.mark.parametrize("attributes", [{}, {"x": lambda size: torch.ones(size, 1)}])
def test_sizes_are_those_that_the_loader_knows(attributes: dict[str, Any]) -> None:
    batch = loaded(**attributes)
    assert model_graph(batch).known_sizes is None  # a CPU is asked when they are wanted
    assert model_graph(batch.to("meta")).known_sizes == (3, 4)


def test_a_batch_that_is_no_longer_as_it_was_loaded_is_asked() -> None:
    batch = loaded(x=lambda size: torch.ones(size, 1)).to("meta")
    cut = batch.clone()
    cut.x, cut.batch, cut.ptr, cut.num_nodes = cut.x[:7], cut.batch[:7], cut.ptr[:3], 7
    assert model_graph(cut).known_sizes is None
    assert model_graph(cut).ptr is not cut.ptr  # which is that of the whole
    given = torch.tensor([0, 5, 10], device="meta")
    assert model_graph(batch, ptr=given).known_sizes is None
    assert model_graph(batch.edge_index, ptr=torch.tensor([0, 4, 10]), num_nodes=10).known_sizes == (4, 6)
