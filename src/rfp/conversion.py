"""From the forms people hold a graph in to :class:`~rfp.graph.Graph`."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
import torch
from torch import Tensor

from rfp.edge_table.options import LoadedGraph
from rfp.errors import GraphError
from rfp.graph import Graph, batch_graphs, from_scipy


def _from_networkx(nx_graph: Any) -> Graph:
    number = {node: i for i, node in enumerate(nx_graph.nodes)}
    edges = [(number[u], number[v], w) for u, v, w in nx_graph.edges(data="weight")]
    weighted = any(w is not None for _, _, w in edges)
    if not nx_graph.is_directed():
        edges += [(v, u, w) for u, v, w in edges if u != v]
    edge_index = torch.tensor([[u for u, _, _ in edges], [v for _, v, _ in edges]], dtype=torch.long)
    values = [1.0 if w is None else float(w) for _, _, w in edges]
    weight = torch.tensor(values, dtype=torch.float64) if weighted else None
    return Graph(edge_index.view(2, -1), len(number), weight)


def as_graph(graph: Any) -> Graph:
    """Read a graph from any of the forms people hold one in.

    Args:
        graph: A :class:`Graph`; a PyG ``Data`` or ``Batch`` (``edge_weight`` is used when present, ``edge_attr``
            never); ``(edge_index, num_nodes)``; a SciPy sparse matrix; a NetworkX graph (nodes in its own order,
            attribute ``weight``); or a list of these, which becomes one batch.

    Example:
        >>> import scipy.sparse as sp
        >>> as_graph(sp.csr_array([[0, 2.0], [2.0, 0]])).edge_weight
        tensor([2., 2.], dtype=torch.float64)
    """
    if isinstance(graph, Graph):
        return graph
    if isinstance(graph, LoadedGraph):
        return graph.graph
    if isinstance(graph, list):
        return batch_graphs([as_graph(g) for g in graph])
    if isinstance(graph, tuple):
        if len(graph) != 2 or not isinstance(graph[0], Tensor):
            raise GraphError("a graph given as a tuple must be (edge_index, num_nodes)")
        return Graph(graph[0], int(graph[1]))
    if sp.issparse(graph):
        return from_scipy(graph)
    if getattr(graph, "edge_index", None) is not None:
        weight = getattr(graph, "edge_weight", None)
        if weight is not None and weight.dim() == 2 and weight.size(1) == 1:
            weight = weight.squeeze(1)
        return Graph(graph.edge_index, int(graph.num_nodes), weight, getattr(graph, "ptr", None))
    if hasattr(graph, "is_directed") and hasattr(graph, "edges"):
        return _from_networkx(graph)
    raise GraphError(
        f"cannot read a graph from {type(graph).__name__}; expected a PyG Data or Batch with edge_index, an rfp.Graph, "
        "(edge_index, num_nodes), a SciPy sparse matrix, a NetworkX graph, or a list of these "
        "(encode the types of a HeteroData one at a time, e.g. data.to_homogeneous())"
    )
