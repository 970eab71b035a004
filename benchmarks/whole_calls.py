"""Whole calls on small inputs, where what the host does between kernels decides: before a change and after it.

    git worktree add /tmp/before HEAD~1
    PYTHONPATH=/tmp/before/src python benchmarks/whole_calls.py --side before --device cuda
    PYTHONPATH=src python benchmarks/whole_calls.py --side after --device cuda       # and both again, in turn

Adds rows to ``benchmarks/results/whole-calls-<machine>.csv``. Hosts differ by a factor of two, and one host from minute
to minute: compare sides that ran in turn on one machine, and nothing else. The encoding of one graph counts from its
edges to the trajectory; the call on a batch is that of :class:`rfp.nn.RandomFeaturePropagation` on a fresh one.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import rfp
from rfp.bench.generated_graphs import power_law
from rfp.bench.loop_case import LINEAR_SETTINGS, WITH_PRODUCTS
from rfp.environment import environment, slug
from rfp.graph import Graph
from rfp.nn import RandomFeaturePropagation

GRAPHS = {"10^5 edges": 10**5, "10^6 edges": 10**6}
BATCHES = {"batch of 128": LINEAR_SETTINGS, "batch of 128, products": WITH_PRODUCTS}
QUANTILES = {"fastest": 0.0, "tenth": 0.1, "median": 0.5, "ninetieth": 0.9}


def calls(device: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is timed."""
    from torch_geometric.data import Batch, Data

    for name, edges in GRAPHS.items():
        graph = power_law(edges // 7, edges, device=device)
        yield (
            name,
            lambda graph=graph: rfp.encode(
                Graph.unchecked(graph.edge_index, graph.num_nodes), num_channels=16, num_steps=16
            ),
        )
    graphs = [power_law(23, 25, seed=i) for i in range(128)]
    batch = Batch.from_data_list([Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]).to(device)
    for name, settings in BATCHES.items():
        encoder = RandomFeaturePropagation(settings).to(device)
        yield (
            name,
            lambda encoder=encoder: encoder(
                Batch(edge_index=batch.edge_index, batch=batch.batch, ptr=batch.ptr, num_nodes=batch.num_nodes)
            ),
        )


def times(run: Callable[[], object], device: str, repeats: int) -> list[float]:
    """Sorted, of calls that each begin and end with an idle device."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for _ in range(20):
        run()
    found = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        run()
        wait()
        found.append(time.perf_counter() - start)
    return sorted(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", required=True, help="what the rows are called, e.g. before")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    facts = environment(args.device)
    path = args.output / f"whole-calls-{slug(facts['device'])}.csv"
    rows = []
    for name, run in calls(args.device):
        found = times(run, args.device, args.repeats)
        measured = {key: f"{found[int(len(found) * share)]:.6f}" for key, share in QUANTILES.items()}
        rows.append({"side": args.side, "case": name, **measured, "repeats": str(args.repeats), **facts})
        print(args.side, name, measured, flush=True)
    begun = path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        if not begun:
            writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
