"""Batches that live on the device: gathered for many steps at once, then cut out as views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import torch
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.graph import Graph
from rfp.hashing import signed
from rfp.nn.counted_draws import training_seed
from rfp.nn.neighbors import SortedEdges, keep_sorted, sort_edges
from rfp.ragged import Cuts, take

# Draws random encodings of a batch: (data, graph) -> one tensor [B, n, ...] for each encoder, cut at its nodes.
DrawBatch = Callable[[Any, Graph], list[Tensor]]

# Random encodings drawn at once for the steps to come, in bytes. On a GPU enough to spread the cost of a call thin; on
# a CPU what stays in cache.
DRAWN_AT_ONCE = {"cuda": 1 << 30, "cpu": 1 << 23}
# Bytes of random encodings that are kept from one evaluation to the next.
KEPT_DRAWN = 1 << 29
# Batches gathered at once.
GATHERED_AT_ONCE = 128
# Separates the order of the graphs from everything else that is drawn from the seed.
_ORDER_STREAM = signed(0xA24BAED4963EE407)


@dataclass(frozen=True)
class Batch:
    """Some graphs side by side with their labels, all of it on the device.

    Args:
        data: ``x``, ``edge_attr`` and stored encodings, as attributes.
        graph: The graphs.
        label: ``y`` of the graphs or nodes.
        counted: ``[n]`` bool, the nodes that belong to the part; ``None`` if every row does.
        drawn: Random encodings drawn beforehand, ``[B, n, ...]`` each.
        drawn_as: As which argument ``RFPModel.forward`` takes them: ``"drawn"``, or ``"grams"``.
    """

    data: Any
    graph: Graph
    label: Tensor
    counted: Tensor | None = None
    drawn: list[Tensor] | None = None
    drawn_as: str = "drawn"


class PartBatches(Protocol):
    """The batches of one part of a task, to be gone through again and again."""

    epoch: int

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...


class Batches:
    """The batches of one part of a task, an iterable that may be gone through again and again.

    The graphs of many steps are gathered by one indexing operation for each attribute, and their random encodings are
    drawn by one call; a step then costs no more than a few views. Every graph is drawn anew each time it comes.

    Args:
        loaded: The task, on the device.
        part: ``"train"``, ``"val"`` or ``"test"``.
        split: Number of the split.
        batch_size: Graphs in a batch.
        seed: Shuffle by it (and by :attr:`epoch`); ``None`` keeps the order of the data and the batches themselves.
        share: (rank, number of processes): process r of p gets graphs r, r + p, r + 2p, … of each batch.
        draw: Draws the random encodings; ``None`` leaves that to the model.
        drawn_as: See :class:`Batch`.
        draw_once: Whether what is drawn for batches that are kept stays with them, as that of an evaluation may: it is
            the same at every call. More than :data:`KEPT_DRAWN` bytes are drawn each time nevertheless.
        bytes_per_node: Size of what ``draw`` returns.
        draw_signs: Changes the signs of stored eigenvectors, as ``RFPModel.draw_signs`` does; ``None`` leaves that to
            the model.
        sort: Whether the layers will ask for sorted edges (:mod:`rfp.nn.neighbors`).
    """

    def __init__(
        self,
        loaded: LoadedTask,
        part: str,
        split: int,
        *,
        batch_size: int,
        seed: int | None = None,
        share: tuple[int, int] = (0, 1),
        draw: DrawBatch | None = None,
        drawn_as: str = "drawn",
        draw_once: bool = False,
        bytes_per_node: int = 0,
        draw_signs: Callable[[Any, Graph], None] | None = None,
        sort: bool = False,
    ) -> None:
        self.epoch = 0
        self.batch_size, self.seed, self.share = batch_size, seed, share
        self._draw, self._bytes_per_node, self._sort = draw, bytes_per_node, sort
        self._draw_signs, self._drawn_as = draw_signs, drawn_as
        rows = loaded.rows(part, split).cpu()
        level = loaded.task.level
        self.graphs: GraphCollection = loaded.graphs
        self._y, self._row_ptr = loaded.y, loaded.row_ptr
        self._counted = loaded.masks[part][:, split] if level.shares_graphs else None
        self.members = level.graphs_of(rows, self.graphs.ptr.cpu())  # numbers of the graphs of this part
        self._nodes, self._edges, self._rows = (
            ptr.diff().cpu() for ptr in (self.graphs.ptr, self.graphs.edge_ptr, self._row_ptr)
        )
        self._draw_once = draw_once and int(self.sizes()[0].sum()) * bytes_per_node <= KEPT_DRAWN
        # One graph, or an order that never changes: made once, and what the graph remembers stays with it.
        self._kept: list[Batch] | None = None
        self._keep = seed is None or len(self.members) == 1

    def __len__(self) -> int:
        return -(-len(self.members) // self.batch_size)

    def sizes(self) -> tuple[Tensor, Tensor]:
        """Nodes and edges of each graph of this part, on the host."""
        return self._nodes[self.members], self._edges[self.members]

    def order(self) -> Tensor:
        """Numbers of the graphs in the order of this epoch, a pure function of the seed and the epoch."""
        if self.seed is None:
            return self.members
        generator = torch.Generator().manual_seed(training_seed(self.seed + _ORDER_STREAM, self.epoch))
        return self.members[torch.randperm(len(self.members), generator=generator)]

    def __iter__(self) -> Iterator[Batch]:
        if self._keep:
            if self._kept is None:
                kept = self._gathered(self.order())
                self._kept = [self._with_draw(batch) for batch in kept] if self._draw_once else list(kept)
            for batch in self._kept:
                yield batch if self._draw_once else self._with_draw(batch)
            return
        yield from self._gathered(self.order())

    def _gathered(self, order: Tensor) -> Iterator[Batch]:
        rank, world = self.share
        batches = list(torch.split(order, self.batch_size))
        if world > 1:
            # As many graphs for each process in the last batch too: it borrows from the first.
            missing = -len(batches[-1]) % world
            batches[-1] = torch.cat([batches[-1], order[:missing]])
            batches = [batch[rank::world] for batch in batches]
        nodes = [int(self._nodes[batch].sum()) for batch in batches]
        limit = DRAWN_AT_ONCE.get(self.graphs.device.type, DRAWN_AT_ONCE["cpu"])
        several: list[int] = []
        for number in range(len(batches)):
            several.append(number)
            rest = number + 1 == len(batches)
            size = sum(nodes[i] for i in several) + (0 if rest else nodes[number + 1])
            if rest or len(several) == GATHERED_AT_ONCE or size * self._bytes_per_node > limit:
                yield from self._cut([batches[i] for i in several], [nodes[i] for i in several])
                several = []

    def _cut(self, batches: list[Tensor], nodes: list[int]) -> Iterator[Batch]:
        """Gather several batches at once and cut them out."""
        chosen = torch.cat(batches)
        whole = self.graphs.take(chosen)
        device = self.graphs.device
        drawn = None
        if not self._keep and (self._draw is not None or self._draw_signs is not None):
            weight = getattr(whole, "edge_weight", None)
            graphs = Graph.unchecked(whole.edge_index, whole.num_nodes, weight, whole.ptr)
            drawn = None if self._draw is None else self._draw(whole, graphs)
            if self._draw_signs is not None:
                self._draw_signs(whole, graphs)
        node = Cuts(nodes, device)
        edge = Cuts([int(self._edges[batch].sum()) for batch in batches], device)
        graph_of = Cuts([len(batch) for batch in batches], device)
        row = Cuts([int(self._rows[batch].sum()) for batch in batches], device)
        rows = take(self._row_ptr, chosen.to(device, non_blocking=True), row.bounds[-1]).rows
        label, counted = self._y[rows], None if self._counted is None else self._counted[rows]
        edge_index = whole.edge_index - edge.spread(node.starts)
        batch_of_node = whole.batch - node.spread(graph_of.starts)
        offsets = graph_of.cut_offsets(whole.ptr, node.starts)
        orders = self._orders(whole, node, edge)
        for i in range(len(batches)):
            n, e = node.of(i), edge.of(i)
            data = SimpleNamespace(x=None, edge_attr=None, signs_drawn=getattr(whole, "signs_drawn", False))
            vars(data).update({name: whole[name][n] for name in self.graphs.nodes})
            vars(data).update({name: whole[name][e] for name in self.graphs.edges})
            weight = getattr(data, "edge_weight", None)
            largest = int(self._nodes[batches[i]].max())
            ptr = offsets[graph_of.offsets_of(i)]
            graph = Graph.unchecked(
                edge_index[:, e], nodes[i], weight, ptr, max_size=largest, known_batch=batch_of_node[n]
            )
            if orders is not None:
                by_target, target_ptr, by_source, source_ptr = orders
                p = node.offsets_of(i)
                keep_sorted(graph, SortedEdges(by_target[e], target_ptr[p], by_source[e], source_ptr[p]))
            yield Batch(
                data,
                graph,
                label[row.of(i)],
                None if counted is None else counted[row.of(i)],
                None if drawn is None else [one[:, n] for one in drawn],
                self._drawn_as,
            )

    def _orders(self, whole: Any, node: Cuts, edge: Cuts) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """The order of the edges that the kernels of GIN layers read, sorted for all batches at once."""
        if not self._sort:
            return None
        edges = sort_edges(whole.edge_index, whole.num_nodes)
        first = edge.spread(edge.starts)  # the edges of a batch stay together
        return (
            edges.by_target - first,
            node.cut_offsets(edges.target_ptr, edge.starts),
            edges.by_source - first,
            node.cut_offsets(edges.source_ptr, edge.starts),
        )

    def _with_draw(self, batch: Batch) -> Batch:
        data, drawn = batch.data, None
        if self._draw_signs is not None:
            data = copy(data)
            self._draw_signs(data, batch.graph)
        if self._draw is not None:
            drawn = self._draw(data, batch.graph)
        return Batch(data, batch.graph, batch.label, batch.counted, drawn, self._drawn_as)
