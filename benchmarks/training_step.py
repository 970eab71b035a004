"""A training step and an epoch of the ZINC model, with and without random feature propagation.

Every variant trains the same GINE (at most 500,000 parameters, batches of 128) for whole epochs over the molecules as
`rfp train` does: data on the device, order and draws new in every epoch. Times are wall times of an epoch divided by
its steps, the median over epochs, so they contain the gathering of batches and the draws. "no RFP" is the same model
without the encoding.

    RFP_DATA=... python benchmarks/training_step.py --output benchmarks/results/training-step-$(hostname).csv

Without --data the molecules are ZINC's; `--data counting-generated --backbone gin` needs no files. A gate comes first:
the kernels equal the plain path, and recorded steps train as those do that are not recorded.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from rfp.data import load
from rfp.environment import environment
from rfp.nn import RFPModel, neighbors
from rfp.train.batches import Batches
from rfp.train.evaluation import predict_batches
from rfp.train.lightning_run import fit
from rfp.train.losses import MeanLoss
from rfp.train.run_config import RunConfig
from rfp.train.static_step import StaticStep

RFP = {
    "name": "rfp",
    "num_channels": 16,
    "num_steps": 16,
    "operators": ["normalized_adjacency", "normalized_laplacian"],
    "normalization": "qr",
}

GATE_LR = 1e-5


def config(arguments: argparse.Namespace, layers: int, width: int, with_rfp: bool, epochs: int = 1) -> RunConfig:
    return RunConfig.from_dict(
        {
            "data": arguments.data,
            "model": {
                "backbone": arguments.backbone,
                "num_layers": layers,
                "hidden_channels": width,
                "encodings": [RFP] if with_rfp else [],
                "max_parameters": 500_000,
            },
            "training": {"epochs": epochs, "batch_size": arguments.batch_size, "lr": 1e-3},
        }
    )


@dataclass(frozen=True)
class Variant:
    """A way to do the same training.

    Args:
        with_rfp: Whether the model has the encoding.
        beforehand: Draw for many steps at once, as `rfp train` does, instead of inside the model.
        recorded: Replay recorded steps on padded batches, as `rfp train` does, instead of launching each kernel.
        plain_sums: Gather and scatter instead of the kernel of sums over neighbours.
    """

    with_rfp: bool
    beforehand: bool = True
    recorded: bool = True
    plain_sums: bool = False


VARIANTS = {
    "no RFP": Variant(False),
    "RFP": Variant(True),
    "no RFP, not recorded": Variant(False, recorded=False),
    "RFP, not recorded": Variant(True, recorded=False),
    "RFP, not recorded, drawn at each step": Variant(True, recorded=False, beforehand=False),
    "no RFP, not recorded, plain sums": Variant(False, recorded=False, plain_sums=True),
}


class Loop:
    """The step alone: no Lightning, no validation."""

    def __init__(
        self, settings: RunConfig, loaded, device: torch.device, *, beforehand: bool = True, recorded: bool = False
    ) -> None:
        torch.manual_seed(0)
        self.model = RFPModel(settings.model_config(loaded)).to(device)
        cuda = device.type == "cuda"
        lr = torch.tensor(1e-3, device=device) if cuda else 1e-3
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, fused=cuda or None, capturable=cuda)
        self.loss = MeanLoss.of(loaded)
        draws = beforehand and len(self.model.drawn) > 0
        width = sum(encoder.settings.width for encoder in self.model.drawn)
        self.batches = Batches(
            loaded,
            "train",
            0,
            batch_size=settings.training.batch_size,
            seed=0,
            draw=self.draw if draws else None,
            bytes_per_node=4 * width if draws else 0,
            sort=cuda,
        )
        total = torch.zeros((), device=device)
        self.static = StaticStep(self.model, self.loss, self.optimizer, total, self.batches)
        self.recorded = recorded

    @torch.no_grad()
    def draw(self, data, graph):
        return self.model.draw(data, graph=graph)

    def step(self, batch) -> None:
        if self.recorded and self.static.fits(batch):
            self.static.run(batch)
        else:
            self.static.run_as_it_is(batch)

    def epoch(self) -> float:
        wait()
        started = time.perf_counter()
        for batch in self.batches:
            self.step(batch)
        wait()
        self.batches.epoch += 1
        return (time.perf_counter() - started) / len(self.batches)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


@contextmanager
def plain_neighbors():
    usual = neighbors.triton_available
    neighbors.triton_available = lambda: False
    try:
        yield
    finally:
        neighbors.triton_available = usual


def gate(arguments: argparse.Namespace, loaded, device: torch.device) -> None:
    results = {}
    for name in ("kernels", "kernels again", "plain"):
        loop = Loop(config(arguments, 4, 64, True), loaded, device, beforehand=True)
        batch = next(iter(loop.batches))
        with plain_neighbors() if name == "plain" else nullcontext():
            loss = loop.loss(loop.model(batch.data, graph=batch.graph, drawn=batch.drawn), batch.label)
            loss.backward()
        results[name] = [p.grad.clone() for p in loop.model.parameters() if p.grad is not None]
    # Biases before a batch normalisation have no gradient but rounding, so the scale is that of all gradients.
    scale = max(float(grad.abs().max()) for grad in results["plain"])
    for first, second, plain in zip(*results.values(), strict=True):
        if not torch.equal(first, second):
            print("  gradients differ between two runs:", tuple(first.shape), float((first - second).abs().max()))
        error = float((first - plain).abs().max()) / scale
        if not error < 1e-3:
            raise SystemExit(f"the gate is red: gradient of shape {tuple(first.shape)} off by {error:.2e}")
    print("gate: kernels equal the plain path")
    totals = []
    for recorded in (True, True, False):
        loop = Loop(config(arguments, 4, 64, True), loaded, device, recorded=recorded)
        for group in loop.optimizer.param_groups:  # small, for Adam makes much of the rounding of small gradients
            group["lr"] = torch.full_like(group["lr"], GATE_LR) if device.type == "cuda" else GATE_LR
        for batch, _ in zip(loop.batches, range(20), strict=False):
            loop.step(batch)
        totals.append(float(loop.static.total) / 20)
        if recorded and device.type == "cuda":
            print("  recorded" if loop.static.recorded else f"  NOT recorded: {loop.static.refused}")
    print(f"  mean loss of 20 steps: recorded {totals[0]:.6f}, again {totals[1]:.6f}, not recorded {totals[2]:.6f}")
    if totals[0] != totals[1] or not abs(totals[0] - totals[2]) < 1e-4 * totals[2]:
        raise SystemExit("the gate is red: recorded steps train differently")


def measure(arguments: argparse.Namespace, loaded, device: torch.device) -> None:
    """Each size in turn; what is known is written after each of them."""
    rows: list[dict[str, object]] = []
    for layers, width in arguments.sizes:
        times: dict[str, list[float]] = {}
        loops = {
            name: Loop(
                config(arguments, layers, width, variant.with_rfp),
                loaded,
                device,
                beforehand=variant.beforehand,
                recorded=variant.recorded,
            )
            for name, variant in VARIANTS.items()
        }
        for repeat in range(arguments.repeats + 1):  # in turn, so that a change of clocks hits all alike
            for name, variant in VARIANTS.items():
                with plain_neighbors() if variant.plain_sums else nullcontext():
                    seconds = loops[name].epoch()
                if repeat:
                    times.setdefault(name, []).append(seconds)
        for name, loop in loops.items():
            if loop.static.refused:
                print(f"  {name}: not recorded ({loop.static.refused})")
        for name, seconds in times.items():
            median = statistics.median(seconds)
            base = statistics.median(times["no RFP" if VARIANTS[name].recorded else "no RFP, not recorded"])
            rows.append(
                {
                    "layers": layers,
                    "width": width,
                    "parameters": loops[name].model.num_parameters,
                    "variant": name,
                    "step_ms": f"{1e3 * median:.3f}",
                    "spread_ms": f"{1e3 * (max(seconds) - min(seconds)):.3f}",
                    "times_no_rfp": f"{median / base:.3f}",
                }
            )
            print(rows[-1], flush=True)
        val = Batches(loaded, "val", 0, batch_size=8 * arguments.batch_size)
        predict_batches(loops["RFP"].model, val, loaded.task.kind)
        wait()
        started = time.perf_counter()
        predict_batches(loops["RFP"].model, val, loaded.task.kind)
        wait()
        print(f"  validation {1e3 * (time.perf_counter() - started):.1f} ms", flush=True)
        for with_rfp in (True, False):
            settings = config(arguments, layers, width, with_rfp, epochs=arguments.repeats + 2)
            folder = arguments.folder and arguments.folder / f"{layers}x{width}-{'rfp' if with_rfp else 'plain'}"
            record = fit(settings, loaded, seed=0, split=0, device=device, folder=folder, resume=False)
            rows.append(
                {
                    "layers": layers,
                    "width": width,
                    "parameters": record.num_parameters,
                    "variant": f"epoch by Lightning, {'RFP' if with_rfp else 'no RFP'}, validation included",
                    "step_ms": f"{1e3 * record.metrics['seconds_per_epoch'] / len(loops['RFP'].batches):.3f}",
                    "epoch_s": f"{record.metrics['seconds_per_epoch']:.3f}",
                }
            )
            print(rows[-1], {k: round(v, 4) for k, v in record.metrics.items()}, flush=True)
        if arguments.output:
            write(rows, arguments.output, device)


def write(rows: list[dict[str, object]], path: Path, device: torch.device) -> None:
    fields = ["layers", "width", "parameters", "variant", "step_ms", "spread_ms", "times_no_rfp", "epoch_s"]
    with path.open("w", newline="") as file:
        file.write("# " + "; ".join(f"{name} {value}" for name, value in environment(device.type).items()) + "\n")
        writer = csv.DictWriter(file, fieldnames=fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def profile(arguments: argparse.Namespace, loaded, device: torch.device) -> None:
    """Where the time goes: operators, kernels and launches of a few steps."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    layers, width = arguments.sizes[0]
    for name in ("RFP", "RFP, not recorded", "RFP, not recorded, drawn at each step"):
        chosen = VARIANTS[name]
        settings = config(arguments, layers, width, True)
        loop = Loop(settings, loaded, device, beforehand=chosen.beforehand, recorded=chosen.recorded)
        batches = iter(loop.batches)
        for _ in range(6):
            loop.step(next(batches))
        wait()
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device.type == "cuda" else [])
        steps = 10
        with record(activities=activities) as profiler:
            for _ in range(steps):
                loop.step(next(batches))
            wait()
        averages = profiler.key_averages()
        launches = sum(e.count for e in averages if "Launch" in e.key)
        syncs = {e.key: e.count for e in averages if "Synchronize" in e.key or e.key in ("aten::item", "aten::nonzero")}
        print(f"--- {name}: {launches / steps:.0f} launches a step, {syncs}")
        key = "self_cuda_time_total" if device.type == "cuda" else "self_cpu_time_total"
        print(averages.table(sort_by=key, row_limit=14, max_name_column_width=46))
        print(averages.table(sort_by="self_cpu_time_total", row_limit=22, max_name_column_width=46))


def profile_lightning(arguments: argparse.Namespace, loaded, device: torch.device) -> None:
    """What Python does in a run by Lightning."""
    import cProfile
    import pstats

    layers, width = arguments.sizes[0]
    profiler = cProfile.Profile()
    profiler.enable()
    fit(config(arguments, layers, width, True, epochs=3), loaded, seed=0, split=0, device=device)
    profiler.disable()
    pstats.Stats(profiler).strip_dirs().sort_stats("tottime").print_stats(28)
    pstats.Stats(profiler).strip_dirs().sort_stats("cumulative").print_stats(70)


def size(text: str) -> tuple[int, int]:
    layers, width = text.split("x")
    return int(layers), int(width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="zinc")
    parser.add_argument("--backbone", default="gine")
    parser.add_argument("--sizes", type=size, nargs="+", default=[(10, 136), (4, 190)], help="layers x width")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the Lightning run keeps checkpoints; none by default")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loaded = load(arguments.data).to(device)
    print(loaded.summary(), flush=True)
    gate(arguments, loaded, device)
    measure(arguments, loaded, device)
    if arguments.profile:
        profile(arguments, loaded, device)
        profile_lightning(arguments, loaded, device)


if __name__ == "__main__":
    main()
