"""RFP inside a training loop of one's own: PyG's layers and loader, run as they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rfp.bench.contender import Contender
from rfp.bench.gate import gate
from rfp.bench.generated_graphs import first_graphs, molecule_like
from rfp.bench.measure import interleaved
from rfp.bench.molecule_task import drawn_task
from rfp.bench.small_cases import BATCH, BOTH, molecules
from rfp.nn import RandomFeaturePropagation, TrajectoryProducts
from rfp.nn.molecules import ATOM_FEATURES, BOND_FEATURES
from rfp.settings import Settings

LINEAR_SETTINGS = Settings(num_channels=16, num_steps=16, operators=BOTH)
WITH_PRODUCTS = Settings(num_channels=64, num_steps=16, operators=(*BOTH, "random_walk"), normalization="l2")
# The model of the tables' ZINC rows: below 500,000 parameters.
NUM_LAYERS, WIDTH = 10, 136
# Steps of a round, and rounds.
STEPS_TIMED = {"cpu": 2, "cuda": 20}
ROUNDS = {"cpu": 5, "cuda": 12}


class PlainGINE(nn.Module):
    """GINE as one writes it with PyG, with or without the one line that adds RFP.

    Args:
        settings: Settings of the encoding; ``None`` for none.
        products: Read the trajectory by its products instead of a linear map.
        num_layers: Convolutions.
        width: Hidden channels.
    """

    def __init__(self, settings: Settings | None, *, products: bool, num_layers: int, width: int) -> None:
        from torch_geometric.nn import GINEConv

        super().__init__()
        self.atoms = nn.Embedding(ATOM_FEATURES["zinc"][0], width)
        self.bonds = nn.Embedding(BOND_FEATURES["zinc"][0], width)
        self.encode = None if settings is None else RandomFeaturePropagation(settings)
        self.embed: nn.Module | None = None
        if self.encode is not None and settings is not None:
            states = self.encode.out_channels // settings.num_channels
            self.embed = (
                TrajectoryProducts(settings.num_channels, states, width)
                if products
                else nn.Linear(self.encode.out_channels, width)
            )
        self.convolutions = nn.ModuleList(
            GINEConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))
            for _ in range(num_layers)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(num_layers))
        self.head = nn.Linear(width, 1)

    def forward(self, data: Any) -> Tensor:
        from torch_geometric.nn import global_add_pool

        h, bonds = self.atoms(data.x[:, 0]), self.bonds(data.edge_attr)
        if self.encode is not None and self.embed is not None:
            h = h + self.embed(self.encode(data)[0])
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            h = h + norm(convolution(h, data.edge_index, bonds)).relu()
        out: Tensor = self.head(global_add_pool(h, data.batch, size=data.num_graphs))
        return out


def own_loop(device: str, data_root: Path | None) -> Iterator[Contender]:
    """Steps with RFP, without it and with products in turn; and the call on a new batch alone."""
    graph, notes = molecules(data_root)
    yield from notes
    small = molecule_like(100).to(device)
    for settings in (LINEAR_SETTINGS, WITH_PRODUCTS):
        gate(
            small,
            num_channels=settings.num_channels,
            num_steps=settings.num_steps,
            operators=settings.operators,
            normalization=settings.normalization,
        )
    kind = "cuda" if device == "cuda" else "cpu"
    steps = STEPS_TIMED[kind]
    data = drawn_task(first_graphs(graph, min(steps * BATCH, graph.num_graphs))).data_list()
    yield from contenders(data, device, ROUNDS[kind])


def contenders(
    data: list[Any], device: str, rounds: int, *, num_layers: int = NUM_LAYERS, width: int = WIDTH
) -> Iterator[Contender]:
    """Of a step on batches of 128 of these PyG graphs."""
    from torch_geometric.loader import DataLoader

    torch.manual_seed(0)
    loader = DataLoader(data, batch_size=BATCH)
    models = {
        "a step with RFP": PlainGINE(LINEAR_SETTINGS, products=False, num_layers=num_layers, width=width),
        "the step without RFP": PlainGINE(None, products=False, num_layers=num_layers, width=width),
        "a step with RFP and products (k=64, three operators)": PlainGINE(
            WITH_PRODUCTS, products=True, num_layers=num_layers, width=width
        ),
    }
    works: dict[str, Callable[[], None]] = {
        name: partial(_epoch, model.to(device), torch.optim.Adam(model.parameters()), loader, device)
        for name, model in models.items()
    }
    times = cache(lambda: interleaved(works, device=device, rounds=rounds, warm_up=2))
    for name in works:
        yield Contender(name, lambda name=name: times()[name], share=len(loader), own_times=True)  # type: ignore[misc]
    batches = [batch.to(device) for batch in loader]
    for name, settings in (
        ("RFP alone, a new batch", LINEAR_SETTINGS),
        ("RFP alone, a new batch (k=64, three operators)", WITH_PRODUCTS),
    ):
        layer = RandomFeaturePropagation(settings)
        yield Contender(name, partial(_encode_all, layer, batches), repeats=rounds, share=len(batches))


def _epoch(model: PlainGINE, optimizer: torch.optim.Optimizer, loader: Any, device: str) -> None:
    """A training loop: every batch is put together anew and goes through the model once."""
    for batch in loader:
        batch = batch.to(device)
        loss = nn.functional.l1_loss(model(batch), batch.y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _encode_all(layer: RandomFeaturePropagation, batches: list[Any]) -> None:
    """Nothing is kept with a PyG batch, so that every call meets it for the first time."""
    for batch in batches:
        layer(batch)
