"""What RFP costs on a graph of ogbn-arxiv's size: time and peak memory of a GCN with and without it (section A.3).

The data itself is not needed: the graph is generated with as many nodes and edges and a heavy-tailed degree sequence.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

import rfp
from rfp.bench.generated_graphs import ARXIV_EDGES, ARXIV_NODES, power_law
from rfp.bench.measure import Timing, measure
from rfp.errors import NumericalError
from rfp.graph import Graph
from rfp.nn import RFPModel

_CLASSES, _FEATURES = 40, 128
_MIB = 1 << 20
_CPU_REPEATS = 3


@dataclass(frozen=True)
class CostSize:
    """What is measured; by default the paper's setting, with the largest width of its grid.

    Args:
        num_nodes: n.
        num_edges: Undirected.
        num_channels: k.
        num_steps: P.
        num_layers: Number of layers of the GCN.
        hidden_channels: Width of the GCN; the paper does not give it.
        repeats: Repeats of each measurement; a CPU, for which a call takes seconds, does fewer.
    """

    num_nodes: int = ARXIV_NODES
    num_edges: int = ARXIV_EDGES
    num_channels: int = 64
    num_steps: int = 16
    num_layers: int = 2
    hidden_channels: int = 256
    repeats: int = 10


QUICK_SIZE = CostSize(num_nodes=10_000, num_edges=69_000, hidden_channels=64, repeats=3)


@dataclass(frozen=True)
class CostRow:
    """One measured quantity.

    Args:
        row: ``gcn`` or ``rfp-qr-A``.
        quantity: ``encode``, ``forward`` (evaluation) or ``step`` (forward, backward, optimiser).
        milliseconds: Median of the repeats.
        fastest: Fastest of the repeats.
        slowest: Slowest of the repeats.
        peak_mib: Peak memory: on a GPU all that is allocated, with data and parameters; on a CPU what one call adds.
        repeats: How many.
    """

    row: str
    quantity: str
    milliseconds: float
    fastest: float
    slowest: float
    peak_mib: float
    repeats: int


def measure_cost(
    device: str, size: CostSize | None = None, say: Callable[[str], None] = lambda line: None
) -> list[CostRow]:
    """Time the encoding, a forward pass and a training step of GCN and of GCN + RFP.

    Raises:
        NumericalError: The encoding is not orthonormal: a wrong result has no speed.
    """
    size = size or CostSize()
    repeats, warm_up = (size.repeats, 3) if device == "cuda" else (min(size.repeats, _CPU_REPEATS), 1)
    rows: list[CostRow] = []
    for row, quantity, function in cases(device, size):
        resident = torch.cuda.memory_allocated() if device == "cuda" else 0
        timing = measure(function, device=device, repeats=repeats, warm_up=warm_up)
        peak = resident + timing.peak_bytes if device == "cuda" else _peak_in_a_process(row, quantity, size)
        rows.append(_row(row, quantity, timing, peak))
        say(f"{row} {quantity}: {rows[-1].milliseconds:.2f} ms, peak {rows[-1].peak_mib:.0f} MiB")
    return rows


def cases(device: str, size: CostSize, *, check: bool = True) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """(row, quantity, function) of what is measured, made one after the other so that only one model is in memory."""
    graph = power_law(size.num_nodes, size.num_edges).to(device)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size.num_nodes, _FEATURES, generator=generator).to(device)
    y = torch.randint(_CLASSES, (size.num_nodes,), generator=generator).to(device)
    data = Data(x=x, edge_index=graph.edge_index)
    draws = iter(range(1_000_000))  # another one at each call, as in training

    def encode() -> rfp.Trajectory:
        return rfp.encode(graph, num_channels=size.num_channels, num_steps=size.num_steps, seed=next(draws))

    if check:
        _check_orthonormal(encode())
    yield "rfp-qr-A", "encode", encode
    for row in ("gcn", "rfp-qr-A"):
        model = _model(size, with_rfp=row != "gcn").to(device)
        yield row, "forward", _forward(model, data, graph)
        yield row, "step", _training_step(model, data, graph, y)
        del model


def _forward(model: RFPModel, data: Data, graph: Graph) -> Callable[[], Tensor]:
    @torch.no_grad()
    def forward() -> Tensor:
        prediction: Tensor = model.eval()(data, graph=graph)
        return prediction

    return forward


def _model(size: CostSize, *, with_rfp: bool) -> RFPModel:
    encoding = {"name": "rfp", "num_channels": size.num_channels, "num_steps": size.num_steps}
    return RFPModel(
        {
            "task": "node",
            "in_channels": _FEATURES,
            "out_channels": _CLASSES,
            "backbone": "gcn",
            "num_layers": size.num_layers,
            "hidden_channels": size.hidden_channels,
            "norm": "layer",
            "dropout": 0.5,
            "num_head_layers": 1,
            "encodings": [encoding] if with_rfp else [],
        }
    )


def _training_step(model: RFPModel, data: Data, graph: Graph, y: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        model.train()
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(data, graph=graph), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _check_orthonormal(trajectory: rfp.Trajectory) -> None:
    last = trajectory.states[0, :, -1].double()  # [n, k]
    error = float((last.T @ last - torch.eye(last.size(1), device=last.device, dtype=last.dtype)).abs().max())
    if not error < 1e-4:
        raise NumericalError(f"the last step is not orthonormal (largest error {error:.1e}); its time means nothing")


def _row(row: str, quantity: str, timing: Timing, peak_bytes: int) -> CostRow:
    median, fastest, slowest = (round(1e3 * time, 4) for time in (timing.seconds, timing.fastest, timing.slowest))
    return CostRow(row, quantity, median, fastest, slowest, round(peak_bytes / _MIB, 1), timing.repeats)


def _peak_in_a_process(row: str, quantity: str, size: CostSize) -> int:
    """Bytes that one call needs above the start on a CPU; 0 if that cannot be measured here.

    In a process of its own: an allocator that keeps freed memory hides what a call needs behind what others used.
    """
    environment = {**os.environ, "MIMALLOC_PURGE_DELAY": "0"}
    command = [sys.executable, "-m", "rfp.reproduce.cost", row, quantity, json.dumps(asdict(size))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return int(done.stdout.split()[-1]) if done.returncode == 0 else 0


def _main() -> None:
    row, quantity, size = sys.argv[1:]
    # Kernels are loaded by a small graph: memory that a call of the real size leaves behind would hide what it needs.
    rfp.encode(power_law(3000, 6000), num_channels=CostSize(**json.loads(size)).num_channels, num_steps=2)
    for *case, function in cases("cpu", CostSize(**json.loads(size)), check=False):
        if case == [row, quantity]:
            sys.stdout.write(f"{measure(function, repeats=1, warm_up=0).peak_bytes}\n")
            return


if __name__ == "__main__":
    _main()
