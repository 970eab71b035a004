"""Graphs of a batch side by side in padded blocks, for operations that are dense within a graph."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rfp.backends.learned import LEARNED_MAX_NODES
from rfp.graph import Graph
from rfp.ragged import pad

# Padding everything to the largest graph is kept while it costs less than this many times the exact n x n blocks;
# beyond that, and where some are small enough for the kernels of the ``learned`` backend and others are not, graphs are
# sorted into blocks whose widths differ by at most a factor of two.
_MAX_WASTE = 4
# Larger graphs share a block with those of their own size alone: no padding, so no mask, which the fused kernels would
# spread over n x n.
ALONE_ABOVE = 1024
# Graphs known to have no more nodes than this share one block, made without waiting for a GPU: what the kernels of the
# ``learned`` backend take.
ONE_BLOCK_MAX_SIZE = LEARNED_MAX_NODES


@dataclass(frozen=True)
class Block:
    """Graphs of similar size.

    Args:
        rows: ``[g, width]`` node numbers; n (one past the last node) at the padding.
        real: ``[g, width]``, False at the padding; ``None`` if there is known to be none.
    """

    rows: Tensor
    real: Tensor | None


class PaddedGraphs:
    """The layout of a batch: made once, used for every product with it.

    Args:
        graph: The batch. Its sizes are read on the host, one synchronisation with a GPU, unless its ``max_size`` is
            known and at most :data:`ONE_BLOCK_MAX_SIZE`: then there is one block of that width. Nor are they read where
            all graphs are known to have one size. The nodes of a padded batch that belong to no graph are in no block.
    """

    def __init__(self, graph: Graph) -> None:
        self.num_nodes = graph.num_nodes
        self._all_held = not graph.padded
        self.blocks: list[Block] = []
        if graph.max_size is not None and graph.max_size <= ONE_BLOCK_MAX_SIZE:
            if graph.max_size and graph.num_graphs:
                self.blocks.append(Block(*pad(graph.offsets, graph.max_size, fill=graph.num_nodes)))
            return
        smallest, largest = graph.known_sizes or (0, 0)
        if 0 < smallest == largest and not graph.padded:
            rows = torch.arange(graph.num_nodes, device=graph.device)
            self.blocks.append(Block(rows.view(graph.num_graphs, largest), None))
            return
        sizes = graph.sizes.tolist()
        for graphs in _groups(sizes):
            width = max(sizes[g] for g in graphs)
            chosen = torch.tensor(graphs, device=graph.device) if len(graphs) < len(sizes) else None
            rows, real = pad(graph.offsets, width, groups=chosen, fill=graph.num_nodes)
            padded = graph.padded or any(sizes[g] != width for g in graphs)
            self.blocks.append(Block(rows, real if padded else None))

    @cached_property
    def _place(self) -> Tensor:
        """Where each node lies among the rows of all blocks, ``[n]``; one past the last for one that is in none."""
        rows = torch.cat([block.rows.flatten() for block in self.blocks])
        place = torch.full((self.num_nodes + 1,), len(rows), device=rows.device)
        return place.scatter_(0, rows, torch.arange(len(rows), device=rows.device))[:-1]

    def pad(self, x: Tensor, block: Block) -> Tensor:  # [n, c] -> [g, width, c]
        """The rows of a block's graphs, zero at the padding."""
        if len(self.blocks) == 1 and block.real is None:
            return x.view(*block.rows.shape, -1)
        # Not by indexing, whose derivative sorts the rows: none but that of the padding comes twice.
        rows = torch.cat([x, x.new_zeros(1, x.size(1))]).index_select(0, block.rows.flatten())
        return rows.view(*block.rows.shape, -1)

    def unpad(self, parts: list[Tensor]) -> Tensor:  # [g, width, c] of every block -> [n, c]
        """The real rows of all blocks, back in the order of the nodes; zero for nodes that are in no block."""
        if len(parts) == 1 and self.blocks[0].real is None:
            return parts[0].reshape(self.num_nodes, -1)
        rows = [part.flatten(0, 1) for part in parts]
        if not self._all_held:
            rows.append(rows[0].new_zeros(1, rows[0].size(1)))
        return torch.cat(rows).index_select(0, self._place)


def _groups(sizes: list[int]) -> list[list[int]]:
    """Numbers of the graphs of each block."""
    by_size: dict[int, list[int]] = {}
    for g, size in enumerate(sizes):
        if size > ALONE_ABOVE:
            by_size.setdefault(size, []).append(g)
    alone = list(by_size.values())
    small = [g for g, size in enumerate(sizes) if 0 < size <= ALONE_ABOVE]
    if not small:
        return alone
    narrowest, widest = min(sizes[g] for g in small), max(sizes[g] for g in small)
    of_one_kind = widest <= LEARNED_MAX_NODES or narrowest > LEARNED_MAX_NODES
    if of_one_kind and len(small) * widest**2 <= _MAX_WASTE * sum(sizes[g] ** 2 for g in small):
        return [small, *alone]
    by_width: dict[int, list[int]] = {}
    for g in small:
        by_width.setdefault((sizes[g] - 1).bit_length(), []).append(g)
    return [*(by_width[bits] for bits in sorted(by_width)), *alone]
