"""The GNNs of the molecule rows of table 1, whatever encoding they are given: trained for it, timed by bench."""

from __future__ import annotations

from typing import Any

ZINC_MODEL: dict[str, Any] = {"backbone": "gine", "num_layers": 10, "norm": "batch", "max_parameters": 500_000}
MOLHIV_MODEL: dict[str, Any] = {
    "backbone": "gine",
    "num_layers": 4,
    "hidden_channels": 128,
    "norm": "batch",
    "dropout": 0.5,
    "readout": "mean",
}
