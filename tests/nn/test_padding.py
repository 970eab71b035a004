"""Padded blocks: nothing lost, nothing added, few blocks."""

from __future__ import annotations

import pytest
import torch

from rfp.graph import Graph
from rfp.nn import padding
from rfp.nn.padding import PaddedGraphs

NO_EDGES = torch.empty(2, 0, dtype=torch.long)


@pytest.mark.parametrize(
    ("sizes", "num_blocks"),
    [([5], 1), ([4, 4, 4], 1), ([4, 3, 5], 1), ([100, 2, 3, 2, 1, 2], 4), ([0, 3, 0, 2], 1), ([1], 1), ([0], 0)],
)
def test_there_and_back(sizes: list[int], num_blocks: int) -> None:
    n = sum(sizes)
    graph = Graph(NO_EDGES, n, ptr=torch.tensor([0, *sizes]).cumsum(0))
    layout = PaddedGraphs(graph)
    assert len(layout.blocks) == num_blocks
    x = torch.arange(1.0, 2 * n + 1).view(n, 2)
    padded = [layout.pad(x, block) for block in layout.blocks]
    if num_blocks:
        assert torch.equal(layout.unpad(padded), x)
        assert sum(float(p.sum()) for p in padded) == float(x.sum())  # the padding is zero
    for block, one in zip(layout.blocks, padded, strict=True):
        assert one.shape[:2] == block.rows.shape
        if block.real is not None:
            assert not one[~block.real].any()
    cells = sum(block.rows.numel() * block.rows.size(1) for block in layout.blocks)
    assert cells <= 4 * sum(s * s for s in sizes)


def test_large_graphs_are_never_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "ALONE_ABOVE", 10)
    graph = Graph(NO_EDGES, 45, ptr=torch.tensor([0, 20, 22, 33, 45]))
    layout = PaddedGraphs(graph)
    assert [tuple(block.rows.shape) for block in layout.blocks] == [(1, 2), (1, 20), (1, 11), (1, 12)]
    assert all(block.real is None for block in layout.blocks)
    x = torch.randn(45, 3)
    assert torch.equal(layout.unpad([layout.pad(x, block) for block in layout.blocks]), x)


def test_gradient_of_padding() -> None:
    graph = Graph(NO_EDGES, 7, ptr=torch.tensor([0, 2, 7]))
    layout = PaddedGraphs(graph)
    x = torch.randn(7, 3, requires_grad=True)
    target = torch.randn(7, 3)
    (layout.unpad([layout.pad(x, block) for block in layout.blocks]) * target).sum().backward()
    assert torch.equal(x.grad, target)  # type: ignore[arg-type]
