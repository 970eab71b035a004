"""Replicas on the karate club, small enough to be trained in a test."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from rfp.data import LoadedTask
from rfp.train import RunConfig
from rfp.train.node_grid import NodeTrainer, Searched, train_nodes
from rfp.train.replica_program import ReplicaProgram
from rfp.train.trained_replicas import Replica, examine

CPU = torch.device("cpu")
CLUB = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.4, 0.3, 0.3], "num_splits": 3}
MODEL = {"backbone": "gcn", "norm": "none", "hidden_channels": 8, "num_layers": 2, "dropout": 0.5}
RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2}


def config(*, search: dict[str, Any] | None = None, **changes: Any) -> RunConfig:
    training = {"epochs": 6, "lr": 0.01, **changes.pop("training", {})}
    model = {**MODEL, "encodings": [RFP], **changes}
    return RunConfig.from_dict({"data": CLUB, "model": model, "training": training, "search": search or {}})


def made(run: RunConfig, task: LoadedTask, replicas: Sequence[Replica], *, seed: int) -> ReplicaProgram:
    return ReplicaProgram(run, task, [replace(replica, seed=seed) for replica in replicas], device=CPU)


def search_nodes(run: RunConfig, task: LoadedTask, *, splits: list[int], **more: Any) -> Searched:
    return train_nodes(NodeTrainer(run, task, CPU), seeds=more.pop("seeds", [0]), splits=splits, **more)


def on_test_part(program: ReplicaProgram, task: LoadedTask) -> list[float]:
    return examine(program.trained(), task)


REPLICAS = [Replica(split, lr, decay) for split in (0, 2) for lr, decay in ((0.05, 0.0), (0.01, 0.1))]
