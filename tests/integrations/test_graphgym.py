"""The encoder that GraphGym finds by name, and its config group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.graphgym.config import cfg, set_cfg
from torch_geometric.graphgym.models.gnn import GNN
from torch_geometric.graphgym.register import config_dict, node_encoder_dict

import rfp
import rfp.integrations.graphgym

CONFIG = Path(__file__).parent.parent.parent / "examples" / "configs" / "graphgym_karate.yaml"


@pytest.fixture(autouse=True)
def fresh_config() -> Iterator[None]:
    """GraphGym's config is global: each test starts from the defaults and leaves them."""
    set_cfg(cfg)
    yield
    set_cfg(cfg)


def batch() -> Any:
    graphs = []
    for n in (4, 6):
        i = torch.arange(n)
        ring = torch.stack([i, (i + 1) % n])
        graphs.append(Data(edge_index=torch.cat([ring, ring.flip(0)], dim=1), x=torch.ones(n, 2)))
    return Batch.from_data_list(graphs)


def encoder(**group: Any) -> Any:
    cfg.share.dim_in = 2
    for name, value in {"num_channels": 3, "num_steps": 2, "dim_pe": 5, **group}.items():
        cfg.posenc_RFP[name] = value
    torch.manual_seed(0)
    return node_encoder_dict["RFP"](12)


def test_the_group_has_the_defaults_of_settings() -> None:
    assert "posenc_RFP" in config_dict
    plain = rfp.Settings()
    assert cfg.posenc_RFP.num_channels == plain.num_channels
    assert tuple(cfg.posenc_RFP.operators) == plain.operators


def test_features_and_encoding_stand_side_by_side() -> None:
    layer = encoder(operators=["adjacency", "random_walk"], normalization="l2").eval()
    given = batch()
    pe = rfp.encode(given, num_channels=3, num_steps=2, operators=["adjacency", "random_walk"], normalization="l2")
    out = layer(batch())
    assert out.x.shape == (10, 12)
    assert torch.allclose(out.x[:, 7:], layer.embed(pe.flat()[0]), atol=1e-6)
    assert torch.allclose(out.x[:, :7], layer.linear_x(given.x))
    (out.x.sum()).backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_composed_encoders_hand_over_what_they_embedded() -> None:
    encoder()
    layer = node_encoder_dict["RFP"](7, expand_x=False)
    assert layer(batch()).x.shape == (10, 2 + 5)


def test_training_draws_anew_unless_told_not_to() -> None:
    changing, fixed = encoder(resample=True), encoder(resample=False)
    assert not torch.equal(changing(batch()).x, changing(batch()).x)
    assert torch.equal(fixed(batch()).x, fixed(batch()).x)
    assert torch.equal(changing.eval()(batch()).x, fixed.eval()(batch()).x)


def test_the_config_of_the_example_builds_a_model_that_learns() -> None:
    cfg.merge_from_file(str(CONFIG))
    cfg.gnn.head, cfg.share.dim_in, cfg.dataset.task = "node", 2, "node"
    torch.manual_seed(0)
    model = GNN(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(10):
        data = batch()
        data.y, data.train_mask, data.split = torch.arange(10) % 2, torch.ones(10, dtype=torch.bool), "train"
        predicted, true = model(data)
        loss = torch.nn.functional.cross_entropy(predicted, true)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


BAD: list[dict[str, Any]] = [
    {"dim_pe": 12},
    {"dim_pe": 0},
    {"layers": 0},
    {"layers": 2},  # of model Linear
    {"model": "DeepSet"},
    {"raw_norm_type": "LayerNorm"},
    {"normalization": "qrr"},
]


@pytest.mark.parametrize("group", BAD)
def test_bad_values_are_refused(group: dict[str, Any]) -> None:
    with pytest.raises(rfp.ArgumentError):
        encoder(**group)


def test_layers_make_the_embedding_deeper() -> None:
    layer = encoder(model="MLP", layers=2, raw_norm_type="BatchNorm")
    # As in GraphGPS: 2 dim_pe wide inside, a ReLU after the last layer too.
    assert [type(part).__name__ for part in layer.embed] == ["BatchNorm1d", "Linear", "ReLU", "Linear", "ReLU"]
    assert layer.embed[1].out_features == 10
    assert layer(batch()).x.shape == (10, 12)


def test_nodes_without_features_have_a_constant() -> None:
    given = batch()
    given.x = None
    encoder()
    cfg.share.dim_in = 1  # what GraphGym says of them
    layer = node_encoder_dict["RFP"](12)
    out = layer(given)
    assert out.x.shape == (10, 12)
    assert torch.allclose(out.x[:, :7], (layer.linear_x.weight[:, 0] + layer.linear_x.bias).expand(10, 7))


def test_the_batch_keeps_the_encoding_if_asked() -> None:
    given = encoder(pass_as_var=True)(batch())
    assert torch.equal(given.pe_RFP, given.x[:, 7:])
    assert "pe_RFP" not in encoder(pass_as_var=False)(batch())


class TypeDict(torch.nn.Module):
    """What GraphGPS has under ``TypeDictNode``: a table of vectors for kinds of nodes."""

    def __init__(self, dim_emb: int) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(3, dim_emb)

    def forward(self, data: Any) -> Any:
        data.x = self.table(data.x[:, 0].long())
        return data


def test_beside_an_encoder_of_node_features(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder()
    monkeypatch.setitem(node_encoder_dict, "TypeDictNode", TypeDict)  # GraphGPS may come later than we do
    cfg.merge_from_list(["dataset.node_encoder", True, "dataset.node_encoder_name", "TypeDictNode+RFP"])
    cfg.merge_from_list(["gnn.dim_inner", 12, "gnn.layers_pre_mp", 0, "gnn.head", "node"])
    model = GNN(2, 2)
    both = model.encoder.node_encoder
    out = both(batch())
    assert out.x.shape == (10, 12)
    assert torch.equal(out.x[:, :7], both.features.table.weight[torch.ones(10, dtype=torch.long)])
    data = batch()
    data.y, data.train_mask, data.split = torch.arange(10) % 2, torch.ones(10, dtype=torch.bool), "train"
    assert model(data)[0].shape[1] == 2


def test_beside_an_encoder_that_is_not_there() -> None:
    encoder()
    with pytest.raises(rfp.ArgumentError, match=r"VOCNode\+RFP: there is no node encoder 'VOCNode'"):
        node_encoder_dict["VOCNode+RFP"](12)


def test_graphgps_names_its_options_so() -> None:
    """The common options of GraphGPS's groups, by which its configs are written."""
    assert {"enable", "model", "dim_pe", "layers", "raw_norm_type", "pass_as_var"} <= cfg.posenc_RFP.keys()
    assert cfg.posenc_RFP.enable is False  # its loader would look for statistics of this name
