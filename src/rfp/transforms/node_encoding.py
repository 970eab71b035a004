"""What every transform of this library does around its encoding: read the graphs, call once, put the result back."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.transforms import BaseTransform

from rfp.conversion import as_graph
from rfp.errors import ArgumentError, GraphError
from rfp.graph import Graph
from rfp.ragged import offsets, owners


class NodeEncodingTransform(BaseTransform):  # type: ignore[misc]  # PyG ships no type information here
    """A transform that adds one node-first tensor to ``Data``, to a ``Batch``, or to a list of graphs in one call.

    A subclass is a frozen dataclass of arguments with an ``attr_name`` and writes :meth:`encode_nodes` and
    :meth:`width`; it holds no mathematics. ``needs_x`` says whether the encoding reads the node features.
    """

    attr_name: str | None
    needs_x: ClassVar[bool] = False

    @abstractmethod
    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        """The encoding of a batch of graphs, ``[num_nodes, ...]``."""

    @abstractmethod
    def width(self, in_channels: int) -> int:
        """Length of a node's encoding (in one trajectory), given the number of node features."""

    def arguments(self) -> str:
        """All arguments as ``name=value``, for a ``repr`` that tells two encodings apart; here those of a dataclass."""
        shown = [f.name for f in fields(self) if f.name != "attr_name"]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)

    def forward(self, data: Any) -> Any:
        """Encode a ``Data``, a ``Batch`` or a list of ``Data``. A list costs one encoding call, not one for each graph.

        The graphs of a list hold views of one tensor, as those of an ``InMemoryDataset`` do. If one graph is to outlive
        the others, clone its attribute. For such a data set see :meth:`apply_to`.
        """
        if isinstance(data, list | tuple):
            return self._encode_list(data)
        if isinstance(data, InMemoryDataset):
            return self.apply_to(data)
        values = self.encode_nodes(as_graph(data), self._features(data))
        name = attach(data, values, self.attr_name)
        tell_slices(data, name)
        return data

    def apply_to(self, dataset: Any) -> Any:
        """Encode a whole in-memory data set in one batched call.

        Args:
            dataset: An ``InMemoryDataset`` (or a subset such as ``dataset[:100]``; all its graphs are encoded).

        Returns:
            A shallow copy of the data set that holds the encoding; nothing is written to disk. For a stored result pass
            the transform as ``pre_transform``, or save the copy's graphs.
        """
        if not isinstance(dataset, InMemoryDataset):
            raise ArgumentError(
                f"apply_to expects an InMemoryDataset, got {type(dataset).__name__}; "
                "call the transform itself on a list of graphs"
            )
        out = copy.copy(dataset)
        out._data = copy.copy(dataset._data)
        out._data_list = None  # PyG's cache of separated graphs, without the encoding
        if dataset.slices is None:
            out._data = self.forward(out._data)
            return out
        offsets = _node_offsets(dataset)
        graph = _graph_of_collated(dataset._data, dataset.slices, offsets)
        name = attach(out._data, self.encode_nodes(graph, self._features(dataset._data)), self.attr_name)
        out.slices = {**dataset.slices, name: offsets}
        return out

    def _encode_list(self, graphs: Sequence[Any]) -> list[Any]:
        if not graphs:
            return []
        sizes = [int(data.num_nodes) for data in graphs]
        x = self._features_of_list(graphs) if self.needs_x else None
        values = self.encode_nodes(_graph_of_list(graphs, sizes), x)
        out = [copy.copy(data) for data in graphs]
        for data, rows in zip(out, torch.split(values, sizes), strict=True):
            tell_slices(data, attach(data, rows, self.attr_name))
        return out

    def _features_of_list(self, graphs: Sequence[Any]) -> Tensor:
        each: list[Any] = [self._features(data) for data in graphs]
        widths = sorted({x.size(1) for x in each})
        if len(widths) > 1:
            raise ArgumentError(f"x has {widths[0]} columns in one graph of the list and {widths[-1]} in another")
        return torch.cat(each)

    def _features(self, data: Any) -> Tensor | None:
        x = data.x if self.needs_x else None
        if self.needs_x and x is None:
            raise ArgumentError(f"{type(self).__name__} propagates node features, but the graph has no x")
        if x is not None and x.is_floating_point() and not bool(x.isfinite().all()):
            where = int((~x.isfinite()).nonzero()[0, 0])
            raise ArgumentError(f"{type(self).__name__} propagates x, which is not finite at node {where}")
        return x[:, None] if x is not None and x.dim() == 1 else x

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.arguments()}, attr_name={self.attr_name!r})"


@dataclass(frozen=True)
class StoredEncodings(BaseTransform):  # type: ignore[misc]  # as above
    """Several transforms one after the other, for all that each of them takes.

    Args:
        transforms: Which.
    """

    transforms: tuple[NodeEncodingTransform, ...]

    def forward(self, data: Any) -> Any:
        """Encode a ``Data``, a ``Batch``, a list of ``Data``, or an ``InMemoryDataset``."""
        for transform in self.transforms:
            data = transform(data)
        return data


