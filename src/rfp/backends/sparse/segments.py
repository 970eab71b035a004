"""Small matrix products for each graph of a batch: Gram matrices and the multiplication by a k x k matrix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.available import compiled_available
from rfp.normalization import segment_sum
from rfp.pages import empty
from rfp.precision import matmul_precision
from rfp.ragged import pad

# Rows of one large graph whose float64 copy is multiplied at a time; words of a padded chunk of small graphs: a CPU's
# chunk stays in cache, a GPU's is large enough to fill it.
_ROWS = 1 << 14
_CHUNK_WORDS = {"cpu": 1 << 21, "cuda": 1 << 26}
# Where copies of one graph, as replicas of a model make them, are a plain batch, whatever their size.
_COPIES_ON = ("cuda",)


@dataclass(frozen=True)
class _Chunk:
    """Graphs of similar size, padded to the largest of them."""

    graphs: Tensor  # [g]
    rows: Tensor  # [g, width] node numbers; padding repeats a valid one
    real: Tensor  # [g, width] False at the padding


class Segments:
    """The graphs of a batch, laid out once and used at every step.

    One graph is multiplied as it is. Many are sorted by size and padded in chunks, so that a batched matrix product
    does the work; padding stays below the spread of sizes inside a chunk, and a chunk stays in cache.

    Args:
        ptr: ``[num_graphs + 1]``.
        num_columns: B k, to size the chunks.
        sizes: Nodes of the smallest and of the largest graph, if they are known; else a GPU is waited for.
    """

    def __init__(self, ptr: Tensor, num_columns: int, sizes: tuple[int, int] | None = None) -> None:
        self.ptr = ptr
        self.num_graphs = len(ptr) - 1
        self.chunks: list[_Chunk] = []
        self.equal = False
        self._largest = 0 if sizes is None else sizes[1]
        known = sizes is not None and 0 < sizes[0] == sizes[1]
        self.are_known_copies = known and self.num_graphs > 1 and ptr.device.type in _COPIES_ON
        if self.num_graphs == 1:
            return
        if self.are_known_copies:
            self.equal = True
            return
        ordered, order = torch.sort(ptr.diff())
        widths, start = ordered.tolist(), 0
        self._largest = widths[-1] if widths else 0
        self.equal = ptr.device.type in _COPIES_ON and bool(widths) and 0 < widths[0] == widths[-1]
        if self.equal:
            return
        limit = _CHUNK_WORDS.get(ptr.device.type, _CHUNK_WORDS["cpu"])
        while start < self.num_graphs:
            stop = start + 1
            while stop < self.num_graphs and (stop + 1 - start) * widths[stop] * num_columns <= limit:
                stop += 1
            graphs, width = order[start:stop], widths[stop - 1]
            if width:
                self.chunks.append(_Chunk(graphs, *pad(ptr, width, groups=graphs)))
            start = stop

    def largest(self, a: Tensor) -> int:  # [B, n, k]
        """Nodes of the largest graph."""
        return a.size(1) if self.num_graphs == 1 else self._largest

    def by_vectors(
        self, a: Tensor, q: Tensor, chosen: list[tuple[int, int]], exact: Callable[[Tensor, int, int], Tensor]
    ) -> Tensor:
        """Graph by graph; waits for a GPU."""
        for graph, b in chosen:
            rows = slice(*self.ptr[graph : graph + 2].tolist())
            q[b, rows] = exact(a[b, rows].double(), graph, b).to(q.dtype)
        return q

    def gram(self, a: Tensor) -> Tensor:  # [B, n, k] -> [G, B, k, k] float64
        r""":math:`a^\top a` of each graph and trajectory, summed in float64. O(n k² B)."""
        if self.num_graphs == 1 and self._compiled(a):
            from rfp.backends.compiled.dense_products import gram_matrix

            return gram_matrix(a.transpose(0, 1))[None]
        return self.inner(a, a)

    def inner(self, a: Tensor, b: Tensor) -> Tensor:  # [B, n, k] twice -> [G, B, k, k] float64
        r""":math:`a^\top b` of each graph and trajectory, summed in float64. O(n k² B)."""
        num_trajectories, n, k = a.shape
        total = torch.zeros(self.num_graphs, num_trajectories, k, k, dtype=torch.float64, device=a.device)
        if self.num_graphs == 1:
            for start in range(0, n, _ROWS):
                left = a[:, start : start + _ROWS].double()
                right = left if b is a else b[:, start : start + _ROWS].double()
                total[0].baddbmm_(left.transpose(1, 2), right)
            return total
        if self.equal:
            left = self.blocks(a).double()
            return left.mT @ (left if b is a else self.blocks(b).double())
        for chunk in self.chunks:
            left = self._pad(a, chunk).double()
            right = left if b is a else self._pad(b, chunk).double()
            total[chunk.graphs] = left.mT @ right
        return total

    def norms(self, a: Tensor) -> Tensor:  # [B, n, k] -> [G, B] float64
        """The Frobenius norm of each graph and trajectory, summed in float64. O(n k B)."""
        if self.equal:  # a sum over each of few long segments is the work of few threads of a GPU
            norms: Tensor = torch.linalg.vector_norm(self.blocks(a), dim=(-2, -1), dtype=torch.float64)
            return norms
        return segment_sum(a.transpose(0, 1).double().square().sum(-1), self.ptr).sqrt()

    def apply(self, a: Tensor, weight: Tensor, upper: bool = True) -> Tensor:  # [B, n, k], [G, B, k, k] -> [B, n, k]
        """``a @ weight`` with the weight of each node's graph; the result is node-first in memory.

        ``upper`` says that the weights are upper triangular, which halves the work where a kernel is at hand.
        """
        # Triangular solves return column-major factors, with which a batched product took 40 times as long on a CPU.
        weight = weight.to(a.dtype).contiguous()
        # Also where the user allows TF32 for the network around: it would leave columns orthonormal to 1e-3 only.
        with matmul_precision("highest"):
            return self._apply(a, weight, upper)

    def _apply(self, a: Tensor, weight: Tensor, upper: bool) -> Tensor:
        num_trajectories, n, k = a.shape
        out = empty(n, num_trajectories, k, dtype=a.dtype, device=a.device)
        if upper and self.num_graphs == 1 and self._compiled(a):
            from rfp.backends.compiled.dense_products import times_upper

            times_upper(a.transpose(0, 1), weight[0], out)
        elif self.num_graphs == 1:
            for b in range(num_trajectories):
                torch.mm(a[b], weight[0, b], out=out[:, b])
        if self.equal:
            self.blocks(out.transpose(0, 1)).copy_(self.blocks(a) @ weight)
        for chunk in self.chunks:
            product = self._pad(a, chunk) @ weight[chunk.graphs]  # [g, B, width, k]
            out[chunk.rows[chunk.real]] = product.transpose(1, 2)[chunk.real]
        return out.transpose(0, 1)

    def blocks(self, a: Tensor) -> Tensor:  # [B, n, k] -> [G, B, width, k]
        """The rows of each graph, as a view: of graphs of equal size."""
        return a.view(a.size(0), self.num_graphs, -1, a.size(2)).transpose(0, 1)

    @staticmethod
    def _compiled(a: Tensor) -> bool:
        """Whether the compiled kernels serve this block: on a CPU they halve both products (triangular work only)."""
        return a.device.type == "cpu" and a.transpose(0, 1).is_contiguous() and compiled_available()

    @staticmethod
    def _pad(a: Tensor, chunk: _Chunk) -> Tensor:  # -> [g, B, width, k]
        rows = a.transpose(0, 1)[chunk.rows] * chunk.real[..., None, None]
        return rows.transpose(1, 2)
