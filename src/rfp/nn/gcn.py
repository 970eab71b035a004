r"""The GCN's matrix :math:`\tilde D^{-1/2} \tilde A \tilde D^{-1/2}` as a sparse product, for a graph that is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from rfp.csr import CSR, from_entries
from rfp.graph import Graph
from rfp.nn.neighbors import add_neighbors
from rfp.nn.replicated import as_they_lie, put_back, rows_come_first


class GCNMatrix:
    """What ``torch_geometric.nn.GCNConv`` propagates with, sorted into rows once.

    A gather and a scatter write a message for each edge and channel; the product writes the sums alone. On full-batch
    graphs, and with several trajectories or replicas side by side, that is most of the time of a layer.

    Args:
        graph: Any graph or batch.
    """

    def __init__(self, graph: Graph) -> None:
        # As GCNConv calls it: the messages are float32, so the weights are.
        index, weight = gcn_norm(graph.edge_index.long(), graph.edge_weight, graph.num_nodes, dtype=torch.float32)
        source, target = index
        self._forward = from_entries(target, source, weight, graph.num_nodes)
        self._backward = from_entries(source, target, weight, graph.num_nodes)

    def propagate(self, x: Tensor) -> Tensor:
        """``[..., n, d] -> [..., n, d]``, differentiable in x; all leading dimensions go through one product."""
        leading: Iterable[int] = range(x.dim() - 2)
        if rows_come_first(x):
            leading = as_they_lie(x, leading)
        order = [x.dim() - 2, *leading, x.dim() - 1]
        node_first = x.permute(order)
        out: Tensor = _Product.apply(node_first.reshape(x.size(-2), -1), self._forward, self._backward)  # type: ignore[no-untyped-call]
        return put_back(out.view(node_first.shape), order)


class _Product(torch.autograd.Function):
    # torch's own derivative of a CSR product would transpose the matrix at every call.
    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: CSR, backward: CSR) -> Tensor:
        ctx.matrices = backward, forward
        return forward.to(x.dtype) @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Product.apply(grad.contiguous(), *ctx.matrices), None, None  # type: ignore[no-untyped-call]


def gcn_sum(x: Tensor, graph: Graph) -> Tensor:
    r"""The same product for a graph that is seen once, ``[n, d] -> [n, d]``, without waiting for a GPU.

    ``torch_geometric`` takes the self-loops out of the list of edges, whose new length the host has to ask for. Here
    they stay in it and count for nothing, and the diagonal is added by itself: 1, or the weight of a self-loop that is
    there. Without weights the sums are those of :func:`rfp.nn.neighbors.add_neighbors`, in a fixed order. O(m d).
    """
    edge_index = graph.edge_index.long()
    source, target = edge_index
    loop = source == target
    if graph.edge_weight is None and x.dtype == torch.float32:
        both = torch.stack([loop, ~loop]).to(x.dtype)
        loops, degree = x.new_zeros(2, graph.num_nodes).index_add_(1, target, both)
        scale = (degree + 1).rsqrt_()[:, None]
        scaled = x * scale
        out: Tensor = (add_neighbors(scaled, edge_index, x.new_zeros(1), graph=graph) - loops[:, None] * scaled) * scale
        return out
    given = torch.ones_like(source, dtype=x.dtype) if graph.edge_weight is None else graph.edge_weight.to(x.dtype)
    weight = torch.where(loop, 0.0, given)
    # Entries that are no self-loops land beside the diagonal.
    place = torch.where(loop, target, graph.num_nodes)
    diagonal = x.new_ones(graph.num_nodes + 1).scatter_(0, place, given)[:-1]
    scale = diagonal.index_add(0, target, weight).rsqrt_()[:, None]
    scaled = x * scale.masked_fill_(scale == torch.inf, 0.0)
    messages = scaled.index_select(0, source) * weight[:, None]
    return (scaled * diagonal[:, None]).index_add(0, target, messages) * scale


def gcn_matrix(graph: Graph) -> GCNMatrix:
    """The matrix of a graph that is kept between calls: built at the first one."""
    return graph.memo.of(GCNMatrix, graph)
