"""Simple graphs: what passes, what is refused, and what simplifying keeps."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from rfp.conversion import as_graph
from rfp.errors import GraphError
from rfp.graph import Graph
from rfp.theory import simplify
from rfp.theory.simple import integer_matrix, require_simple


def test_every_simple_graph_passes(awkward: nx.Graph) -> None:
    assert require_simple(awkward).num_nodes == awkward.number_of_nodes()
    np.testing.assert_array_equal(integer_matrix(as_graph(awkward)).toarray(), nx.to_numpy_array(awkward))


def test_matrix_holds_no_zeros_and_leaves_the_graph_alone() -> None:
    graph = as_graph(nx.path_graph(4))
    before = graph.pattern.value.clone()
    matrix = integer_matrix(graph)
    assert (matrix.nnz, matrix.dtype) == (6, np.int32)
    assert torch.equal(graph.pattern.value, before)


def test_loops_pass_where_allowed() -> None:
    loop = Graph(torch.tensor([[0, 1, 1], [1, 0, 1]]), 2)
    assert require_simple(loop, loops=True) is loop
    with pytest.raises(GraphError, match="self-loops, got one at node 1"):
        require_simple(loop)


def test_simplify(directed: Graph) -> None:
    simple = simplify(directed)
    assert simple.edge_weight is None
    expected = {(0, 1), (1, 0), (1, 2), (2, 1), (0, 2), (2, 0), (1, 3), (3, 1), (0, 3), (3, 0)}
    assert {tuple(edge) for edge in simple.edge_index.T.tolist()} == expected
    assert (simple.num_edges, simple.num_nodes) == (10, 5)
    assert require_simple(simple) is simple


def test_simplify_keeps_an_edge_of_weight_zero_and_many_duplicates() -> None:
    # 300 copies would wrap around in eight bits.
    edges = torch.tensor([[0] * 300 + [2], [1] * 300 + [1]])
    weight = torch.ones(301)
    weight[300] = 0.0
    assert simplify(Graph(edges, 3, weight)).edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_simplify_keeps_a_batch() -> None:
    batch = as_graph([nx.path_graph(2), nx.empty_graph(3)])
    simple = simplify(batch)
    assert simple.ptr is not None
    assert simple.ptr.tolist() == [0, 2, 5]
