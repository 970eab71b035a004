"""What is done to a data set on request after it was loaded: directions, self-loops, scale of the features."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.errors import ArgumentError
from rfp.ragged import offsets


def symmetrize(graphs: GraphCollection) -> GraphCollection:
    r"""Both directions of every edge; graphs that have them already are returned as they are.

    As in :meth:`rfp.graph.Graph.to_undirected`: duplicates add up, then :math:`A_{ij}` becomes the larger in magnitude
    of :math:`A_{ij}` and :math:`A_{ji}` (the positive one of two opposite values). Duplicates of unweighted edges
    become weights. Edge features are those of the first edge in that direction or, if there is none, in the other.
    Self-loops stay. Costs :math:`O(m \log m)`.
    """
    edge_index, n, m = graphs.edge_index, graphs.num_nodes, graphs.num_edges
    ahead, back = edge_index[0] * n + edge_index[1], edge_index[1] * n + edge_index[0]
    keys, number = torch.unique(torch.cat([ahead, back]), return_inverse=True)
    forward, reverse = number[:m], number[m:]
    given = graphs.edge_weight
    weight = torch.ones(m, dtype=torch.double, device=graphs.device) if given is None else given.double()
    one = weight.new_zeros(len(keys)).index_add_(0, forward, weight)
    other = weight.new_zeros(len(keys)).index_add_(0, reverse, weight)
    present = torch.zeros(len(keys), dtype=torch.bool, device=graphs.device)
    present[forward] = True
    if bool(present.all()) and torch.equal(one, other):
        return graphs

    merged = torch.where((one.abs() > other.abs()) | ((one.abs() == other.abs()) & (one > other)), one, other)
    first = _first_edge(forward, len(keys), m)
    first = torch.where(first < m, first, _first_edge(reverse, len(keys), m))
    edges = {name: value[first] for name, value in graphs.edges.items() if name != "edge_weight"}
    if given is not None or bool((merged != 1).any()):
        edges["edge_weight"] = merged.to(torch.float32 if given is None else given.dtype)
    source = keys // n
    return replace(
        graphs,
        edge_index=torch.stack([source, keys % n]),
        edge_ptr=torch.searchsorted(source, graphs.ptr),
        edges=edges,
    )


def _first_edge(number: Tensor, count: int, num_edges: int) -> Tensor:
    """The first edge with each number, ``num_edges`` where there is none."""
    rows = torch.arange(num_edges, device=number.device)
    empty = torch.full((count,), num_edges, device=number.device)
    return empty.scatter_reduce_(0, number, rows, "amin")


def remove_self_loops(graphs: GraphCollection) -> GraphCollection:
    """The same graphs without edges from a node to itself."""
    keep = graphs.edge_index[0] != graphs.edge_index[1]
    return replace(
        graphs,
        edge_index=graphs.edge_index[:, keep],
        edge_ptr=offsets(keep)[graphs.edge_ptr],
        edges={name: value[keep] for name, value in graphs.edges.items()},
    )


def normalize_features(graphs: GraphCollection) -> GraphCollection:
    r"""Rows of ``x`` that sum to one, as PyG's ``NormalizeFeatures``: :math:`x_i / \max(1, \sum_j x_{ij})` of
    :math:`x - \min x`."""
    x = graphs.x
    if x is None or not x.is_floating_point():
        got = "no features" if x is None else f"features of type {x.dtype}"
        raise ArgumentError(f"normalize_features needs numbers as node features, got {got}; leave it out")
    shifted = x - x.min()
    return graphs.with_nodes(x=shifted / shifted.sum(dim=-1, keepdim=True).clamp(min=1.0))


def drop_features(graphs: GraphCollection) -> GraphCollection:
    """The same without ``x``, which is an error where there is none: whoever asks expects another result."""
    if graphs.x is None:
        raise ArgumentError("drop_features: there are no node features here; leave it out")
    return replace(graphs, nodes={name: value for name, value in graphs.nodes.items() if name != "x"})
