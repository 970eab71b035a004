"""What models are given as a graph: PyG's objects and tensors, checked as far as no GPU has to be waited for."""

from __future__ import annotations

from itertools import accumulate
from operator import sub
from typing import Any, cast

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph, as_index, check_tensors
from rfp.node_offsets import check_batch, check_offsets_form, offsets_of_batch

# Attributes of a PyG batch with one row for each node.
_NODE_ATTRIBUTES = ("x", "z", "pos")


def model_graph(
    graph: Any,
    *,
    edge_weight: Tensor | None = None,
    batch: Tensor | None = None,
    ptr: Tensor | None = None,
    num_nodes: int | None = None,
) -> Graph:
    """A :class:`~rfp.graph.Graph` from what models pass around.

    Shapes and types are checked; values on a CPU alone, since a GPU would have to be waited for at every step.
    """
    if isinstance(graph, Graph):
        return graph
    loaded = None  # the batch that ptr is of
    if isinstance(graph, Tensor):
        edge_index = graph
        if num_nodes is None:
            if batch is None and ptr is None:
                raise ArgumentError(
                    "num_nodes (or ptr, or batch) is needed with edge_index: isolated nodes do not appear in it"
                )
            num_nodes = int(cast(Tensor, ptr)[-1]) if batch is None else batch.size(0)
    elif (edge_index := attribute_of(graph, "edge_index")) is not None:
        num_nodes = int(graph.num_nodes)
        loaded = graph if ptr is None else None
        ptr = attribute_of(graph, "ptr") if ptr is None else ptr
        batch = attribute_of(graph, "batch") if batch is None else batch
        edge_weight = attribute_of(graph, "edge_weight") if edge_weight is None else edge_weight
    elif attribute_of(graph, "adj_t") is not None:
        read = as_graph(graph)
        edge_index, num_nodes = read.edge_index, read.num_nodes
        ptr = read.ptr if ptr is None and batch is None else ptr
        edge_weight = read.edge_weight if edge_weight is None else edge_weight
    else:
        raise ArgumentError(f"expected a Data, a Batch, an rfp.Graph or edge_index, got {type(graph).__name__}")
    check_tensors(edge_index=edge_index, edge_weight=edge_weight)
    if not edge_index.is_floating_point() and edge_index.dtype != torch.bool:
        edge_index = as_index(edge_index)
    on_host = edge_index.device.type == "cpu"
    if ptr is not None:
        check_offsets_form(ptr)
    if batch is not None:
        check_batch(batch, num_nodes, values=on_host)
        if ptr is None or on_host:
            ptr = offsets_of_batch(batch, ptr, given=loaded is None)
        elif loaded is not None and _is_of_a_whole(loaded, ptr, num_nodes):
            ptr = torch.searchsorted(batch, torch.arange(ptr.numel(), device=batch.device))
    if edge_weight is not None:
        edge_weight = edge_weight.detach().view(-1)
    # A loader has numbered the nodes already; to do it again would be a few more launches.
    numbered = batch is not None and batch.device == edge_index.device
    read = Graph.unchecked(
        edge_index,
        num_nodes,
        edge_weight,
        ptr,
        known_batch=batch if numbered else None,
        known_sizes=None if on_host else sizes_on_host(loaded, ptr, num_nodes),
    )
    read.check_form()
    if on_host:
        read.check_values()
    return read


def sizes_on_host(data: Any, ptr: Tensor | None, num_nodes: int) -> tuple[int, int] | None:
    """Nodes of the smallest and of the largest graph of a PyG ``Batch``, from what its loader keeps on the host.

    A loader has put the graphs together there, and the batch still has their sizes when its tensors are on a GPU: so
    nobody waits for one to tell. ``None`` for anything that is not just as a loader made it.
    """
    if ptr is None or ptr.size(0) < 2:
        return None
    bounds = _bounds_on_host(data, ptr)
    if len(bounds) != ptr.size(0) or bounds[-1] != num_nodes:
        return None
    sizes = list(map(sub, bounds[1:], bounds))
    return min(sizes), max(sizes)


def _bounds_on_host(data: Any, ptr: Tensor) -> list[int]:
    """The offsets of the graphs of a batch as it was loaded; empty where the host does not know them."""
    if ptr.device.type == "cpu":
        return ptr.tolist()
    slices = getattr(data, "_slice_dict", None) or {}
    bounds: list[int] = next((slices[name].tolist() for name in _NODE_ATTRIBUTES if _is_on_host(slices.get(name))), [])
    counted = getattr(data, "_num_nodes", None)
    if not bounds and isinstance(counted, list) and all(isinstance(count, int) for count in counted):
        bounds = list(accumulate(counted, initial=0))
    return bounds


def _is_of_a_whole(data: Any, ptr: Tensor, num_nodes: int) -> bool:
    """Whether a batch on a GPU has fewer nodes by now than it was loaded with, as by PyG's ``subgraph``."""
    bounds = _bounds_on_host(data, ptr)
    return bool(bounds) and bounds[-1] != num_nodes


def attribute_of(graph: Any, name: str) -> Any:
    """An attribute of a PyG object or another; ``None`` if it has none. That of a ``Data`` from where it keeps them."""
    stores: list[Any] = getattr(graph, "stores", [])
    return stores[0].get(name) if len(stores) == 1 else getattr(graph, name, None)


def _is_on_host(slices: Any) -> bool:
    return isinstance(slices, Tensor) and slices.device.type == "cpu"
