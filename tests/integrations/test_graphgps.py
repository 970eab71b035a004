"""What GraphGPS asks of an encoding, of which the guide promises that RFP has it.

GraphGPS is no package and pins old versions of PyTorch and PyG, so most tests use a stand-in that keeps to what it does
with an encoding (``graphgps/encoder/composed_encoders.py``, ``network/gps_model.py``, ``loader/master_loader.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.graphgym.config import cfg, set_cfg
from torch_geometric.graphgym.register import config_dict, node_encoder_dict
from torch_geometric.nn import GINEConv, GPSConv, global_add_pool
from yacs.config import CfgNode

import rfp
from rfp.integrations.graphgym import RFPNodeEncoder, register_beside

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guides" / "integrations.md"
# The statistics that GraphGPS's loader knows how to compute; any other enabled group is an error there.
STATISTICS = ("LapPE", "EquivStableLapPE", "SignNet", "RWSE", "HKdiagSE", "HKfullPE", "ElstaticSE", "GraphormerBias")
# configs/GPS/zinc-GPS+RWSE.yaml as far as it concerns the model, smaller.
ZINC = """
dataset: {node_encoder: true, node_encoder_name: TypeDictNode+RWSE, node_encoder_num_types: 28, node_encoder_bn: false}
posenc_RWSE: {enable: true, kernel: {times_func: "range(1,21)"}, model: Linear, dim_pe: 28, raw_norm_type: BatchNorm}
gt: {layers: 2, n_heads: 4, dim_hidden: 64}
gnn: {layers_pre_mp: 0, dim_inner: 64}
"""


def groups(config: Any) -> None:
    """The config groups of GraphGPS that the file above uses."""
    config.dataset.node_encoder_num_types = 0
    config.gt = CfgNode({"layers": 3, "n_heads": 8, "dim_hidden": 64})
    common = {
        "enable": False,
        "model": "none",
        "dim_pe": 16,
        "layers": 3,
        "raw_norm_type": "none",
        "pass_as_var": False,
    }
    config.posenc_RWSE = CfgNode({**common, "kernel": {"times": [], "times_func": ""}})


class TypeDictNode(nn.Module):
    """Embeds the first column of ``batch.x``, a kind of node."""

    def __init__(self, emb_dim: int) -> None:
        super().__init__()
        self.encoder = nn.Embedding(cfg.dataset.node_encoder_num_types, emb_dim)

    def forward(self, batch: Any) -> Any:
        batch.x = self.encoder(batch.x[:, 0])
        return batch


class RWSE(nn.Module):
    """Puts ``dim_pe`` columns, from statistics that the loader left on the graphs, beside ``batch.x``."""

    def __init__(self, dim_emb: int, expand_x: bool = True) -> None:
        super().__init__()
        self.linear_x = nn.Linear(cfg.share.dim_in, dim_emb - cfg.posenc_RWSE.dim_pe) if expand_x else nn.Identity()
        self.pe_encoder = nn.Linear(20, cfg.posenc_RWSE.dim_pe)

    def forward(self, batch: Any) -> Any:
        batch.x = torch.cat([self.linear_x(batch.x), self.pe_encoder(batch.pestat_RWSE)], dim=1)
        return batch


class Concatenated(nn.Module):
    """A node encoder and encodings after it: each is told how wide everything up to it is to be."""

    def __init__(self, features: Callable[[int], nn.Module], encodings: dict[str, Any], dim_emb: int) -> None:
        super().__init__()
        widths = [cfg[f"posenc_{name}"].dim_pe for name in encodings]
        parts = [features(dim_emb - sum(widths))]
        for i, encoding in enumerate(encodings.values(), start=1):
            parts.append(encoding(dim_emb - sum(widths[i:]), expand_x=False))
        self.parts = nn.Sequential(*parts)

    def forward(self, batch: Any) -> Any:
        return self.parts(batch)


class GPSModel(nn.Module):
    """The node encoder that the config names, GPS layers of the same width, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = node_encoder_dict[cfg.dataset.node_encoder_name](cfg.gnn.dim_inner)
        self.edges = nn.Embedding(4, cfg.gnn.dim_inner)
        width = cfg.gt.dim_hidden
        assert width == cfg.gnn.dim_inner
        layers = [GPSConv(width, GINEConv(nn.Linear(width, width)), cfg.gt.n_heads) for _ in range(cfg.gt.layers)]
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(width, 1)

    def forward(self, batch: Any) -> Tensor:
        batch = self.encoder(batch)
        x, edge_attr = batch.x, self.edges(batch.edge_attr)
        for layer in self.layers:
            x = layer(x, batch.edge_index, batch.batch, edge_attr=edge_attr)
        out: Tensor = self.head(global_add_pool(x, batch.batch))
        return out


def statistics() -> list[str]:
    """What the loader computes before training: it asks every group, and knows its own names only."""
    enabled = [key.split("_", 1)[1] for key, group in cfg.items() if key.startswith("posenc_") and group.enable]
    for name in enabled:
        if name not in STATISTICS:
            raise ValueError(f"Unexpected PE stats selection {name}")
    return enabled


