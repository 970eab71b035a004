"""Many graphs in a few tensors that live on one device and are batched there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from rfp.errors import GraphError
from rfp.graph import Graph
from rfp.ragged import join, offsets, take


@dataclass(frozen=True)
class GraphCollection:
    """Graphs side by side; those of a batch are gathered by index arithmetic, without a loop over graphs.

    Args:
        edge_index: ``[2, num_edges]``, node numbers of the whole collection, the edges of each graph together.
        ptr: ``[num_graphs + 1]``: graph g has the nodes ``ptr[g]`` to ``ptr[g + 1] - 1``.
        edge_ptr: ``[num_graphs + 1]``: the same for edges.
        nodes: Attributes with a row for each node, such as ``x``.
        edges: Attributes with a row for each edge, such as ``edge_attr`` and ``edge_weight``.

    Example:
        >>> triangle = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]))
        >>> pair = Data(x=torch.zeros(2, 1), edge_index=torch.tensor([[0], [1]]))
        >>> graphs = GraphCollection.from_data_list([triangle, pair])
        >>> batch = graphs.take(torch.tensor([1, 0, 1]))
        >>> batch.edge_index.tolist(), batch.ptr.tolist()
        ([[0, 2, 3, 4, 5], [1, 3, 4, 2, 6]], [0, 2, 5, 7])
    """

    edge_index: Tensor
    ptr: Tensor
    edge_ptr: Tensor
    nodes: Mapping[str, Tensor] = field(default_factory=dict)
    edges: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.ptr) != len(self.edge_ptr) or len(self.ptr) < 2:
            raise GraphError(
                f"ptr and edge_ptr must both have num_graphs + 1 entries, got {len(self.ptr)} and {len(self.edge_ptr)}"
            )
        for kind, attributes, count in (
            ("node", self.nodes, self.num_nodes),
            ("edge", self.edges, self.edge_index.size(1)),
        ):
            for name, value in attributes.items():
                if len(value) != count:
                    raise GraphError(
                        f"{name} must have a row for each of the {count} {kind}s, got shape {list(value.shape)}"
                    )

    @cached_property
    def num_nodes(self) -> int:
        return int(self.ptr[-1])

    @property
    def num_graphs(self) -> int:
        return len(self.ptr) - 1

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def device(self) -> torch.device:
        return self.edge_index.device

    @property
    def x(self) -> Tensor | None:
        """Node features ``[num_nodes, ...]``, if any."""
        return self.nodes.get("x")

    @property
    def edge_attr(self) -> Tensor | None:
        """Edge features ``[num_edges, ...]``, if any."""
        return self.edges.get("edge_attr")

    @property
    def edge_weight(self) -> Tensor | None:
        """``[num_edges]``, or ``None`` for all ones."""
        return self.edges.get("edge_weight")

    @cached_property
    def graph(self) -> Graph:
        """All graphs as one batch in the form of the rest of the library; a single graph has no ``ptr``."""
        ptr = self.ptr if self.num_graphs > 1 else None
        return Graph.unchecked(self.edge_index, self.num_nodes, self.edge_weight, ptr)

    def check(self) -> GraphCollection:
        """This collection; raises if an index is out of range, an edge joins two graphs or a weight is not finite."""
        Graph(self.edge_index, self.num_nodes, self.edge_weight, self.ptr)
        counts = torch.bincount(self.graph.batch[self.edge_index[0]], minlength=self.num_graphs)
        if not torch.equal(counts, self.edge_ptr.diff()):
            graph = int((counts != self.edge_ptr.diff()).nonzero()[0])
            raise GraphError(f"edge_ptr does not agree with edge_index at graph {graph}")
        return self

    def to(self, device: torch.device | str) -> GraphCollection:
        """The same graphs on another device."""
        return GraphCollection(
            self.edge_index.to(device),
            self.ptr.to(device),
            self.edge_ptr.to(device),
            {name: value.to(device) for name, value in self.nodes.items()},
            {name: value.to(device) for name, value in self.edges.items()},
        )

    def with_nodes(self, **attributes: Tensor) -> GraphCollection:
        """The same graphs with further (or other) node attributes, such as an encoding ``[num_nodes, C]``."""
        return replace(self, nodes={**self.nodes, **attributes})

    @cached_property
    def _host_sizes(self) -> tuple[Tensor, Tensor]:
        # On the host, so that the size of a batch is known without waiting for the device.
        return self.ptr.diff().cpu(), self.edge_ptr.diff().cpu()

    def take(self, graphs: Tensor) -> Data:
        """A batch of the graphs with these numbers, in this order, with ``ptr`` and ``batch`` as in PyG.

        Costs :math:`O(n + m)` of the batch in a fixed number of operations; with ``graphs`` on the host nothing waits
        for the device.

        Args:
            graphs: ``[b]`` int64; repetitions are allowed.
        """
        host = graphs.cpu()
        num_nodes, num_edges = (int(sizes[host].sum()) for sizes in self._host_sizes)
        chosen = graphs.to(self.device, non_blocking=True)
        nodes, edges = take(self.ptr, chosen, num_nodes), take(self.edge_ptr, chosen, num_edges)
        return Data(
            edge_index=self.edge_index[:, edges.rows] - nodes.shift[edges.owner],
            num_nodes=num_nodes,
            ptr=nodes.ptr,
            batch=nodes.owner,
            **{name: value[nodes.rows] for name, value in self.nodes.items()},
            **{name: value[edges.rows] for name, value in self.edges.items()},
        )

    def data(self, graph: int) -> Data:
        """One graph as a PyG ``Data`` with node numbers of its own."""
        start, stop = int(self.ptr[graph]), int(self.ptr[graph + 1])
        first, last = int(self.edge_ptr[graph]), int(self.edge_ptr[graph + 1])
        return Data(
            edge_index=self.edge_index[:, first:last] - start,
            num_nodes=stop - start,
            **{name: value[start:stop] for name, value in self.nodes.items()},
            **{name: value[first:last] for name, value in self.edges.items()},
        )

    @classmethod
    def from_sizes(
        cls,
        edge_index: Tensor,
        num_nodes: Tensor,
        num_edges: Tensor,
        nodes: Mapping[str, Tensor] | None = None,
        edges: Mapping[str, Tensor] | None = None,
    ) -> GraphCollection:
        """Graphs whose edges come one graph after the other with node numbers local to each.

        Args:
            edge_index: ``[2, sum(num_edges)]``.
            num_nodes: ``[num_graphs]``.
            num_edges: ``[num_graphs]``.
            nodes: See the class.
            edges: See the class.
        """
        joined, ptr = join(edge_index, num_nodes, num_edges)
        return cls(joined, ptr, offsets(num_edges), nodes or {}, edges or {})

    @classmethod
    def from_data_list(cls, graphs: Sequence[Any]) -> GraphCollection:
        """Join PyG graphs: ``x``, ``edge_attr`` and ``edge_weight`` where they have them (all of them, or none)."""
        for name in ("x", "edge_attr", "edge_weight"):
            have = [getattr(graph, name, None) is not None for graph in graphs]
            if any(have) and not all(have):
                raise GraphError(f"graph {have.index(False)} has no {name} but graph {have.index(True)} has one")
        num_nodes = torch.tensor([int(graph.num_nodes) for graph in graphs])
        num_edges = torch.tensor([graph.edge_index.size(1) for graph in graphs])
        edge_index = torch.cat([graph.edge_index.long() for graph in graphs], dim=1)
        nodes = _joined(graphs, ("x",))
        edges = _joined(graphs, ("edge_attr", "edge_weight"))
        return cls.from_sizes(edge_index, num_nodes, num_edges, nodes, edges)


def _joined(graphs: Sequence[Any], names: tuple[str, ...]) -> dict[str, Tensor]:
    found = {}
    for name in names:
        if getattr(graphs[0], name, None) is None:
            continue
        values = [getattr(graph, name) for graph in graphs]
        shapes = {(value.shape[1:], value.dtype) for value in values}
        if len(shapes) > 1:
            raise GraphError(f"{name} must have the same width and type in every graph, got {sorted(map(str, shapes))}")
        found[name] = torch.cat(values)
    return found
