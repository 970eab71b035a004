"""The hetero transform holds arguments and calls encode_hetero."""

from __future__ import annotations

import torch
from tests.test_hetero import CITES, bibliography, settings
from torch_geometric import transforms
from torch_geometric.data import Batch, HeteroData

from rfp.hetero import encode_hetero
from rfp.transforms import AddHeteroRandomFeaturePropagationPE


def test_it_stores_the_encoding_of_each_type_that_has_a_relation() -> None:
    transform = AddHeteroRandomFeaturePropagationPE(num_channels=3, num_steps=4)
    data = transforms.Compose([transform])(bibliography())
    expected = encode_hetero(bibliography(), settings())
    for node_type in ("author", "paper"):
        assert torch.equal(data[node_type].random_feature_propagation_pe, expected[node_type])
    assert "random_feature_propagation_pe" not in data["venue"]
    assert len(transform([bibliography(), bibliography(1)])) == 2


def test_beside_x() -> None:
    transform = AddHeteroRandomFeaturePropagationPE(num_channels=3, num_steps=1, attr_name=None, relations=[CITES])
    data = transform(bibliography())
    assert data["paper"].x.shape == (11, 2 + 6)
    assert torch.equal(data["paper"].x[:, :2], torch.ones(11, 2))


def test_features_keep_their_precision() -> None:
    data = bibliography()
    data["paper"].x = torch.full((11, 1), 16_777_217.0, dtype=torch.float64)
    transform = AddHeteroRandomFeaturePropagationPE(num_channels=3, num_steps=1, attr_name=None, relations=[CITES])
    assert transform(data)["paper"].x[:, 0].tolist() == [16_777_217.0] * 11


def test_the_repr_tells_encodings_apart() -> None:
    texts = {repr(AddHeteroRandomFeaturePropagationPE(relations=r)) for r in ("edge_types", "homogeneous", [CITES])}
    assert len(texts) == 3


def test_the_graphs_of_a_batch_have_the_encoding_too() -> None:
    one = HeteroData()
    one["a"].x, one["p"].x = torch.rand(2, 1), torch.rand(3, 1)
    one["a", "w", "p"].edge_index = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]])
    transform = AddHeteroRandomFeaturePropagationPE(num_channels=2, num_steps=1, attr_name="pe")
    batch = transform(Batch.from_data_list([one, one]))
    for node_type in ("a", "p"):
        rows = [graph[node_type].pe for graph in batch.to_data_list()]
        assert torch.equal(torch.cat(rows), batch[node_type].pe)
        assert torch.equal(batch[1][node_type].pe, rows[1])
