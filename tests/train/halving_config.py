"""A config with a small halving, of which its tests ask what it says and what it trains next."""

from __future__ import annotations

from rfp.train import RunConfig
from rfp.train.halving import Halving

SEARCH = {
    "training.lr": [0.01, 0.1],
    "training.weight_decay": [0.0, 0.5],
    "model.backbone": ["mlp", "gcn"],
    "model.norm": ["none", "layer"],
    "model.residual": [True, False],
    "model.hidden_channels": [8, 16, 32],
}
HALVING = Halving(tries=8, designed=4, held=("model.hidden_channels",), longer=2, finalists=2, apart="model.norm")
CONFIG = RunConfig.from_dict(
    {"data": "texas", "search": SEARCH, "halving": HALVING.to_dict(), "training": {"epochs": 300}}
)
