"""Attention of nodes to all nodes of their own graph, on padded blocks: the global half of a GPS layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn.padding import PaddedGraphs


class NodeAttention(nn.Module):
    r"""Multi-head attention within the graphs of a batch.

    .. math:: y_i = O \, \big\Vert_h \sum_{j \in G(i)} \mathrm{softmax}_j\big(q_{hi} \cdot k_{hj} / \sqrt{d / H}\big)
              \, v_{hj}, \qquad (q, k, v)_i = W x_i + b

    The same function, and the same parameters, as ``torch.nn.MultiheadAttention`` on a dense batch. Graphs are padded
    by :class:`~rfp.nn.padding.PaddedGraphs`: where their largest size is known a GPU is not waited for, so that a step
    may be recorded, and graphs of very different sizes do not share a block.

    Args:
        channels: Width d.
        num_heads: H, divides d.
        dropout: Probability with which a weight of the softmax is left out in training.

    Shapes:
        ``[..., n, d] -> [..., n, d]``. O(Σ n_g² d) for each leading index, n_g the width of a graph's block.
    """

    def __init__(self, channels: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if channels % num_heads:
            raise ArgumentError(
                f"num_heads={num_heads} must divide the width {channels} of a GPS layer; "
                f"try {_divisor(channels, num_heads)} heads"
            )
        if not 0 <= dropout < 1:
            raise ArgumentError(f"attention_dropout must be from 0 to below 1, got {dropout}")
        self.num_heads, self.dropout = num_heads, dropout
        self.project = nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw as ``torch.nn.MultiheadAttention`` does."""
        nn.init.xavier_uniform_(self.project.weight)
        nn.init.zeros_(self.project.bias)
        self.out.reset_parameters()
        nn.init.zeros_(self.out.bias)

    def forward(self, x: Tensor, graph: Graph) -> Tensor:
        """Attend; of nodes that belong to no graph (of a padded batch) the result is the bias of O."""
        leading, (n, d) = x.shape[:-2], x.shape[-2:]
        count = math.prod(leading)
        layout = _layout(graph)
        # Leading dimensions become channels: a layout is of nodes.
        qkv = self.project(x).reshape(count, n, 3 * d).transpose(0, 1).reshape(n, count * 3 * d)
        parts = [self._attended(layout.pad(qkv, block), block.real, count) for block in layout.blocks]
        together = layout.unpad(parts) if parts else qkv.new_zeros(n, count * d)
        y = together.view(n, count, d).transpose(0, 1).reshape(*leading, n, d)
        attended: Tensor = self.out(y)
        return attended

    def _attended(self, rows: Tensor, real: Tensor | None, count: int) -> Tensor:
        """``[g, width, count * 3 d] -> [g, width, count * d]``: within one block."""
        graphs, width, _ = rows.shape
        heads = rows.view(graphs, width, count, 3, self.num_heads, -1)
        # [g * count, H, width, d / H] each: the fused kernels want four dimensions.
        q, k, v = heads.permute(3, 0, 2, 4, 1, 5).flatten(1, 2)
        mask = None if real is None else real.repeat_interleave(count, 0)[:, None, None, :]
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0)
        return y.view(graphs, count, self.num_heads, width, -1).permute(0, 3, 1, 2, 4).flatten(2)

    def extra_repr(self) -> str:
        return f"num_heads={self.num_heads}" + (f", dropout={self.dropout}" if self.dropout else "")


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _layout(graph: Graph) -> PaddedGraphs:
    return graph.memo.of(PaddedGraphs, graph)


def _divisor(channels: int, num_heads: int) -> int:
    return max(h for h in range(1, num_heads + 1) if channels % h == 0)