def molecules() -> Any:
    graphs = []
    for n in (5, 8):
        i = torch.arange(n)
        ring = torch.stack([i, (i + 1) % n])
        edges = torch.cat([ring, ring.flip(0)], dim=1)
        graph = Data(x=(i % 28)[:, None], edge_index=edges, edge_attr=torch.ones(2 * n, dtype=torch.long))
        graph.pestat_RWSE, graph.y = torch.rand(n, 20), torch.tensor([float(n)])
        graphs.append(graph)
    return Batch.from_data_list(graphs)


@pytest.fixture(autouse=True)
def graphgps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """GraphGPS's registrations beside ours, and its config merged; all gone afterwards."""
    monkeypatch.setitem(config_dict, "posenc", groups)
    monkeypatch.setitem(node_encoder_dict, "TypeDictNode", TypeDictNode)
    monkeypatch.setitem(node_encoder_dict, "RWSE", RWSE)
    both = partial(Concatenated, TypeDictNode, {"RWSE": RWSE})
    monkeypatch.setitem(node_encoder_dict, "TypeDictNode+RWSE", both)
    set_cfg(cfg)
    cfg.merge_from_other_cfg(CfgNode(yaml.safe_load(ZINC)))
    cfg.share.dim_in = 1
    yield
    monkeypatch.undo()
    set_cfg(cfg)


def edits_of_the_guide() -> Any:
    """The block of the guide that turns GraphGPS's config into one with RFP."""
    found = [
        block for block in re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL) if "TypeDictNode+" in block
    ]
    assert len(found) == 1
    return CfgNode(yaml.safe_load(found[0]))


def test_the_stand_in_runs_graphgps_own_config() -> None:
    assert statistics() == ["RWSE"]
    assert GPSModel()(molecules()).shape == (2, 1)


def test_the_edits_of_the_guide_are_enough() -> None:
    cfg.posenc_RWSE.enable = False  # "in place of posenc_RWSE"
    cfg.merge_from_other_cfg(edits_of_the_guide())
    assert statistics() == []
    torch.manual_seed(0)
    model = GPSModel()
    out = model(molecules())
    assert out.shape == (2, 1)
    (out[:, 0] - molecules().y).square().mean().backward()
    assert all(p.grad is not None for p in model.encoder.parameters())
    encoding = model.encoder.encoding
    assert encoding.encoder.settings.operators == ("normalized_laplacian", "normalized_adjacency")
    assert encoding.encoder.settings.num_steps == 16
    assert [type(part).__name__ for part in encoding.embed] == ["BatchNorm1d", "Linear"]
    assert encoding.embed[1].out_features == cfg.posenc_RFP.dim_pe == 28
    assert model.encoder.features.encoder.embedding_dim == 64 - 28


def test_enabling_the_group_is_what_the_loader_does_not_know() -> None:
    cfg.merge_from_other_cfg(edits_of_the_guide())
    cfg.posenc_RFP.enable = True
    with pytest.raises(ValueError, match="RFP"):
        statistics()


@pytest.mark.parametrize("names", [["RFP"], ["RFP", "RWSE"], ["RWSE", "RFP"]])
def test_it_stands_where_encodings_stand_in_a_composed_encoder(names: list[str]) -> None:
    cfg.posenc_RFP.dim_pe, cfg.posenc_RFP.pass_as_var = 12, True
    classes = {"RFP": RFPNodeEncoder, "RWSE": RWSE}
    out = Concatenated(TypeDictNode, {name: classes[name] for name in names}, 64)(molecules())
    assert out.x.shape == (13, 64)
    before = sum(cfg[f"posenc_{name}"].dim_pe for name in names[names.index("RFP") :])
    assert torch.equal(out.x[:, 64 - before :][:, :12], out.pe_RFP)


def test_beside_an_encoder_that_is_composed_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TypeDictNode+RWSE+RFP"
    monkeypatch.setitem(node_encoder_dict, name, None)  # so that it is forgotten afterwards
    del node_encoder_dict[name]
    register_beside("TypeDictNode+RWSE")
    cfg.dataset.node_encoder_name, cfg.posenc_RFP.dim_pe = name, 8
    model = GPSModel()
    assert model(molecules()).shape == (2, 1)
    assert model.encoder.features.parts[0].encoder.embedding_dim == 64 - 28 - 8


def test_the_encoding_is_that_of_each_molecule_by_itself() -> None:
    cfg.merge_from_other_cfg(edits_of_the_guide())
    cfg.posenc_RFP.raw_norm_type = "none"
    layer = node_encoder_dict["TypeDictNode+RFP"](64).eval()
    single = molecules().to_data_list()[1]
    settings = {"num_steps": 16, "operators": ["normalized_laplacian", "normalized_adjacency"]}
    expected = layer.encoding.embed(rfp.encode(single, **settings).flat()[0])
    assert torch.allclose(layer(molecules()).x[5:, 64 - 28 :], expected, atol=1e-5)
