r"""The sum over neighbours in GIN and GINE layers: one kernel on a GPU, deterministic, and its gradient another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rfp.available import triton_available
from rfp.differentiable_once import differentiable_once
from rfp.graph import Graph


@dataclass(frozen=True)
class SortedEdges:
    """The edges of a batch in the order of their targets and in that of their sources.

    Args:
        by_target: ``[m]`` numbers of the edges.
        target_ptr: ``[n + 1]``: the edges into node i are ``by_target[target_ptr[i]:target_ptr[i + 1]]``.
        by_source: The same for the edges out of a node.
        source_ptr: The same for the edges out of a node.
        padded: Whether there are edges beyond those of ``source_ptr``, which count for nothing.
    """

    by_target: Tensor
    target_ptr: Tensor
    by_source: Tensor
    source_ptr: Tensor
    padded: bool = False


def sort_edges(edge_index: Tensor, num_nodes: int) -> SortedEdges:
    """Sort without waiting for the device, O(m log m)."""
    (by_source, source_ptr), (by_target, target_ptr) = (_sorted(ends, num_nodes) for ends in edge_index)
    return SortedEdges(by_target, target_ptr, by_source, source_ptr)


def _sorted(ends: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    values, order = torch.sort(ends.contiguous(), stable=True)
    return order, torch.searchsorted(values, torch.arange(num_nodes + 1, device=ends.device, dtype=ends.dtype))


def sorted_edges(graph: Graph) -> SortedEdges:
    """The order of a graph's edges, sorted when it is first asked for and kept with the graph."""
    return graph.memo.of(_sort, graph)


def keep_sorted(graph: Graph, edges: SortedEdges) -> None:
    """Give the order that :func:`sorted_edges` is to return, where it is known already."""
    graph.memo.put(_sort, edges)


def _sort(graph: Graph) -> SortedEdges:
    return sort_edges(graph.edge_index, graph.num_nodes)


def add_neighbors(
    x: Tensor, edge_index: Tensor, eps: Tensor, attr: Tensor | None = None, graph: Graph | None = None
) -> Tensor:
    r"""What GINE puts into its perceptron, and GIN where there are no edge features.

    .. math:: h_i = (1 + \epsilon) x_i + \sum_{j \to i} \mathrm{ReLU}(x_j + e_{ji}), \qquad
              h_i = (1 + \epsilon) x_i + \sum_{j \to i} x_j

    Args:
        x: ``[..., n, d]``.
        edge_index: ``[2, m]``, sources and targets.
        eps: ``[1]``.
        attr: ``[m, d]``, e.
        graph: Whose edges these are, if layers share it: a GPU then sorts them once.

    On a GPU nothing of size m is written in the forward pass, and the sums are in a fixed order: the same bits at every
    run. O(m d) for each leading index.

    References:
        W. Hu et al. Strategies for pre-training graph neural networks. ICLR 2020.
    """
    if x.is_cuda and x.numel() and triton_available() and not torch.compiler.is_compiling():
        order = sort_edges(edge_index, x.size(-2)) if graph is None else sorted_edges(graph)
        out: Tensor = NeighborSum.apply(x, eps, attr, edge_index, order)  # type: ignore[no-untyped-call]
        return out
    source, target = edge_index
    message = x.index_select(-2, source)
    if attr is not None:
        message = (message + attr).relu()
    return ((1 + eps).to(x.dtype) * x).index_add(-2, target, message.to(x.dtype))


class NeighborSum(torch.autograd.Function):
    """:func:`add_neighbors` by the kernels of :mod:`rfp.nn.triton_neighbors`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, eps: Tensor, attr: Tensor | None, edge_index: Tensor, order: SortedEdges
    ) -> Tensor:
        from rfp.nn.triton_neighbors import launch_neighbor_sums

        ctx.edges = order
        x = x.contiguous()
        attr = None if attr is None else attr.contiguous()
        ctx.save_for_backward(x, eps, attr, edge_index)
        out: Tensor = launch_neighbor_sums(x, eps, attr, edge_index, ctx.edges)  # type: ignore[no-untyped-call]
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None, None]:
        from rfp.nn.triton_neighbors import launch_neighbor_sums_gradient

        x, eps, attr, edge_index = ctx.saved_tensors
        grad = grad.contiguous()
        both: tuple[Tensor, Tensor | None] = launch_neighbor_sums_gradient(  # type: ignore[no-untyped-call]
            grad, x, eps, attr, edge_index, ctx.edges
        )
        grad_x, grad_attr = both
        grad_eps = (
            (grad * x).sum(dtype=torch.float32).to(eps.dtype).view(eps.shape) if ctx.needs_input_grad[1] else None
        )
        return grad_x, grad_eps, grad_attr if ctx.needs_input_grad[2] else None, None, None
