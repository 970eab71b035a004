"""Draw the figures of docs/concepts/theory.md and products.md: ``python docs/figures.py`` (two minutes on one core).

Needs the extra ``cli``.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from matplotlib.figure import Figure

from rfp import products
from rfp.baselines import random_walk_pe
from rfp.bench.generated_graphs import power_law
from rfp.theory import (
    SampleEstimate,
    convergence,
    count_triangles,
    epsilon,
    exact_count,
    rank,
    rho,
)
from rfp.viz.convergence import plot_convergence

IMAGES = Path(__file__).parent / "images"
BLUE, RED, GREY, GREEN = "#1b6ca8", "#d1495b", "#8d99ae", "#2a9d8f"


def finish(axes: Any, title: str, legend: str | tuple[float, float] = "best") -> None:
    axes.set_title(title, fontsize=9.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.93")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8, loc=legend)


def communities() -> nx.Graph:
    return nx.planted_partition_graph(4, 30, 0.5, 0.02, seed=0)


def rate() -> None:
    """Proposition 4.2 where its assumptions hold."""
    plot_convergence(convergence(communities(), num_channels=4, num_steps=48), IMAGES / "convergence-rate.png")


def exceptions() -> None:
    """Ties, ± pairs and features of low rank."""
    figure = Figure(figsize=(12.6, 3.7), layout="constrained")
    tie, pair, low_rank = figure.subplots(1, 3)

    ring = nx.cycle_graph(9)
    result = convergence(ring, operator="adjacency", num_channels=2, num_steps=160)
    tie.semilogy(result.angles[:, -1].clamp_min(1e-16), color=BLUE, label="to the space of the 3 tied eigenvectors")
    tie.semilogy(result.column_angles[:, 1], color=RED, label="second column to the solver's second eigenvector")
    tie.set(xlabel="step p", ylabel="angle (radians)", ylim=(1e-16, 6))
    finish(tie, "Tie: ring of 9, S = A, k = 2, $|\\lambda_2| = |\\lambda_3|$", "lower left")

    bipartite = nx.complete_bipartite_graph(3, 5)
    bipartite.add_edges_from([(0, 8), (4, 9)])  # two pendant nodes, so that it does not converge at once
    for k, color in ((1, RED), (2, BLUE)):
        moved = convergence(bipartite, operator="adjacency", num_channels=k, num_steps=40).step_angles.clamp_min(1e-16)
        label = f"k = {k}: " + ("alternates for ever" if k == 1 else "holds the pair and converges")
        pair.semilogy(range(1, 41), moved, color=color, label=label)
    pair.set(xlabel="step p", ylabel="angle between steps p - 1 and p", ylim=(1e-16, 6))
    finish(pair, "± pair: bipartite graph, S = A", (0.36, 0.74))

    generator = torch.Generator().manual_seed(0)
    two = torch.randn(120, 2, dtype=torch.float64, generator=generator)
    features = two @ torch.randn(2, 4, dtype=torch.float64, generator=generator)
    random = convergence(communities(), num_channels=4, num_steps=48)
    given = convergence(communities(), num_steps=48, features=features)
    low_rank.semilogy(random.angles[:, -1].clamp_min(1e-16), color=BLUE, label="RFP: random features, k = 4")
    low_rank.semilogy(given.angles[:, -1], color=RED, label="NFP: 4 node features of rank 2")
    low_rank.semilogy(given.angles[:, 1].clamp_min(1e-16), "--", color=RED, lw=1, label="NFP, within its 2 directions")
    low_rank.set(xlabel="step p", ylabel="largest principal angle", ylim=(1e-16, 6))
    finish(low_rank, "Low-rank node features stall, random ones do not", "lower left")
    figure.savefig(IMAGES / "convergence-exceptions.png", dpi=150)


def counting() -> None:
    """What samples buy: the running interval, with and without deflation, and the bound of Lemma C.4."""
    figure = Figure(figsize=(10.4, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)

    graph = power_law(20_000, 140_000, seed=0)
    exact = exact_count(graph, "triangle")
    for deflation, hubs, color in ((0, 0, RED), (32, 0, GREEN), (8, None, BLUE)):
        seen: list[SampleEstimate] = []
        count_triangles(graph, num_samples=2048, deflation=deflation, hubs=hubs, progress=seen.append)
        samples = [e.num_samples for e in seen]
        low, high = zip(*[e.interval for e in seen], strict=True)
        label = (
            "plain TraceTriangle" if not deflation else f"deflation {deflation}" + (", hubs" if hubs is None else "")
        )
        left.fill_between(samples, low, high, color=color, alpha=0.18, lw=0)
        left.plot(samples, [e.value for e in seen], color=color, lw=1.2, label=f"{label}, 95 % interval")
    left.axhline(exact, color="black", lw=1, ls="--", label=f"exact: {exact:,}")
    left.set(xlabel="samples", ylabel="triangles", xscale="log", ylim=(0, 2.2 * exact))
    finish(left, "Power-law graph, 20,000 nodes, 140,000 edges")

    small = nx.powerlaw_cluster_graph(400, 6, 0.6, seed=0)
    truth = sum(nx.triangles(small).values()) / 3
    ratio, r = rho(small), rank(small)
    grid = [2**i for i in range(5, 12)]
    bound = [epsilon(num_samples=m, delta=0.05, rho=ratio, rank=r) for m in grid]
    errors = [
        sorted(abs(count_triangles(small, num_samples=m, seed=s).value / truth - 1) for s in range(100))[94]
        for m in grid
    ]
    width = [count_triangles(small, num_samples=m).relative_half_width for m in grid]
    right.loglog(
        grid, bound, "o-", color=GREY, ms=4, label=f"guaranteed: Lemma C.4, $\\rho$ = {ratio:.2f}, $\\delta$ = 0.05"
    )
    right.loglog(grid, width, "o-", color=BLUE, ms=4, label="95 % interval of one run")
    right.loglog(grid, errors, "o-", color=GREEN, ms=4, label="error exceeded by 5 of 100 runs")
    right.loglog(grid, [errors[0] * math.sqrt(grid[0] / m) for m in grid], ":", color="0.5", label="$M^{-1/2}$")
    right.set(xlabel="samples M", ylabel="relative error of the triangle count", ylim=(0.03, 30))
    finish(right, "The bound holds, with room to spare (400 nodes)")
    figure.savefig(IMAGES / "triangle-samples.png", dpi=150)


def molecule(seed: int, num_nodes: int = 23) -> nx.Graph:
    """A tree and three edges more, the size of a molecule."""
    made = nx.random_labeled_tree(num_nodes, seed=seed)
    ends = torch.randint(num_nodes, (3, 2), generator=torch.Generator().manual_seed(seed))
    made.add_edges_from((u, v) for u, v in ends.tolist() if u != v)
    return made


def products_error() -> None:
    """Error of estimated diagonals against the number of channels: small graphs, and a large one."""
    figure = Figure(figsize=(10.6, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    begins = [("normal", "drawn", BLUE), ("rademacher", "drawn", GREEN), ("normal", "orthonormal", RED)]
    names = {"drawn": "{} features", "orthonormal": "Orthonormal start"}

    graphs = [molecule(seed) for seed in range(60)]
    exact = products.diagonal(graphs, num_powers=8, exact=True, dtype=torch.float64).value
    spread = exact.view(60, 23, -1).std(1).mean(0)[2:]
    grid = [2, 4, 8, 12, 16, 20, 22, 23, 32, 64]
    for distribution, start, color in begins:
        errors = []
        for k in grid:
            drawn = [
                products.diagonal(
                    graphs, num_powers=8, num_channels=k, distribution=distribution, start=start, seed=seed
                ).value
                for seed in range(5)
            ]
            off = torch.stack([(one - exact).square().mean(0)[2:] for one in drawn]).mean(0).sqrt()
            errors.append(float((off / spread).mean()))
        shown = [max(e, 1e-6) for e in errors]
        left.loglog(grid, shown, "o-", color=color, ms=4, label=names[start].format(distribution.capitalize()))
    left.axvline(23, color="0.6", lw=1, ls="--")
    left.text(23.8, 3e-5, "k = n", fontsize=8, color="0.4")
    left.set(xlabel="channels k", ylabel="error / spread over nodes", ylim=(5e-7, 10))
    left.set_xticks([2, 4, 8, 16, 32, 64], [2, 4, 8, 16, 32, 64], minor=False)
    left.set_xticks([], minor=True)
    finish(left, "60 graphs of 23 nodes, $(\\hat A^p)_{vv}$, p = 2 … 8", "lower left")

    graph = power_law(5000, 35_000)
    truth = random_walk_pe(graph, walk_length=8, dtype=torch.float64)
    grid = [8, 16, 32, 64, 128, 256]
    for distribution, start, color in begins:
        errors = []
        for k in grid:
            value = products.diagonal(
                graph, operator="random_walk", num_powers=8, num_channels=k, distribution=distribution, start=start
            ).value[:, 1:]
            off = ((value - truth) / truth)[:, 3::2]
            errors.append(float(off[truth[:, 1] > 0].square().mean().sqrt()))
        right.loglog(grid, errors, "o-", color=color, ms=4, label=names[start].format(distribution.capitalize()))
    right.loglog(grid, [math.sqrt(2 / k) for k in grid], ":", color="0.4", label="$\\sqrt{2/k}$")
    right.set(xlabel="channels k", ylabel="relative error")
    right.set_xticks(grid, grid, minor=False)
    right.set_xticks([], minor=True)
    right.set_yticks([0.1, 0.2, 0.4], [0.1, 0.2, 0.4], minor=False)
    right.set_yticks([], minor=True)
    finish(right, "Return probabilities of 4, 6 and 8 steps, 5,000 nodes", "lower left")
    figure.savefig(IMAGES / "products-error.png", dpi=150)


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    rate()
    exceptions()
    counting()
    products_error()
