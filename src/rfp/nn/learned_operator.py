r"""The learned propagation operator :math:`S^{learn}` (sections 3.2 and B of the paper)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch_geometric.nn import GCNConv

from rfp.backends.learned import LEARNED_MAX_NODES
from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.nn.attention import (
    attention_matrix,
    blockwise_product,
    fused_is_available,
    fused_product,
    wider_attention_matrix,
)
from rfp.nn.gathered_products import GatheredProducts
from rfp.nn.gcn import gcn_matrix, gcn_sum
from rfp.nn.padding import Block, PaddedGraphs
from rfp.nn.replicated import each_affine, padded_columns, shared_affine, spread_columns
from rfp.operators import DenseBlock
from rfp.ragged import offsets, repeated

FORMS = ("auto", "dense", "implicit")
KERNELS = ("auto", "blocks", "sdpa")

# Where S is formed with a width that is a multiple of this, and its gradient in one product.
_GATHERED_ON, _WIDTH_MULTIPLE = ("cuda",), 8
# `auto` forms S while the blocks of a batch hold at most this many numbers (64 MB in float32).
LEARNED_MAX_WORDS = 1 << 24


class LearnedOperator(nn.Module):
    r"""Builds :math:`S^{learn}` from node features, to be propagated with and trained end to end.

    .. math:: f = f^{in} \oplus \mathrm{GCN}(f^{in}), \qquad
              S^{learn} = \frac1H \sum_{h=1}^H \mathrm{softmax}\big(f W^Q_h (f W^K_h)^\top / \sqrt d\big)

    Every row sums to 1, and nodes of different graphs never attend to each other. S relates all pairs of a graph's
    nodes, so two distant nodes with similar neighbourhoods can be joined.

    Args:
        in_channels: Width of the node features.
        num_heads: H.
        head_channels: d, a multiple of 8 for the fused kernels.
        gcn_channels: Width of the GCN's output; H d by default.
        form: ``"dense"`` forms S (O(n²) memory; :meth:`LearnedMatrix.matrix` shows it), ``"implicit"`` only ever
            multiplies with it (O(n) memory, the same results and gradients), ``"auto"`` is dense while all blocks of
            the batch hold at most :data:`LEARNED_MAX_WORDS` numbers.
        kernel: How the implicit form multiplies: ``"sdpa"`` (fused, CUDA), ``"blocks"`` (any device), ``"auto"``.

    Example:
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> S = LearnedOperator(4)(torch.randn(3, 4), path)
        >>> torch.allclose(S @ torch.ones(3, 2), torch.ones(3, 2))  # rows sum to 1
        True
    """

    def __init__(
        self,
        in_channels: int,
        *,
        num_heads: int = 4,
        head_channels: int = 16,
        gcn_channels: int | None = None,
        form: str = "auto",
        kernel: str = "auto",
    ) -> None:
        super().__init__()
        if form not in FORMS:
            raise unknown_choice("form", form, FORMS)
        if kernel not in KERNELS:
            raise unknown_choice("kernel", kernel, KERNELS)
        if min(in_channels, num_heads, head_channels) < 1:
            raise ArgumentError(
                "in_channels, num_heads and head_channels must be at least 1, "
                f"got {in_channels}, {num_heads} and {head_channels}"
            )
        self.in_channels, self.num_heads, self.head_channels = in_channels, num_heads, head_channels
        self.form, self.kernel = form, kernel
        gcn_channels = gcn_channels or num_heads * head_channels
        self.gcn = GCNConv(in_channels, gcn_channels)
        self.query = nn.Linear(in_channels + gcn_channels, num_heads * head_channels)
        # A bias of the keys would shift all scores of a row alike, which the softmax does not see.
        self.key = nn.Linear(in_channels + gcn_channels, num_heads * head_channels, bias=False)
        # Columns that the weights have for x and for GCN(x); more than theirs after `align`.
        self.columns = [in_channels, gcn_channels]

    def align(self, multiple: int) -> None:
        """Pad the weights' columns with zeros to a multiple, as fast matrix products want it; x is padded alike."""
        linear: Any = self.gcn.lin
        for layer, widths in ((linear, self.columns[:1]), (self.query, self.columns), (self.key, self.columns)):
            wider, columns = spread_columns(layer.weight.detach(), widths, multiple)
            layer.weight = nn.Parameter(wider)
        self.columns = columns

    def forward(self, x: Tensor, graph: Graph) -> LearnedMatrix:
        """S for these features ``[n, in_channels]`` on this graph or batch."""
        if x.shape != (graph.num_nodes, self.in_channels):
            raise ArgumentError(
                f"x must have shape [n, in_channels] = [{graph.num_nodes}, {self.in_channels}], got {list(x.shape)}"
            )
        x = padded_columns(x, self.columns[0])
        neighbours = padded_columns(self._neighbours(x, graph), self.columns[1])
        q, k = (self._project(x, neighbours, part) for part in (self.query, self.key))
        if q.dim() == 3:  # [R, n, H d]: every replica has an S of its own
            graph, q, k = copies(graph, len(q)), q.flatten(0, 1), k.flatten(0, 1)
        heads = (-1, self.num_heads, self.head_channels)
        return LearnedMatrix(q.view(heads), k.view(heads), graph, form=self.form, kernel=self.kernel)

    def _neighbours(self, x: Tensor, graph: Graph) -> Tensor:
        """GCN(x), ``[n, c]`` or ``[R, n, c]``."""
        conv: Any = self.gcn
        if conv.lin.weight.dim() == 3:
            mapped = gcn_matrix(graph).propagate(shared_affine(x, conv.lin.weight))
            bias: Tensor = conv.bias
            return mapped + bias.view(len(mapped), 1, -1)
        out: Tensor = gcn_sum(conv.lin(x), graph) + conv.bias
        return out

    def _project(self, x: Tensor, neighbours: Tensor, layer: Any) -> Tensor:
        """The layer on f = x ⊕ GCN(x); where x is shared by replicas, it is multiplied with all of them at once."""
        if layer.weight.dim() == 2:
            out: Tensor = layer(torch.cat([x, neighbours], dim=-1))
            return out
        own, rest = layer.weight.split(self.columns, dim=-1)
        return shared_affine(x, own) + each_affine(neighbours, rest, layer.bias)

    def extra_repr(self) -> str:
        heads = f"num_heads={self.num_heads}, head_channels={self.head_channels}"
        return f"{heads}, form={self.form!r}, kernel={self.kernel!r}"


