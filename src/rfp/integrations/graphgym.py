"""GraphGym (PyG's, and GraphGPS with it): the node encoder ``RFP`` and the config group ``posenc_RFP`` (extra
``graphgym``).

Importing this module registers both, and ``NAME+RFP`` for the encoders of node features that GraphGym and GraphGPS
have, so it has to be imported before ``set_cfg``. :class:`RFPNodeEncoder` reads GraphGym's global ``cfg``, as all its
encoders do.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from rfp.errors import ArgumentError, MissingExtraError
from rfp.nn import RandomFeaturePropagation
from rfp.settings import Settings

try:
    import yacs.config
    from torch_geometric.graphgym.config import cfg
    from torch_geometric.graphgym.register import node_encoder_dict, register_config, register_node_encoder
except ImportError as error:  # pragma: no cover - depends on the installation
    raise MissingExtraError("yacs", "graphgym", "rfp.integrations.graphgym") from error

# The fields of Settings that the group has, with their defaults.
_FIELDS = ("num_channels", "num_steps", "normalization", "normalize_every", "distribution", "start", "seed", "backend")
# Encoders of node features, of PyG's GraphGym (Atom) and of GraphGPS: `NAME+RFP` is registered for each. They are
# looked up when a model is built, so GraphGPS may be imported before or after, or not at all.
FEATURE_ENCODERS = ("Atom", "ASTNode", "LinearNode", "PPANode", "TypeDictNode", "VOCNode")


@register_config("posenc_RFP")  # type: ignore[untyped-decorator]
def set_cfg_posenc_rfp(config: Any) -> None:
    """Add the group ``posenc_RFP``.

    ``dim_pe``, ``model``, ``layers``, ``raw_norm_type`` and ``pass_as_var`` are those of GraphGPS's groups: width of
    the embedded encoding, ``Linear`` or ``MLP`` of so many layers (2 ``dim_pe`` wide inside, a ReLU after each),
    ``BatchNorm`` or ``none`` before it, and whether ``batch.pe_RFP`` keeps it. ``resample`` says whether training draws
    new features at every step; the rest are fields of :class:`rfp.Settings`. ``enable`` stays false: it asks GraphGPS's
    loader for statistics of its own, while this encoder needs none and is chosen by ``dataset.node_encoder_name``.
    """
    group = yacs.config.CfgNode()
    defaults = Settings()
    group.enable, group.dim_pe, group.model, group.layers = False, 16, "Linear", 1
    group.raw_norm_type, group.pass_as_var, group.resample = "none", False, True
    group.operators = list(defaults.operators)
    for name in _FIELDS:
        group[name] = getattr(defaults, name)
    config.posenc_RFP = group


@register_node_encoder("RFP")
class RFPNodeEncoder(nn.Module):
    """Puts the embedded encoding beside the embedded node features: ``batch.x`` becomes ``[n, dim_emb]``.

    Args:
        dim_emb: Width of the result, GraphGym's ``gnn.dim_inner``.
        expand_x: Embed ``batch.x`` (``share.dim_in`` wide) to the columns that the encoding leaves. ``False`` where
            another encoder has done so, as in GraphGPS's composed encoders.
    """

    def __init__(self, dim_emb: int, expand_x: bool = True) -> None:
        super().__init__()
        group = cfg.posenc_RFP
        _check(group, dim_emb)
        settings = Settings(operators=list(group.operators), **{name: group[name] for name in _FIELDS})
        self.encoder, self.resample = RandomFeaturePropagation(settings), bool(group.resample)
        self.pass_as_var = bool(group.pass_as_var)
        width = self.encoder.out_channels
        widths = [width] + [2 * group.dim_pe] * (group.layers - 1) + [group.dim_pe]
        layers: list[nn.Module] = [nn.BatchNorm1d(width)] if group.raw_norm_type.lower() == "batchnorm" else []
        for width, following in pairwise(widths):
            layers.append(nn.Linear(width, following))
            layers += [nn.ReLU()] if group.model.lower() == "mlp" else []
        self.embed = nn.Sequential(*layers)
        self.linear_x = nn.Linear(cfg.share.dim_in, dim_emb - group.dim_pe) if expand_x else None

    def forward(self, batch: Any) -> Any:
        self.encoder.train(self.training and self.resample)  # without resample it stays at its one draw
        encoded = self.embed(self.encoder(batch)[0])
        x = batch.x
        if self.linear_x is not None:
            if x is None:  # GraphGym says dim_in = 1 then
                x = encoded.new_ones(encoded.size(0), self.linear_x.in_features)
            x = self.linear_x(x.to(encoded.dtype))
        batch.x = torch.cat([x, encoded], dim=1)
        if self.pass_as_var:
            batch.pe_RFP = encoded
        return batch


class FeaturesAndRFP(nn.Module):
    """An encoder of node features that GraphGym knows by name, and the encoding beside it: ``NAME+RFP``.

    Args:
        name: The encoder's name. It gets the columns that the encoding leaves.
        dim_emb: Width of both together.
    """

    def __init__(self, name: str, dim_emb: int) -> None:
        super().__init__()
        if name not in node_encoder_dict:
            known = ", ".join(sorted(node_encoder_dict))
            raise ArgumentError(f"node_encoder_name {name}+RFP: there is no node encoder {name!r}; there are {known}")
        self.encoding = RFPNodeEncoder(dim_emb, expand_x=False)
        self.features = node_encoder_dict[name](dim_emb - cfg.posenc_RFP.dim_pe)

    def forward(self, batch: Any) -> Any:
        return self.encoding(self.features(batch))


def register_beside(name: str) -> None:
    """Register ``NAME+RFP``, for a node encoder of your own; those of GraphGym and GraphGPS have theirs."""
    register_node_encoder(f"{name}+RFP", partial(FeaturesAndRFP, name))


def _check(group: Any, dim_emb: int) -> None:
    if not 0 < group.dim_pe < dim_emb or group.layers < 1:
        raise ArgumentError(
            f"posenc_RFP.dim_pe must be from 1 to gnn.dim_inner - 1 = {dim_emb - 1} and layers at least 1, got "
            f"{group.dim_pe} and {group.layers}"
        )
    if group.model.lower() not in ("linear", "mlp") or group.raw_norm_type.lower() not in ("none", "batchnorm"):
        raise ArgumentError(
            f"posenc_RFP.model must be Linear or MLP and raw_norm_type none or BatchNorm, got {group.model} and "
            f"{group.raw_norm_type}"
        )
    if group.model.lower() == "linear" and group.layers != 1:
        raise ArgumentError(f"posenc_RFP.model Linear has one layer, got layers={group.layers}; for more use model MLP")


for _name in FEATURE_ENCODERS:
    register_beside(_name)
