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
    [
        *[([5], 1), ([4, 4, 4], 1), ([4, 3, 5], 1), ([100, 2, 3, 2, 1, 2], 4), ([0, 3, 0, 2], 1), ([1], 1), ([0], 0)],
        *[([40, 50, 64], 1), ([65, 70, 100], 1), ([40, 50, 70], 2)],  # kernels take blocks of at most 64
    ],
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


@pytest.mark.parametrize("sizes", [[5], [4, 4, 4], [4, 3, 5], [0, 3, 0, 2], [64, 1]])
@pytest.mark.parametrize("tail", [0, 1, 6])
@pytest.mark.parametrize("more", [0, 2])
def test_a_known_bound_makes_one_block_of_the_same_rows(sizes: list[int], tail: int, more: int) -> None:
    n, width = sum(sizes), min(max(sizes) + more, padding.ONE_BLOCK_MAX_SIZE)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    layout = PaddedGraphs(Graph.unchecked(NO_EDGES, n + tail, ptr=ptr, max_size=width, padded=tail > 0))
    (block,) = layout.blocks
    assert block.rows.shape == (len(sizes), width)
    for size, start, rows, real in zip(sizes, ptr.tolist(), block.rows, block.real, strict=False):  # type: ignore[arg-type]
        assert rows.tolist() == [*range(start, start + size), *[n + tail] * (width - size)]
        assert real.tolist() == [True] * size + [False] * (width - size)
    x = torch.randn(n + tail, 3, requires_grad=True)
    padded = layout.pad(x, block)
    assert torch.equal(padded[block.real], x[:n])  # type: ignore[index]
    assert not padded[~block.real].any()  # type: ignore[operator]
    back = layout.unpad([padded])
    assert torch.equal(back[:n], x[:n])
    assert not back[n:].any()  # nodes of no graph
    target = torch.randn(n + tail, 3)
    (back * target).sum().backward()
    assert torch.equal(x.grad[:n], target[:n])  # type: ignore[index]
    assert not x.grad[n:].any()  # type: ignore[index]


def test_a_bound_that_is_too_wide_is_not_used() -> None:
    ptr = torch.tensor([0, 2, 5])
    layout = PaddedGraphs(Graph(NO_EDGES, 5, ptr=ptr, max_size=padding.ONE_BLOCK_MAX_SIZE + 1))
    assert [tuple(block.rows.shape) for block in layout.blocks] == [(2, 3)]


def test_nodes_of_no_graph_without_a_bound() -> None:
    layout = PaddedGraphs(Graph.unchecked(NO_EDGES, 9, ptr=torch.tensor([0, 3, 6]), padded=True))
    x = torch.randn(9, 2)
    back = layout.unpad([layout.pad(x, block) for block in layout.blocks])
    assert torch.equal(back[:6], x[:6])
    assert not back[6:].any()


def test_with_a_bound_nothing_is_asked_of_the_device() -> None:
    ptr = torch.empty(4, dtype=torch.long, device="meta")  # has no values: reading one raises
    layout = PaddedGraphs(Graph.unchecked(NO_EDGES.to("meta"), 12, ptr=ptr, max_size=5, padded=True))
    x = torch.empty(12, 2, device="meta")
    assert layout.unpad([layout.pad(x, block) for block in layout.blocks]).shape == (12, 2)


@pytest.mark.parametrize(("size", "number"), [(3, 4), (1, 1), (2000, 2)])
def test_graphs_known_to_have_one_size_are_not_asked(size: int, number: int) -> None:
    ptr = torch.arange(0, size * number + 1, size)
    asked = PaddedGraphs(Graph(NO_EDGES, size * number, ptr=ptr))
    known = PaddedGraphs(Graph.unchecked(NO_EDGES, size * number, ptr=ptr.to("meta"), known_sizes=(size, size)))
    assert len(asked.blocks) == len(known.blocks) == 1
    assert torch.equal(asked.blocks[0].rows, known.blocks[0].rows)
    assert asked.blocks[0].real is known.blocks[0].real is None
