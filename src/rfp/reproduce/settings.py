"""Hyperparameters of the tables, one small dict for each family of data sets. Everything that is tuned is here.

Values were and are to be chosen on validation scores. A value in :data:`DATASETS` overrides the family's, one in
:data:`ROWS` both. Changing a value changes the keys of the configs it concerns, and with them what ``rfp table`` takes
for done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# k of the paper's main tables, for nodes and for graphs; P in all of them; B of DSS.
NODE_CHANNELS, GRAPH_CHANNELS = 64, 16
NUM_STEPS = 16
NUM_TRAJECTORIES = 5
# Of S^learn beside other operators in the node tasks (table 6: 64/32 and 16/8).
LEARNED_CHANNELS, LEARNED_STEPS = 32, 8


@dataclass(frozen=True)
class Family:
    """What the models of a kind of data have in common.

    Args:
        model: Keys of the model's config, without encodings. With ``max_parameters`` and without ``hidden_channels``
            each method gets the widest model that fits.
        training: Keys of the training config.
        search: Values to try, by dotted key.
        rfp: Keys of every RFP encoding, over those of the row.
        num_splits: Of the data.
        num_seeds: For each cell of a table, unless :data:`SEEDS` says otherwise.
    """

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    search: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    rfp: Mapping[str, Any] = field(default_factory=dict)
    num_splits: int = 1
    num_seeds: int = 1


# Batch normalisation would tie the replicas that train together, so node tasks use none or layer normalisation.
_NODE_MODEL = {"num_layers": 2, "hidden_channels": 64, "dropout": 0.5, "norm": "layer", "num_head_layers": 1}
_NODE_TRAINING = {"epochs": 200, "patience": 50, "eval_draws": 8}
_NODE_SEARCH = {"training.lr": (3e-3, 1e-2), "training.weight_decay": (5e-4, 5e-3)}

# The random features with columns of unit length, as the steps made of them have: higher validation scores here.
_UNIT_START = {"unit_start": True}

FAMILIES: dict[str, Family] = {
    "webkb": Family(
        {**_NODE_MODEL, "backbone": "gcn", "input_dropout": 0.5},
        _NODE_TRAINING,
        {**_NODE_SEARCH, "model.norm": ("none", "layer")},
        rfp=_UNIT_START,
        num_splits=10,
    ),
    "wikipedia": Family(
        {**_NODE_MODEL, "backbone": "gcn"},
        {**_NODE_TRAINING, "epochs": 300, "patience": 100},
        {"training.lr": (1e-3, 3e-3), "training.weight_decay": (0.0, 5e-4), "model.input_dropout": (0.0, 0.5)},
        num_splits=10,
    ),
    "citations": Family(
        {**_NODE_MODEL, "backbone": "gcn", "input_dropout": 0.5},
        _NODE_TRAINING,
        _NODE_SEARCH,
        num_splits=10,
    ),
    "arxiv": Family(
        {**_NODE_MODEL, "backbone": "gcn", "hidden_channels": 256, "num_layers": 2},
        {"epochs": 500, "lr": 0.01, "eval_draws": 4},
        num_seeds=3,
    ),
    "zinc": Family(
        {"backbone": "gine", "num_layers": 10, "norm": "batch", "max_parameters": 500_000},
        {"epochs": 500, "batch_size": 128, "lr": 1e-3, "schedule": "cosine", "warmup_epochs": 10, "eval_draws": 8},
        rfp=_UNIT_START,
    ),
    "molhiv": Family(
        {
            "backbone": "gine",
            "num_layers": 4,
            "hidden_channels": 128,
            "norm": "batch",
            "dropout": 0.5,
            "readout": "mean",
        },
        {"epochs": 100, "batch_size": 256, "lr": 1e-3, "schedule": "cosine", "warmup_epochs": 5, "eval_draws": 8},
    ),
    "counting": Family(
        {"backbone": "gin", "num_layers": 4, "hidden_channels": 64, "norm": "batch"},
        {"epochs": 500, "batch_size": 128, "lr": 1e-3, "schedule": "cosine", "warmup_epochs": 5, "eval_draws": 8},
    ),
}

# Data set -> {"model": ..., "training": ..., "search": ...}.
DATASETS: dict[str, dict[str, dict[str, Any]]] = {
    "film": {
        "model": {"num_head_layers": 2},
        "training": {"epochs": 200, "patience": 50},
        "search": {**_NODE_SEARCH, "model.input_dropout": (0.0,)},
    },
    # Dense features of few dimensions: dropout on them and layer normalisation lowered validation scores.
    "pubmed": {
        "model": {"norm": "none", "input_dropout": 0.0, "num_head_layers": 2},
        "training": {"epochs": 300, "patience": 100},
        "search": {"training.lr": (1e-2, 3e-2), "training.weight_decay": (0.0, 5e-4)},
    },
}

# Models of several trajectories, and those that learn an operator for each replica, cost many times the others: fewer
# values are tried.
_ONE_DROPOUT: dict[str, dict[str, Any]] = {"search": {"model.input_dropout": (0.5,)}}
_FEW: dict[str, dict[str, Any]] = {
    "training": {"epochs": 120, "patience": 40},
    "search": {"training.weight_decay": (5e-4,)},
}

# (family or data set, row) -> the same; a data set's after its family's.
ROWS: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("wikipedia", "rfp-qr-A-dss"): _ONE_DROPOUT,
    ("squirrel", "rfp-qr-A-dss"): {"search": {"model.input_dropout": (0.0,)}},
    ("squirrel", "rfp-qr-LAS-dss"): {"search": {"model.input_dropout": (0.0,)}},
    ("film", "rfp-qr-A-dss"): {"search": {"model.input_dropout": (0.0,)}},
    ("webkb", "rfp-qr-LAS-dss"): {"search": {"training.weight_decay": (5e-3,)}},
    ("wikipedia", "rfp-qr-LAS-dss"): {**_FEW, "search": {**_FEW["search"], **_ONE_DROPOUT["search"]}},
    ("film", "rfp-qr-LAS-dss"): {"search": {"model.input_dropout": (0.0,), "training.lr": (1e-2,)}},
    ("citations", "rfp-qr-LAS-dss"): _FEW,
    ("pubmed", "rfp-qr-LAS-dss"): {"search": {"training.lr": (1e-2,)}},
}

# (data set, row) -> seeds of that cell.
SEEDS: dict[tuple[str, str], int] = {("zinc", "rfp-qr-LA"): 3}
