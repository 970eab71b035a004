"""What products of the trajectory add to a training step: one GINE with them, by kernels and plainly, and without."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from rfp.bench.contender import Contender, missing
from rfp.bench.gate import gate
from rfp.bench.generated_graphs import first_graphs, molecule_like
from rfp.bench.molecule_task import drawn_task
from rfp.bench.small_cases import BATCH, molecules
from rfp.bench.training_case import FEW_MOLECULES, PRODUCTS_ROW, epochs
from rfp.data.loaded import LoadedTask
from rfp.nn import trajectory_products
from rfp.train.batches import Batches
from rfp.train.model_batches import training_batches
from rfp.train.run_config import RunConfig

# Epochs that are timed.
EPOCHS_TIMED = {"cpu": 1, "cuda": 8}
NODES = {**PRODUCTS_ROW, "edge_products": False}
# The model of each row: what is beside the products is the same.
MODELS: dict[str, dict[str, Any]] = {
    "products of nodes": NODES,
    "products of nodes and edges": PRODUCTS_ROW,
    "products of nodes with channel weights": {**NODES, "product_weights": True},
}


def with_products(device: str, data_root: Path | None) -> Iterator[Contender]:
    """Seconds of a step, gathering and drawing included; the step without encoding first, so ratios are to it."""
    if skip := missing("lightning"):
        yield Contender("the step without encoding", None, skip=skip)
        return
    graph, notes = molecules(data_root)
    yield from notes
    encoding = PRODUCTS_ROW["encodings"][0]
    sizes = {name: encoding[name] for name in ("num_channels", "num_steps", "operators", "normalization")}
    gate(molecule_like(100).to(device), **sizes)
    kind = "cuda" if device == "cuda" else "cpu"
    loaded = drawn_task(first_graphs(graph, FEW_MOLECULES) if kind == "cpu" else graph)
    steps = partial(_steps, loaded=loaded, device=device, count=EPOCHS_TIMED[kind])
    share = len(Batches(loaded, "train", 0, batch_size=BATCH))
    without = {**NODES, "embed": "linear", "encodings": []}
    yield Contender("the step without encoding", partial(steps, without), share=share, own_times=True)
    for name, model in MODELS.items():
        yield Contender(f"with {name}", partial(steps, model), share=share, own_times=True)
        if kind == "cuda":  # on a CPU it is the only one
            yield Contender(f"with {name}, plain", partial(steps, model, plain=True), share=share, own_times=True)
    if kind == "cuda":  # what a step would take less if nothing of a trajectory had to be drawn or written
        gathered = partial(_gathered, loaded=loaded, device=device, count=EPOCHS_TIMED[kind])
        yield Contender("of it gathering alone", partial(gathered, without), share=share, own_times=True)
        yield Contender(
            "of it gathering and drawing, products of nodes", partial(gathered, NODES), share=share, own_times=True
        )


def _steps(model: dict[str, Any], *, loaded: LoadedTask, device: str, count: int, plain: bool = False) -> list[float]:
    """Seconds of the steps of each epoch."""
    if not plain:
        return epochs(model, loaded, device, count, BATCH).steps
    with patch.object(trajectory_products, "kernels_multiply", return_value=False):
        return epochs(model, loaded, device, count, BATCH).steps


def _gathered(model: dict[str, Any], *, loaded: LoadedTask, device: str, count: int) -> list[float]:
    """Seconds in which the batches of each epoch are made as a training makes them, and no step is taken."""
    from rfp.nn import RFPModel

    here = loaded.to(device)
    drawing = RFPModel(RunConfig.from_dict({"data": "zinc", "model": model}).model_config(here)).to(device).train()
    batches = training_batches(drawing, here, 0, batch_size=BATCH, seed=0)
    seconds = []
    untimed = 2
    with torch.no_grad():
        for batches.epoch in range(count + untimed):
            begin = time.perf_counter()
            for _ in batches:
                pass
            if device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
    return seconds[untimed:]
