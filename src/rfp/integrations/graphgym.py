"""GraphGym (PyG's, and GraphGPS with it): the node encoder ``RFP`` and the config group ``posenc_RFP`` (extra
``graphgym``).

Importing this module registers both, so it has to be imported before ``set_cfg``; :class:`RFPNodeEncoder` reads
GraphGym's global ``cfg``, as all its encoders do.
"""

from __future__ import annotations

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
    from torch_geometric.graphgym.register import register_config, register_node_encoder
except ImportError as error:  # pragma: no cover - depends on the installation
    raise MissingExtraError("yacs", "graphgym", "rfp.integrations.graphgym") from error

# The fields of Settings that the group has, with their defaults.
_FIELDS = ("num_channels", "num_steps", "normalization", "normalize_every", "distribution", "start", "seed", "backend")


@register_config("posenc_RFP")  # type: ignore[untyped-decorator]
def set_cfg_posenc_rfp(config: Any) -> None:
    """Add the group ``posenc_RFP``.

    ``dim_pe`` is the width of the embedded encoding, ``layers`` the number of its linear layers, ``resample`` whether
    training draws new features at every step; the rest are fields of :class:`rfp.Settings`. ``enable`` is GraphGPS's
    switch, and is not read here: the encoder is chosen by ``dataset.node_encoder_name: RFP``.
    """
    group = yacs.config.CfgNode()
    defaults = Settings()
    group.enable, group.dim_pe, group.layers, group.resample = False, 16, 1, True
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
        if not 0 < group.dim_pe < dim_emb or group.layers < 1:
            raise ArgumentError(
                f"posenc_RFP.dim_pe must be from 1 to gnn.dim_inner - 1 = {dim_emb - 1} and layers at least 1, got "
                f"{group.dim_pe} and {group.layers}"
            )
        settings = Settings(operators=list(group.operators), **{name: group[name] for name in _FIELDS})
        self.encoder, self.resample = RandomFeaturePropagation(settings), bool(group.resample)
        widths = [self.encoder.out_channels] + [2 * group.dim_pe] * (group.layers - 1) + [group.dim_pe]
        layers: list[nn.Module] = []
        for i, (width, following) in enumerate(pairwise(widths)):
            layers += [nn.ReLU()] if i else []
            layers.append(nn.Linear(width, following))
        self.embed = nn.Sequential(*layers)
        self.linear_x = nn.Linear(cfg.share.dim_in, dim_emb - group.dim_pe) if expand_x else None

    def forward(self, batch: Any) -> Any:
        self.encoder.train(self.training and self.resample)  # without resample it stays at its one draw
        encoded = self.embed(self.encoder(batch)[0])
        x = batch.x if self.linear_x is None else self.linear_x(batch.x.to(encoded.dtype))
        batch.x = torch.cat([x, encoded], dim=1)
        return batch
