"""An epoch of ``rfp train``: its steps, and what surrounds them (validation, logs, checkpoints)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from rfp.bench.contender import Contender, missing
from rfp.bench.gate import gate
from rfp.bench.generated_graphs import first_graphs, molecule_like
from rfp.bench.molecule_task import drawn_task
from rfp.bench.small_cases import molecules
from rfp.data import load
from rfp.data.loaded import LoadedTask
from rfp.errors import FileError
from rfp.train.molecule_models import MOLHIV_MODEL, ZINC_MODEL
from rfp.train.run_config import RunConfig

TABLE_OPERATORS = ["normalized_laplacian", "normalized_adjacency"]
# Rows of the tables: what is timed is what `rfp train` does for them.
LINEAR_ROW = {
    **ZINC_MODEL,
    "encodings": [{"name": "rfp", "num_channels": 16, "num_steps": 16, "operators": TABLE_OPERATORS, "start": "unit"}],
}
PRODUCTS_ROW = {
    **ZINC_MODEL,
    "num_layers": 6,
    "embed": "products",
    "edge_products": True,
    "encodings": [
        {
            "name": "rfp",
            "num_channels": 64,
            "num_steps": 16,
            "operators": [*TABLE_OPERATORS, "random_walk"],
            "normalization": "l2",
        }
    ],
}
MOLHIV_ROW = {
    **MOLHIV_MODEL,
    "encodings": [{"name": "rfp", "num_channels": 16, "num_steps": 16, "operators": TABLE_OPERATORS}],
}
# Epochs that are timed after two that are not: those record a step, save and warm up.
EPOCHS = {"cpu": 3, "cuda": 10}
# Molecules on a CPU, where an epoch of all takes minutes.
FEW_MOLECULES = 768


class Epochs(NamedTuple):
    """Seconds of each epoch, from the end of one to the end of the next, and of its steps alone."""

    whole: list[float]
    steps: list[float]


def training(device: str, data_root: Path | None) -> Iterator[Contender]:
    """ZINC-12k with products and with the paper's linear K_embed; molhiv where its files are, on a GPU."""
    if skip := missing("lightning"):
        yield Contender("an epoch", None, skip=skip)
        return
    graph, notes = molecules(data_root)
    yield from notes
    gate(molecule_like(100).to(device), num_channels=64, num_steps=16, operators=TABLE_OPERATORS, normalization="l2")
    few = device != "cuda" and graph.num_graphs > FEW_MOLECULES
    loaded = drawn_task(first_graphs(graph, FEW_MOLECULES) if few else graph)
    on = f", {FEW_MOLECULES} molecules" if few else ""
    count = EPOCHS["cuda" if device == "cuda" else "cpu"]
    yield from _both(f"products, k=64, three operators{on}", PRODUCTS_ROW, loaded, device, count, batch_size=128)
    yield from _both(f"linear, k=16, two operators{on}", LINEAR_ROW, loaded, device, count, batch_size=128)
    name = "molhiv, linear, k=16, two operators"
    if device != "cuda":
        yield Contender(name, None, skip="an epoch of 41,127 graphs takes minutes on a CPU")
        return
    try:
        molhiv = load("ogbg-molhiv", data_root=data_root, download=False)
    except FileError as error:
        yield Contender(name, None, skip=str(error).splitlines()[0])
        return
    yield from _both(name, MOLHIV_ROW, molhiv, device, count, batch_size=256)


def _both(
    name: str, model: dict[str, Any], loaded: LoadedTask, device: str, count: int, batch_size: int
) -> Iterator[Contender]:
    measured = cache(lambda: epochs(model, loaded, device, count, batch_size))
    yield Contender(f"an epoch: {name}", lambda: measured().whole, own_times=True)
    yield Contender(f"its steps alone: {name}", lambda: measured().steps, own_times=True)


def epochs(model: dict[str, Any], loaded: LoadedTask, device: str, count: int, batch_size: int) -> Epochs:
    """Train for some epochs as ``rfp train`` does, with logs and checkpoints in a folder that is dropped."""
    from rfp.train.quiet import quiet

    with quiet():
        from lightning.fabric import Fabric

        from rfp.nn import RFPModel
        from rfp.train.training_loop import TrainingLoop

    untimed = 2
    config = RunConfig.from_dict(
        {
            "data": "zinc",  # not read: the data is there
            "model": model,
            "training": {"epochs": count + untimed, "batch_size": batch_size, "lr": 1e-3},
        }
    )
    ends: list[float] = []
    cuda = device == "cuda"
    # Fabric sets seeds and quiet() keeps its announcements away, as in a run.
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng([0] if cuda else []), quiet():
        torch.manual_seed(0)
        loop = TrainingLoop(
            RFPModel(config.model_config(loaded)),
            config,
            loaded.to(device),
            seed=0,
            split=0,
            folder=Path(folder),
            report=lambda epoch, score: ends.append(time.perf_counter()),
        )
        loop.run(Fabric(accelerator="gpu" if cuda else "cpu", devices=[0] if cuda else 1))
    whole = [after - before for before, after in zip(ends[untimed - 1 :], ends[untimed:], strict=False)]
    return Epochs(whole, loop.seconds_of_steps[untimed:])