def copies(graph: Graph, number: int) -> Graph:
    """The nodes of a graph several times over as one batch, without the edges: each copy with an S of its own.

    They keep the graph's keys, so each draws the features that the graph itself draws. Made once for each number.
    """
    made = graph.memo.of(_copies_made)
    if number not in made:
        nodes, ptr = number * graph.num_nodes, repeated(graph.offsets, graph.num_nodes, number)
        made[number] = Graph.unchecked(
            graph.edge_index[:, :0],
            nodes,
            None,
            ptr,
            known_keys=graph.keys.repeat(number),
            known_sizes=graph.size_range if number else None,
        )
    return made[number]


def _copies_made() -> dict[int, Graph]:
    return {}


class LearnedMatrix:
    """S for one batch, as the propagation loop takes it (:class:`rfp.operators.Operator`).

    Args:
        q: Queries ``[n, H, d]``.
        k: Keys ``[n, H, d]``.
        graph: The batch.
        form: See :class:`LearnedOperator`.
        kernel: See :class:`LearnedOperator`.
    """

    differentiable = True
    symmetric = False
    norm = 1.0  # rows are averages: rounding is that of a matrix of norm 1

    def __init__(self, q: Tensor, k: Tensor, graph: Graph, *, form: str = "auto", kernel: str = "auto") -> None:
        self.num_nodes = graph.num_nodes
        self.kernel = kernel
        self.sizes = graph.sizes
        self._layout = PaddedGraphs(graph)
        num_heads, head_channels = q.shape[1:]
        words = sum(block.rows.size(0) * block.rows.size(1) ** 2 for block in self._layout.blocks) * num_heads
        self.form = ("dense" if words <= LEARNED_MAX_WORDS else "implicit") if form == "auto" else form
        self._queries, self._keys = (
            [
                self._heads(self._layout.pad(x.flatten(1), block), num_heads, head_channels)
                for block in self._layout.blocks
            ]
            for x in (q, k)
        )
        # Those of the `learned` backend, which has kernels of its own, stay as they are.
        self._gathers = q.device.type in _GATHERED_ON and all(
            block.real is None and block.rows.size(1) > LEARNED_MAX_NODES for block in self._layout.blocks
        )
        self._dense = self._matrices() if self.form == "dense" else None
        self._products = [GatheredProducts(matrix) for matrix in self._dense or () if self._gathers]

    @staticmethod
    def _heads(x: Tensor, num_heads: int, head_channels: int) -> Tensor:  # [g, width, H d] -> [g, H, width, d]
        return x.view(x.size(0), x.size(1), num_heads, head_channels).transpose(1, 2)

    def _matrices(self) -> list[Tensor]:
        triples = zip(self._queries, self._keys, self._layout.blocks, strict=True)
        return [
            wider_attention_matrix(q, k, q.size(-2) + beyond)
            if self._gathers and (beyond := -q.size(-2) % _WIDTH_MULTIPLE)
            else attention_matrix(q, k, block.real)
            for q, k, block in triples
        ]

    def __matmul__(self, a: Tensor) -> Tensor:  # [n, c] -> [n, c]
        if not self._layout.blocks:
            return a
        parts = [self._product(i, block, self._layout.pad(a, block)) for i, block in enumerate(self._layout.blocks)]
        return self._layout.unpad(parts)

    def _product(self, i: int, block: Block, a: Tensor) -> Tensor:
        if self._dense is not None and self._gathers and a.dtype == self._dense[i].dtype:
            width, n = self._dense[i].size(1), a.size(1)
            return (self._products[i] @ pad(a, (0, 0, 0, width - n)))[:, :n] if width > n else self._products[i] @ a
        if self._dense is not None:
            n = a.size(1)
            return self._dense[i][:, :n, :n].to(a.dtype) @ a
        q, k = self._queries[i].to(a.dtype), self._keys[i].to(a.dtype)
        fused = fused_is_available(q, k, a.size(-1), block.real) if self.kernel == "auto" else self.kernel == "sdpa"
        return fused_product(q, k, a, block.real) if fused else blockwise_product(q, k, a, block.real)

    def dense_blocks(self) -> list[DenseBlock] | None:
        """The matrices as they are kept (:class:`rfp.operators.BlockOperator`); ``None`` in the implicit form."""
        if self._dense is None:
            return None
        pairs = zip(self._dense, self._layout.blocks, strict=True)
        return [
            DenseBlock(matrix[:, : block.rows.size(1), : block.rows.size(1)], block.rows) for matrix, block in pairs
        ]

    def matrix(self) -> list[Tensor]:
        """S of each graph, ``[n_g, n_g]``, to look at: O(n²) memory in either form, differentiable."""
        matrices = self._dense if self._dense is not None else self._matrices()
        found: dict[int, Tensor] = {}
        starts = offsets(self.sizes).tolist()
        number = {start: g for g, start in enumerate(starts[:-1]) if starts[g + 1] > start}
        for block, padded in zip(self._layout.blocks, matrices, strict=True):
            for first, one in zip(block.rows[:, 0].tolist(), padded, strict=True):
                if first in number:  # not a graph without nodes
                    size = starts[number[first] + 1] - first
                    found[number[first]] = one[:size, :size]
        empty: Any = self.sizes.new_zeros(0, 0, dtype=torch.float32)
        return [found.get(g, empty) for g in range(len(starts) - 1)]
