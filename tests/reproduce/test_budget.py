"""The widest model within a budget, against building models one width after the other."""

from __future__ import annotations

import pytest

from rfp.data import DATASETS
from rfp.errors import ArgumentError
from rfp.nn import RFPModel
from rfp.reproduce.budget import widest

ZINC = DATASETS["zinc"].task


@pytest.mark.parametrize("backbone", ["gin", "gine", "gps"])
@pytest.mark.parametrize("budget", [9_000, 60_000])
def test_widest(backbone: str, budget: int) -> None:
    model = {"backbone": backbone, "num_layers": 2, "encodings": [{"name": "rnf"}], "max_parameters": budget}
    edges = {} if backbone == "gin" else {"edge_encoder": "zinc"}
    fixed = {"out_channels": 1, "node_encoder": "zinc", **edges, **model, "max_parameters": None}
    fitting = [w for w in range(4, 160, 4) if RFPModel({**fixed, "hidden_channels": w}).num_parameters <= budget]
    assert widest(model, ZINC) == max(fitting)


def test_what_cannot_be_known_or_met() -> None:
    with pytest.raises(ArgumentError, match="no width fits max_parameters=100"):
        widest({"backbone": "gine", "encodings": [], "max_parameters": 100}, ZINC)
    with pytest.raises(ArgumentError, match="the inputs of 'cora' are known only when it is loaded"):
        widest({"max_parameters": 1000}, DATASETS["cora"].task)
