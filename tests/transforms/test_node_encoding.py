"""What all transforms share: reading lists and data sets of any make, and putting the result back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from rfp.errors import ArgumentError, GraphError
from rfp.transforms import (
    AddNodeFeaturePropagationPE,
    AddRandomNodeFeatures,
    AddRandomWalkReturnPE,
    AddSGCFeatures,
    AddSIGNFeatures,
)
from rfp.transforms.node_encoding import attach

EDGE = torch.tensor([[0, 1], [1, 0]])
TRANSFORM = AddRandomWalkReturnPE(walk_length=2)


def test_attach_names_what_it_wrote() -> None:
    data = Data(edge_index=EDGE, num_nodes=2)
    assert attach(data, torch.ones(2, 3), "pe") == "pe"
    assert attach(data, torch.ones(2, 3), None) == "x"
    assert attach(data, 2 * torch.ones(2, 2, 2), None) == "x"
    assert data.x.tolist() == [[1.0] * 3 + [2.0] * 4] * 2


def test_integer_features_that_would_be_rounded_are_refused() -> None:
    data = Data(x=torch.tensor([[2**24], [7]]), edge_index=EDGE)
    attach(data, torch.ones(2, 1), None)
    assert data.x.tolist() == [[2.0**24, 1.0], [7.0, 1.0]]
    data = Data(x=torch.tensor([[2**24 + 1], [7]]), edge_index=EDGE)
    with pytest.raises(ArgumentError, match=r"x holds integers that torch.float32 cannot; store .* attr_name"):
        attach(data, torch.ones(2, 1), None)
    attach(data, torch.ones(2, 1, dtype=torch.float64), None)
    assert data.x.tolist() == [[2.0**24 + 1, 1.0], [7.0, 1.0]]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_features_that_are_not_finite_are_named(value: float) -> None:
    data = Data(x=torch.tensor([[1.0, 2.0], [1.0, value]]), edge_index=EDGE)
    with pytest.raises(ArgumentError, match="AddSGCFeatures propagates x, which is not finite at node 1"):
        AddSGCFeatures(num_steps=2)(data)


def test_a_list_may_hold_batches() -> None:
    single = Data(edge_index=EDGE, num_nodes=2)
    out = TRANSFORM([Batch.from_data_list([single, single]), single])
    # On one edge a walk is back after two steps, never after one.
    assert [d.random_walk_return_pe.tolist() for d in out] == [[[0.0, 1.0]] * 4, [[0.0, 1.0]] * 2]


def test_a_data_set_that_states_no_node_numbers(tmp_path: Path) -> None:
    class Edges(InMemoryDataset):
        def __init__(self) -> None:
            super().__init__(str(tmp_path))
            path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
            self.data, self.slices = self.collate([Data(edge_index=EDGE), Data(edge_index=path), Data(edge_index=EDGE)])

    encoded = TRANSFORM.apply_to(Edges())
    assert [encoded[i].random_walk_return_pe[:, 1].tolist() for i in range(3)] == [[1, 1], [0.5, 1, 0.5], [1, 1]]


def test_weights_of_a_data_set_count(tmp_path: Path) -> None:
    class Weighted(InMemoryDataset):
        def __init__(self) -> None:
            super().__init__(str(tmp_path))
            path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
            made = Data(edge_index=path, edge_weight=torch.tensor([1.0, 1, 3, 3]), num_nodes=3)
            self.data, self.slices = self.collate([made, made])

    encoded = TRANSFORM.apply_to(Weighted())
    # From the middle the walk goes left with probability 1/4, right with 3/4, and always comes back.
    assert encoded[1].random_walk_return_pe[:, 1].tolist() == [0.25, 1.0, 0.75]


def test_an_edge_out_of_range_is_named() -> None:
    bad = Data(edge_index=torch.tensor([[2, 3], [3, 2]]), num_nodes=2)  # both ends would be nodes of the next graph
    good = Data(edge_index=EDGE, num_nodes=2)
    with pytest.raises(GraphError, match=r"graph 1 of the list has 2 nodes but its edge_index holds the edge \[2, 3\]"):
        TRANSFORM([good, bad, good])


def test_a_data_set_without_edges_is_refused(tmp_path: Path) -> None:
    class Points(InMemoryDataset):
        def __init__(self) -> None:
            super().__init__(str(tmp_path))
            self.data, self.slices = self.collate([Data(x=torch.ones(2, 1)), Data(x=torch.ones(3, 1))])

    with pytest.raises(GraphError, match="have no edge_index"):
        TRANSFORM.apply_to(Points())


def test_a_batch_in_a_list_gives_its_graphs_with_the_encoding() -> None:
    one = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2, x=torch.ones(2, 1))
    batch, _ = AddRandomNodeFeatures(num_channels=3)([Batch.from_data_list([one, one]), one])
    rows = [graph.random_node_features for graph in batch.to_data_list()]
    assert torch.equal(torch.cat(rows), batch.random_node_features)
    assert torch.equal(batch[1].random_node_features, rows[1])


def test_graphs_of_a_list_must_have_as_many_features() -> None:
    graphs = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.ones(2, d)) for d in (3, 2)]
    with pytest.raises(ArgumentError, match="x has 2 columns in one graph of the list and 3 in another"):
        AddSIGNFeatures()(graphs)


@pytest.mark.parametrize("transform", [AddSIGNFeatures, AddNodeFeaturePropagationPE])
def test_the_width_of_operators_in_both_directions(transform: type) -> None:
    one = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), x=torch.ones(2, 3))
    add = transform(operators=("both_directions", "adjacency"), num_steps=2, attr_name="pe")
    assert add.width(3) == add(one).pe.shape[1] == 3 * 3 * 3
