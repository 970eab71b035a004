"""What a model reads of its data: in any type, and what does not fit is told in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from rfp.errors import ArgumentError
from rfp.nn import RFPModel

SMALL_RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2}
EDGES = torch.tensor([[0, 1, 2, 1, 2, 3], [1, 2, 3, 0, 1, 2]])  # a path


def make(**values: Any) -> RFPModel:
    torch.manual_seed(0)
    settings = {"out_channels": 2, "in_channels": 2, "hidden_channels": 8, "num_layers": 2, "num_heads": 2}
    return RFPModel({**settings, "encodings": [SMALL_RFP], **values})


def test_missing_inputs() -> None:
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)
    with pytest.raises(ArgumentError, match=r"x must have shape \[n, in_channels=2\], got none"):
        make()(data)
    with pytest.raises(ArgumentError, match="got none"):
        make(encodings=[{"name": "sgc"}, SMALL_RFP])(data)
    with pytest.raises(ArgumentError, match="encoding 'sgc' propagates node features, and there are none"):
        make(in_channels=0, encodings=[{"name": "sgc"}, SMALL_RFP])
    reads_edges = make(backbone="gine", edge_encoder="linear", edge_channels=2)
    with pytest.raises(ArgumentError, match='edge_encoder="linear" reads edge_attr, which the graph does not have'):
        reads_edges(Data(x=torch.ones(2, 2), edge_index=data.edge_index))
    with pytest.raises(ArgumentError, match=r"edge_attr must have shape \[m, edge_channels\] = \[2, 2\], got \[2, 3\]"):
        reads_edges(Data(x=torch.ones(2, 2), edge_index=data.edge_index, edge_attr=torch.ones(2, 3)))
    with pytest.raises(ArgumentError, match='node_encoder="zinc" reads x, which the graph does not have'):
        make(node_encoder="zinc")(data)
    with pytest.raises(ArgumentError, match=r"x must have shape \[n, in_channels=2\], got \[2\]"):
        make()(Data(x=torch.ones(2), edge_index=data.edge_index))
    link = make(task="link", in_channels=0)
    for pairs, got in ((None, "none"), (torch.zeros(3, 2, dtype=torch.long), r"\[3, 2\]")):
        with pytest.raises(ArgumentError, match=rf"pairs, .* must have shape \[2, p\], got {got}"):
            link(Data(edge_index=data.edge_index, num_nodes=2, pairs=pairs))


@pytest.mark.parametrize("backbone", ["gine", "gps"])
def test_features_of_any_type_are_read_as_the_parameters_are(backbone: str) -> None:
    model = make(backbone=backbone, edge_encoder="linear", edge_channels=1).eval()
    data = Data(x=torch.tensor([[0.0, 1], [2, -1], [1, 1], [-2, 0]]), edge_index=EDGES, edge_attr=torch.arange(6.0) - 2)
    expected = model(data)
    for kind in (torch.int64, torch.float64):
        other = data.clone()
        other.x, other.edge_attr = data.x.to(kind), data.edge_attr.to(kind)
        assert torch.equal(model(other), expected)
    assert torch.allclose(model.double()(data), expected.double(), atol=1e-4)


def test_stored_for_another_model() -> None:
    three = make(encodings=[{"name": "eigenvectors", "num_eigenvectors": 3}])
    data = three.precompute(Data(x=torch.ones(4, 2), edge_index=EDGES))
    with pytest.raises(ArgumentError, match=r"graph's eigenvector_pe must have the shape \[n, 4\] .* got \[4, 3\]"):
        make(encodings=[{"name": "eigenvectors", "num_eigenvectors": 4}])(data)
