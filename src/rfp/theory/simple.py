"""Counting patterns needs a simple graph: what is not one is refused with the reason, or made one on request."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from rfp.conversion import as_graph
from rfp.errors import GraphError
from rfp.graph import Graph

_REMEDY = (
    "count on rfp.theory.simplify(graph) instead (--simplify), which drops weights, directions, loops and duplicates"
)


def require_simple(graph: Any, *, loops: bool = False) -> Graph:
    """Read a graph and refuse it unless it is undirected, unweighted, without duplicate edges (and without self-loops).

    Args:
        graph: Anything :func:`rfp.as_graph` reads.
        loops: Accept self-loops, which walks may use.

    Raises:
        GraphError: What is wrong, where, and what to do. O(m).
    """
    read = as_graph(graph)
    if read.edge_weight is not None and bool((read.edge_weight != 1).any()):
        where = int((read.edge_weight != 1).nonzero()[0])
        weight = read.edge_weight[where].item()
        raise GraphError(f"a counter needs an unweighted graph, got weight {weight:g} at edge {where}; {_REMEDY}")
    matrix = read.pattern.to_scipy()  # A with all diagonal entries; cached, and the operator is built from it too
    if matrix.nnz and matrix.data.max() > 1:
        where = int(matrix.data.argmax())
        row = int(np.searchsorted(matrix.indptr, where, side="right")) - 1
        raise GraphError(
            f"a counter needs each edge once in each direction, got the edge {row} -> {matrix.indices[where]} "
            f"{matrix.data[where]:g} times; {_REMEDY}"
        )
    if not loops and matrix.diagonal().any():
        node = int(matrix.diagonal().argmax())
        raise GraphError(f"a counter needs a graph without self-loops, got one at node {node}; {_REMEDY}")
    transposed = matrix.T.tocsr()
    if not (np.array_equal(matrix.indptr, transposed.indptr) and np.array_equal(matrix.indices, transposed.indices)):
        raise GraphError(
            "a counter needs an undirected graph, every edge in both directions, got edges without their reverse; "
            f"use graph.to_undirected(), or {_REMEDY}"
        )
    return read


def simplify(graph: Any) -> Graph:
    """The simple graph under a graph: an edge where there is one in either direction, without loops and weights.

    Example:
        >>> simplify(Graph(torch.tensor([[0, 0, 1, 2], [1, 1, 2, 2]]), num_nodes=3)).edge_index
        tensor([[0, 1, 1, 2],
                [1, 0, 2, 1]])
    """
    read = as_graph(graph)
    source, target = read.edge_index.cpu().numpy()
    between = source != target
    ones = np.ones(int(between.sum()), dtype=np.int8)
    half = (
        sp.coo_array((ones, (source[between], target[between])), shape=(read.num_nodes, read.num_nodes))
        .astype(bool)
        .tocsr()
    )
    both = (half + half.T).tocoo()
    order = np.lexsort((both.col, both.row))
    edge_index = np.stack([both.row[order], both.col[order]]).astype(np.int64)
    return Graph(torch.from_numpy(edge_index).to(read.device), read.num_nodes, ptr=read.ptr)


def integer_matrix(graph: Graph) -> sp.csr_array:
    """The adjacency matrix in int32, without the stored zeros of the diagonal, of a graph known to be simple."""
    matrix = graph.pattern.to_scipy()
    matrix = sp.csr_array((matrix.data.astype(np.int32), matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
    matrix.eliminate_zeros()
    return matrix
