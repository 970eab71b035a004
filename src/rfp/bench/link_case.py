"""Scoring pairs of nodes by common neighbours: from trajectories, and by intersecting neighbourhoods as NCN does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from rfp.bench.contender import Contender
from rfp.bench.gate import GateError
from rfp.bench.generated_graphs import ARXIV_EDGES, ARXIV_NODES, power_law
from rfp.graph import Graph
from rfp.links import score_pairs
from rfp.links.definitions import score_form
from rfp.links.estimates import Sketch, sketches
from rfp.links.scoring import DEFAULT_DRAW
from rfp.settings import Settings

LINK_CHANNELS = 256
# Neighbours that are looked up at a time.
_BLOCK = 1 << 24
# Of exact computations on a CPU this part is run.
_CPU_SHARE = 0.01


def links_tenth(device: str, data_root: Path | None) -> Iterator[Contender]:
    """A tenth of ogbn-arxiv's size and 100,000 pairs: seconds on a laptop."""
    yield from link_contenders(ARXIV_NODES // 10, ARXIV_EDGES // 10, 100_000, device)


def links_arxiv(device: str, data_root: Path | None) -> Iterator[Contender]:
    """The size of ogbn-arxiv and 10 million pairs."""
    yield from link_contenders(ARXIV_NODES, ARXIV_EDGES, 10_000_000, device)


def link_contenders(num_nodes: int, num_edges: int, num_pairs: int, device: str) -> Iterator[Contender]:
    """Ours with and without the propagation, its error in the name; then exact counts by intersection."""
    _gate_links(device)
    graph = power_law(num_nodes, num_edges, device=device)
    generator = torch.Generator(device).manual_seed(0)
    # Half of the pairs are edges, whose nodes have neighbours in common; a random pair seldom has.
    edges = graph.edge_index[:, torch.randint(graph.num_edges, (num_pairs // 2,), generator=generator, device=device)]
    random = torch.randint(num_nodes, (2, num_pairs - num_pairs // 2), generator=generator, device=device)
    random[1] = torch.where(random[0] == random[1], (random[1] + 1) % num_nodes, random[1])
    pairs = torch.cat([edges, random], dim=1)
    settings = Settings.of(DEFAULT_DRAW, {"num_channels": LINK_CHANNELS, "num_trajectories": 1})
    form = score_form("common_neighbors", graph)
    fresh = partial(Graph.unchecked, graph.edge_index, graph.num_nodes)  # nothing cached between repeats

    def sketch(of: Graph) -> Sketch:
        return next(sketches(of, form, settings))

    made = sketch(graph)
    few = pairs[:, :: max(1, num_pairs // 2000)]
    estimate, _ = made.pairs(*few)
    truth = intersections(graph, few)
    error = float((estimate.double() - truth).square().mean().sqrt())
    size = f"{num_pairs:,} pairs, {num_nodes:,} nodes, k={LINK_CHANNELS}"
    told = f"{size} (rms error {error:.2g} of a mean of {float(truth.mean()):.2g})"
    yield Contender(f"rfp: propagation and scoring, {told}", lambda: sketch(fresh()).pairs(*pairs), repeats=3)
    yield Contender(f"rfp: scoring alone, {told}", lambda: made.pairs(*pairs), repeats=3)
    share = 1.0 if device == "cuda" or num_pairs <= 100_000 else _CPU_SHARE
    part = pairs[:, torch.randperm(num_pairs, generator=generator, device=device)[: int(num_pairs * share)]]
    yield Contender(
        f"exact intersection of neighbourhoods, as NCN's, {num_pairs:,} pairs",
        lambda: intersections(graph, part),
        repeats=3,
        share=share,
    )
    if device == "cpu":
        yield Contender(
            f"exact sparse rows (SciPy; rfp links --exact), {num_pairs:,} pairs",
            lambda: score_pairs(graph, part, exact=True),
            repeats=1,
            share=share,
        )


def intersections(graph: Graph, pairs: Tensor) -> Tensor:
    """Common neighbours of each pair, ``[p]`` float64: each neighbour of the node with fewer is looked up at the other.

    What NCN's overlap of adjacency rows computes, in torch alone: O(min(d_u, d_v) log m) a pair.
    """
    n = graph.num_nodes
    source, target = graph.edge_index
    keys = (source * n + target).sort().values
    degree = torch.bincount(source, minlength=n)
    crow = torch.zeros(n + 1, dtype=torch.long, device=graph.device)
    crow[1:] = degree.cumsum(0)
    swap = degree[pairs[0]] > degree[pairs[1]]
    few = torch.where(swap, pairs[1], pairs[0])
    many = torch.where(swap, pairs[0], pairs[1])
    counts = torch.zeros(pairs.size(1), dtype=torch.float64, device=graph.device)
    sizes = degree[few]
    bounds = sizes.cumsum(0)
    low = 0
    while low < len(few):
        before = int(bounds[low - 1]) if low else 0
        high = max(low + 1, int(torch.searchsorted(bounds, before + _BLOCK, right=True)))
        some = sizes[low:high]
        owner = torch.repeat_interleave(torch.arange(low, high, device=graph.device), some)
        start = torch.repeat_interleave(crow[few[low:high]] - (some.cumsum(0) - some), some)
        neighbour = keys[start + torch.arange(len(owner), device=graph.device)] % n
        asked = many[owner] * n + neighbour
        place = torch.searchsorted(keys, asked).clamp_max(len(keys) - 1)
        counts.index_add_(0, owner, (keys[place] == asked).double())
        low = high
    return counts


def _gate_links(device: str) -> None:
    """All three agree where the trajectory spans the graph."""
    graph = power_law(200, 900).to(device)
    pairs = torch.randint(200, (2, 500), generator=torch.Generator().manual_seed(1)).to(device)
    pairs = pairs[:, pairs[0] != pairs[1]]
    exact = score_pairs(graph, pairs, exact=True).value
    for name, found in (
        ("intersections", intersections(graph, pairs)),
        ("the estimate", score_pairs(graph, pairs, num_channels=200).value),
    ):
        error = float((found - exact).abs().max())
        if not error < 1e-3:
            raise GateError(f"common neighbours by {name} differ from the exact ones by {error:.2g}")
