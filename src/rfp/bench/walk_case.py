"""Return probabilities of random walks on growing graphs: estimated by products, and exactly by PyG where it can."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from rfp import products
from rfp.baselines import random_walk_pe
from rfp.bench.contender import Contender
from rfp.bench.gate import GateError
from rfp.bench.generated_graphs import ARXIV_EDGES, ARXIV_NODES, power_law
from rfp.estimate import available_memory
from rfp.graph import Graph
from rfp.one_loop import states
from rfp.operators import from_name

WALK_LENGTH, WALK_CHANNELS = 16, 64
# PyG's matrix powers fill up: n^2 entries on a connected graph, each with its column number, of two powers and what
# multiplying them takes. Measured: more than 22 GiB at 14,285 nodes.
PYG_BYTES_PER_ENTRY = 128
# Nodes whose exact values the estimate is held against: as many more columns of a propagation.
_CHECKED = 64
# Memory that is taken for granted where the free memory cannot be asked for.
_MODEST = 8 << 30


def walks(device: str, data_root: Path | None) -> Iterator[Contender]:
    """K = 16 steps, k = 64, seven edges a node; the size of ogbn-arxiv among them."""
    _gate_walks(device)
    edges = [10_000, 50_000, *(10**e for e in range(5, 9 if device == "cuda" else 8))]
    sizes = sorted([(num_edges // 7, num_edges) for num_edges in edges] + [(ARXIV_NODES, ARXIV_EDGES)])
    for num_nodes, num_edges in sizes:
        yield from walk_contenders(power_law(num_nodes, num_edges, device=device), num_edges)


def walk_contenders(graph: Graph, num_edges: int) -> Iterator[Contender]:
    """Ours, with its error in the name, and PyG's."""
    fresh = partial(Graph.unchecked, graph.edge_index, graph.num_nodes)  # nothing cached between repeats
    run = partial(products.return_probabilities, walk_length=WALK_LENGTH, num_channels=WALK_CHANNELS)
    error, spread = errors(graph, run(graph).value)
    name = f"rfp, {num_edges:,} edges (rms error {error:.2g} of a spread of {spread:.2g})"
    yield Contender(name, lambda: run(fresh()), repeats=3, num_edges=num_edges)
    name = f"PyG AddRandomWalkPE, {num_edges:,} edges"
    needed, free = graph.num_nodes**2 * PYG_BYTES_PER_ENTRY, available_memory(graph.device)
    if needed > (_MODEST if free is None else free):
        skip = f"its matrix powers fill up to n^2 entries: about {needed / 2**30:,.0f} GiB"
        yield Contender(name, None, skip=skip, num_edges=num_edges)
        return
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddRandomWalkPE

    data, transform = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes), AddRandomWalkPE(WALK_LENGTH)
    yield Contender(name, lambda: transform(data.clone()), repeats=1, num_edges=num_edges)


def errors(graph: Graph, estimate: Tensor) -> tuple[float, float]:
    """Root mean square of the error at some nodes, and the deviation of the exact values over them and all steps.

    Exact: the columns of the identity that belong to the nodes are propagated, the diagonal entry is read at each step.
    """
    count = min(_CHECKED, graph.num_nodes)
    nodes = torch.linspace(0, graph.num_nodes - 1, count, device=graph.device).long()
    column = torch.arange(count, device=graph.device)
    one_hot = torch.zeros(graph.num_nodes, count, device=graph.device)
    one_hot[nodes, column] = 1
    steps = states(from_name("random_walk", graph), one_hot, num_steps=WALK_LENGTH, normalization="none")
    exact = torch.stack([a[0, nodes, column] for a in steps], dim=1)[:, 1:]
    error = (estimate[nodes] - exact).square().mean().sqrt()
    return float(error), float((exact - exact.mean(0)).square().mean().sqrt())


def _gate_walks(device: str) -> None:
    """Exact values where there are as many channels as nodes."""
    graph = power_law(200, 900).to(device)
    found = products.return_probabilities(graph, walk_length=WALK_LENGTH, exact=True).value
    error = float((found - random_walk_pe(graph, walk_length=WALK_LENGTH)).abs().max())
    if not error < 1e-4:
        raise GateError(f"return probabilities differ from the exact ones by {error:.2g}")