def attach(data: Any, values: Tensor, attr_name: str | None) -> str:
    """Store ``values`` ``[N, ...]`` under ``attr_name``, or beside ``x`` for ``None``; returns the attribute's name.

    Beside integer features the result is floating-point: rounding an encoding to integers would destroy it.

    Raises:
        ArgumentError: Integer features that the type of the encoding cannot hold.
    """
    if attr_name is not None:
        data[attr_name] = values
        return attr_name
    flat = values.flatten(1)
    x = getattr(data, "x", None)
    if x is None:
        data.x = flat
        return "x"
    x = x[:, None] if x.dim() == 1 else x
    dtype = x.dtype if x.is_floating_point() else flat.dtype
    if not x.is_floating_point() and not torch.equal(x.to(dtype).to(x.dtype), x):
        raise ArgumentError(f"x holds integers that {dtype} cannot; store the encoding under an attr_name of its own")
    data.x = torch.cat([x.to(dtype), flat.to(x.device, dtype)], dim=-1)
    return "x"


def tell_slices(data: Any, name: str, node_type: str | None = None) -> None:
    """Let a ``Batch`` know where the rows of a new attribute of nodes begin, so that ``batch[i]`` has it too.

    Args:
        data: Anything; nothing is done for what is no batch of a loader.
        name: Of the attribute.
        node_type: Whose nodes, of a ``HeteroData``.
    """
    if not isinstance(data, Batch) or not hasattr(data, "_slice_dict"):
        return
    ptr = (data if node_type is None else data[node_type]).ptr.cpu()
    for known, new in (("_slice_dict", ptr), ("_inc_dict", torch.zeros(len(ptr) - 1, dtype=torch.long))):
        all_of_them = getattr(data, known)
        own = {name: new} if node_type is None else {node_type: {**all_of_them.get(node_type, {}), name: new}}
        setattr(data, known, {**all_of_them, **own})


def _graph_of_list(graphs: Sequence[Any], sizes: list[int]) -> Graph:
    """One batch from many ``Data`` with a handful of tensor operations in all, checked once."""
    if any(getattr(data, "edge_index", None) is None or hasattr(data, "ptr") for data in graphs):
        return as_graph(list(graphs))  # other forms, and batches in a list: the general reader
    ptr = offsets(torch.tensor(sizes, dtype=torch.long))
    counts = torch.tensor([data.edge_index.size(1) for data in graphs])
    edge_index = torch.cat([data.edge_index for data in graphs], dim=1)
    weights = [getattr(data, "edge_weight", None) for data in graphs]
    weight = None
    if any(w is not None for w in weights):
        ones = [torch.ones(data.edge_index.size(1), device=edge_index.device) for data in graphs]
        weight = torch.cat([o if w is None else w.view(-1) for o, w in zip(ones, weights, strict=True)])
    return _shifted(edge_index, weight, counts, ptr)


def _graph_of_collated(data: Any, slices: dict[str, Any], ptr: Tensor) -> Graph:
    """One batch from the storage of an in-memory data set, where every graph counts its nodes from 0."""
    if "edge_index" not in slices:
        raise GraphError(
            "the graphs of the data set have no edge_index; those of a HeteroData: AddHeteroRandomFeaturePropagationPE"
        )
    counts = torch.as_tensor(slices["edge_index"]).diff()
    weight = data.edge_weight if "edge_weight" in slices else None
    return _shifted(data.edge_index, None if weight is None else weight.view(-1), counts, ptr)


def _shifted(edge_index: Tensor, weight: Tensor | None, counts: Tensor, ptr: Tensor) -> Graph:
    """Graphs numbered from 0 each, with ``counts[g]`` edges, moved to their places ``ptr[g]``."""
    ptr, counts = ptr.to(edge_index.device), counts.to(edge_index.device)
    graph = owners(counts, edge_index.size(1))  # of each edge
    sizes = ptr.diff()
    # Checked before the shift: an index too large for its own graph may be a node of the next.
    outside = (edge_index < 0) | (edge_index >= sizes[graph])
    if bool(outside.any()):
        edge = int(outside.any(0).nonzero()[0])
        raise GraphError(
            f"graph {int(graph[edge])} of the list has {int(sizes[graph[edge]])} nodes but its edge_index "
            f"holds the edge {edge_index[:, edge].tolist()}"
        )
    return Graph(edge_index.long() + ptr[graph], int(ptr[-1]), weight, ptr)


def _node_offsets(dataset: Any) -> Tensor:
    for name in ("x", "pos"):
        if name in dataset.slices and dataset._data[name] is not None:
            return torch.as_tensor(dataset.slices[name]).cpu()
    sizes = dataset._data.__dict__["_store"].get("_num_nodes")
    if sizes is None:
        full: list[Data] = [dataset.get(i) for i in range(len(dataset.slices["edge_index"]) - 1)]
        sizes = [int(data.num_nodes) for data in full]
    return offsets(torch.tensor(sizes, dtype=torch.long))
