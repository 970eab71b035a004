"""Directions against SciPy's matrices; loops and feature scale by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import NormalizeFeatures

from rfp.data.cleaned_graphs import drop_features, normalize_features, remove_self_loops, symmetrize
from rfp.data.collection import GraphCollection
from rfp.errors import ArgumentError
from rfp.graph import Graph


def dense(graphs: GraphCollection) -> np.ndarray:
    weight = np.ones(graphs.num_edges) if graphs.edge_weight is None else graphs.edge_weight.double().numpy()
    n = graphs.num_nodes
    return sp.coo_array((weight, tuple(graphs.edge_index.numpy())), shape=(n, n)).toarray()


def test_an_edge_listed_once_or_twice_counts_once_each_way() -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 2]]), num_nodes=4)
    graphs = symmetrize(GraphCollection.from_data_list([data, data]).check()).check()
    one = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]])
    assert dense(graphs).tolist() == np.kron(np.eye(2), one).tolist()
    assert graphs.edge_weight is None
    assert graphs.edge_ptr.tolist() == [0, 5, 10]


def test_weights_as_in_graph(directed: Graph) -> None:
    assert directed.edge_weight is not None
    data = Data(edge_index=directed.edge_index, edge_weight=directed.edge_weight, num_nodes=5)
    got = dense(symmetrize(GraphCollection.from_data_list([data])))
    expected = directed.to_undirected().to_scipy().toarray()
    assert got == pytest.approx(expected)
    assert got[0, 1] == 3  # two parallel edges of 1 and 2 add up
    assert got[1, 3] == -1  # the only value there is


def test_opposite_weights_become_the_positive_one() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), edge_weight=torch.tensor([-2.0, 2.0]), num_nodes=2)
    assert dense(symmetrize(GraphCollection.from_data_list([data]))).tolist() == [[0, 2], [2, 0]]


def test_duplicates_of_unweighted_edges_become_weights() -> None:
    data = Data(edge_index=torch.tensor([[0, 0], [1, 1]]), num_nodes=2)
    assert dense(symmetrize(GraphCollection.from_data_list([data]))).tolist() == [[0, 2], [2, 0]]


def test_symmetric_graphs_are_left_alone() -> None:
    data = Data(edge_index=torch.tensor([[1, 0, 1], [0, 1, 1]]), edge_attr=torch.tensor([5, 6, 7]), num_nodes=3)
    graphs = GraphCollection.from_data_list([data])
    assert symmetrize(graphs) is graphs


def test_edge_features_follow_their_direction() -> None:
    data = Data(edge_index=torch.tensor([[0, 1, 2], [1, 0, 1]]), edge_attr=torch.tensor([5, 6, 7]), num_nodes=3)
    graphs = symmetrize(GraphCollection.from_data_list([data]))
    found = dict(zip(map(tuple, graphs.edge_index.T.tolist()), graphs.edge_attr.tolist(), strict=True))  # type: ignore[union-attr]
    assert found == {(0, 1): 5, (1, 0): 6, (2, 1): 7, (1, 2): 7}


def test_no_edges() -> None:
    graphs = GraphCollection.from_data_list([Data(edge_index=torch.zeros(2, 0).long(), num_nodes=1)])
    assert symmetrize(graphs).num_edges == 0
    assert remove_self_loops(graphs).num_edges == 0


def test_self_loops_are_removed_graph_by_graph() -> None:
    first = Data(edge_index=torch.tensor([[0, 0], [0, 1]]), edge_attr=torch.tensor([1, 2]), num_nodes=2)
    second = Data(edge_index=torch.tensor([[1, 1], [1, 0]]), edge_attr=torch.tensor([3, 4]), num_nodes=2)
    graphs = remove_self_loops(GraphCollection.from_data_list([first, second])).check()
    assert graphs.edge_index.tolist() == [[0, 3], [1, 2]]
    assert graphs.edge_attr is not None
    assert graphs.edge_attr.tolist() == [2, 4]


def test_features_as_pyg_normalises_them() -> None:
    x = torch.tensor([[0.0, 3.0, 1.0], [0.0, 0.0, 0.0], [0.2, 0.1, 0.0]])
    data = Data(x=x.clone(), edge_index=torch.zeros(2, 0).long())
    got = normalize_features(GraphCollection.from_data_list([data])).x
    assert got is not None
    assert torch.equal(got, NormalizeFeatures()(Data(x=x.clone())).x)
    assert got[0].tolist() == [0, 0.75, 0.25]
    with pytest.raises(ArgumentError, match="no features"):
        normalize_features(GraphCollection.from_data_list([Data(edge_index=data.edge_index, num_nodes=2)]))
    categories = Data(x=torch.ones(3, 1, dtype=torch.long), edge_index=data.edge_index)
    with pytest.raises(ArgumentError, match="int64"):
        normalize_features(GraphCollection.from_data_list([categories]))


def test_dropped_features_leave_all_else() -> None:
    data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 0]]), edge_attr=torch.ones(2, 1))
    graphs = GraphCollection.from_data_list([data])
    got = drop_features(graphs).check()
    assert got.x is None
    assert torch.equal(got.edge_index, graphs.edge_index)
    assert got.edge_attr is graphs.edge_attr
    assert graphs.x is not None  # as it was
    with pytest.raises(ArgumentError, match="no node features here"):
        drop_features(got)
