r"""The GCN's matrix :math:`\tilde D^{-1/2} \tilde A \tilde D^{-1/2}` as a sparse product, for a graph that is kept."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from rfp.csr import CSR, from_entries
from rfp.graph import Graph


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
        node_first = x.movedim(-2, 0)
        out: Tensor = _Product.apply(node_first.reshape(x.size(-2), -1), self._forward, self._backward)  # type: ignore[no-untyped-call]
        return out.view(node_first.shape).movedim(0, -2)


class _Product(torch.autograd.Function):
    # torch's own derivative of a CSR product would transpose the matrix at every call.
    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: CSR, backward: CSR) -> Tensor:
        ctx.matrix = backward
        return forward.to(x.dtype) @ x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.matrix.to(grad.dtype) @ grad.contiguous(), None, None


_KEPT: WeakKeyDictionary[Graph, GCNMatrix] = WeakKeyDictionary()


def gcn_matrix(graph: Graph) -> GCNMatrix:
    """The matrix of a graph that is kept between calls: built at the first one."""
    if graph not in _KEPT:
        _KEPT[graph] = GCNMatrix(graph)
    return _KEPT[graph]
