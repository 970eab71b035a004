"""Reading graphs, refusing bad ones, and content keys."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch, Data

from rfp.conversion import as_graph
from rfp.errors import GraphError
from rfp.graph import Graph, batch_graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def dense(graph: Graph) -> np.ndarray:
    out = np.zeros((graph.num_nodes, graph.num_nodes))
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.numpy()
    for (i, j), w in zip(graph.edge_index.T.tolist(), weight, strict=True):
        out[i, j] += w
    return out


def test_every_form_of_a_path_reads_the_same() -> None:
    expected = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    forms = [
        Graph(PATH, 3),
        (PATH, 3),
        Data(edge_index=PATH, num_nodes=3),
        sp.csr_array(expected),
        sp.coo_matrix(expected),
        nx.path_graph(3),
        nx.path_graph(["a", "b", "c"]),
    ]
    for form in forms:
        np.testing.assert_array_equal(dense(as_graph(form)), expected)


def test_weights_direction_duplicates_and_loops(directed: Graph) -> None:
    expected = np.zeros((5, 5))
    expected[0, 1], expected[1, 2], expected[2, 0], expected[2, 2], expected[3, 1], expected[0, 3] = (
        3,
        0.5,
        3,
        4,
        -1,
        2.5,
    )
    np.testing.assert_array_equal(directed.to_scipy().toarray(), expected)
    np.testing.assert_array_equal(dense(as_graph(sp.csr_array(expected))), expected)
    np.testing.assert_array_equal(dense(as_graph(nx.from_numpy_array(expected, create_using=nx.DiGraph))), expected)
    data = Data(edge_index=directed.edge_index, edge_weight=directed.edge_weight[:, None], num_nodes=5)
    np.testing.assert_array_equal(dense(as_graph(data)), expected)


def test_networkx_undirected_self_loop_is_listed_once() -> None:
    graph = nx.Graph([(0, 1), (1, 1)])
    np.testing.assert_array_equal(dense(as_graph(graph)), [[0, 1], [1, 1]])


def test_undirected_takes_the_larger_magnitude(directed: Graph) -> None:
    a = dense(directed)
    expected = np.where(np.abs(a.T) > np.abs(a), a.T, a)
    undirected = directed.to_undirected()
    np.testing.assert_array_equal(dense(undirected), expected)
    assert undirected.is_undirected()
    assert not directed.is_undirected()
    np.testing.assert_array_equal(dense(undirected.to_undirected()), expected)


def test_undirected_counts_an_edge_listed_once_or_twice_alike() -> None:
    once, twice = Graph(PATH[:, [0, 2]], 3), Graph(PATH, 3)
    np.testing.assert_array_equal(dense(once.to_undirected()), dense(twice))
    np.testing.assert_array_equal(dense(twice.to_undirected()), dense(twice))
    assert once.to_undirected().edge_weight is None


def test_undirected_keeps_duplicates_as_weights() -> None:
    twice = Graph(torch.tensor([[0, 0, 1], [1, 1, 2]]), 3)
    np.testing.assert_array_equal(dense(twice.to_undirected()), [[0, 2, 0], [2, 0, 1], [0, 1, 0]])


def test_undirected_of_opposite_weights_is_symmetric() -> None:
    opposite = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, torch.tensor([-2.0, 2.0, -3.0, 1.0]))
    np.testing.assert_array_equal(dense(opposite.to_undirected()), [[0, 2, 0], [2, 0, -3], [0, -3, 0]])


def test_undirected_with_mostly_isolated_nodes_is_the_same(directed: Graph) -> None:
    few = directed.to_undirected()
    edges = directed.edge_index * 1000  # nodes 0, 1000, ..., the same graph among isolated ones
    many = Graph(edges, 5000, directed.edge_weight).to_undirected()
    assert many.num_nodes == 5000
    assert torch.equal(many.edge_index, few.edge_index * 1000)
    assert torch.equal(many.edge_weight, few.edge_weight)
    huge = Graph(edges, 2 * 10**12, directed.edge_weight).to_undirected()
    assert torch.equal(huge.edge_index, many.edge_index)


def test_a_batch_keeps_graphs_apart() -> None:
    data = [Data(edge_index=PATH, num_nodes=3), Data(edge_index=PATH[:, :2], num_nodes=2)]
    ours, theirs = as_graph(data), as_graph(Batch.from_data_list(data))
    assert ours.offsets.tolist() == theirs.offsets.tolist() == [0, 3, 5]
    assert torch.equal(ours.edge_index, theirs.edge_index)
    assert ours.batch.tolist() == [0, 0, 0, 1, 1]
    assert ours.largest == 3


def test_another_device_keeps_what_is_known_of_the_sizes() -> None:
    padded = Graph.unchecked(PATH, 5, ptr=torch.tensor([0, 3]), max_size=4, padded=True).to("meta")
    assert (padded.num_nodes, padded.max_size, padded.padded) == (5, 4, True)
    plain = Graph(PATH, 3).to("meta")
    assert (plain.max_size, plain.padded) == (None, False)


def test_batch_of_weighted_and_unweighted() -> None:
    mixed = batch_graphs([Graph(PATH, 3), Graph(PATH[:, :2], 2, torch.tensor([2.0, 3.0]))])
    assert mixed.edge_weight.tolist() == [1, 1, 1, 1, 2, 3]


def test_keys_depend_on_content_alone() -> None:
    path, ring = Graph(PATH, 3), as_graph(nx.cycle_graph(7))
    alone = [int(path.keys), int(ring.keys)]
    assert as_graph([path, ring]).keys.tolist() == alone
    assert as_graph([ring, path]).keys.tolist() == alone[::-1]
    assert int(Graph(PATH[:, torch.tensor([3, 1, 0, 2])], 3).keys) == alone[0]
    assert int(Graph(PATH, 3, torch.rand(4)).keys) == alone[0]
    others = {int(Graph(PATH, 4).keys), int(Graph(PATH.flip(1)[:, :3], 3).keys), alone[1]}
    assert alone[0] not in others
    assert len(others) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.tensor([[0, 3], [1, 0]]), 3), "holds node 3, expected 0 to num_nodes - 1 = 2"),
        ((torch.tensor([[0, -1], [1, 0]]), 3), "holds node -1"),
        ((torch.tensor([0, 1]), 3), r"shape \[2, num_edges\]"),
        ((torch.tensor([[0.0], [1.0]]), 3), "must hold integers"),
        ((PATH, 3, torch.tensor([1.0, 2.0])), "one value for each of the 4 edges"),
        ((PATH, 3, torch.tensor([1.0, 2.0, float("nan"), 1.0])), "finite, got nan at edge 2"),
        ((PATH, 3, None, torch.tensor([0, 2])), "end at num_nodes=3"),
        ((PATH, 3, None, torch.tensor([0, 1, 3])), "joins two graphs"),
        ((PATH, -1), "at least 0"),
    ],
)
def test_bad_graphs_are_refused_with_the_reason(arguments: tuple, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph(*arguments)


def test_unreadable_objects_are_refused() -> None:
    with pytest.raises(GraphError, match="cannot read a graph from str"):
        as_graph("karate")
    with pytest.raises(GraphError, match="square"):
        as_graph(sp.csr_array(np.ones((2, 3))))
    with pytest.raises(GraphError, match="empty list"):
        as_graph([])


def test_a_graph_equals_itself_alone() -> None:
    graph = Graph(PATH, 3)
    assert graph == graph
    assert graph != Graph(PATH, 3)
    assert len({graph, graph, Graph(PATH, 3)}) == 2


def test_unchecked_looks_at_nothing_and_is_the_same_otherwise() -> None:
    ptr = torch.tensor([0, 1, 3])
    wrong = Graph.unchecked(PATH + 7, 3, torch.tensor([1.0, torch.nan, 1.0, 1.0]), ptr)
    with pytest.raises(GraphError, match="edge_index holds node"):
        Graph(wrong.edge_index, 3)
    assert (wrong.num_edges, wrong.num_graphs, wrong.max_size, wrong.padded) == (4, 2, None, False)
    right, plain = Graph.unchecked(PATH, 3), Graph(PATH, 3)
    assert int(right.keys) == int(plain.keys)
    assert torch.equal(right.pattern.value, plain.pattern.value)
    assert int(Graph.unchecked(PATH, 3, known_keys=torch.tensor([5])).keys) == 5


def test_what_is_derived_is_kept_with_the_graph() -> None:
    calls = []

    def edges(graph: Graph) -> int:
        calls.append(graph)
        return graph.num_edges

    graph = Graph(PATH, 3)
    assert [graph.memo.of(edges, graph), graph.memo.of(edges, graph)] == [4, 4]
    assert calls == [graph]
    assert Graph(PATH, 3).memo.of(edges, graph) == 4
    assert len(calls) == 2
    graph.memo.put(edges, 9)
    assert graph.memo.of(edges, graph) == 9


def test_keys_see_a_loop_at_node_0_and_stay_for_every_other_graph() -> None:
    path = torch.tensor([[0, 1], [1, 0]])
    looped = torch.cat([path, torch.tensor([[0], [0]])], dim=1)
    with_loop, without = Graph(looped, 2), Graph(path, 2)
    assert with_loop.keys != without.keys
    assert batch_graphs([without, with_loop]).keys.tolist() == [int(without.keys), int(with_loop.keys)]
    # What draws of earlier versions were made from.
    assert int(without.keys) == -5009044715826883721


def test_undirected_weighs_both_directions() -> None:
    both = torch.tensor([[0, 1], [1, 0]])
    assert Graph(both, 2, torch.tensor([2.0, 2.0])).is_undirected()
    assert not Graph(both, 2, torch.tensor([2.0, 3.0])).is_undirected()
