"""Error of rows added with stored factors, against encoding the larger graph anew, as nodes arrive.

    python benchmarks/new_nodes.py

Writes ``benchmarks/results/new-nodes-error.csv`` and ``docs/images/new-nodes-error.png`` (a minute on one core).
Nothing here depends on the machine: a graph of eight communities is cut to its first 1,000 nodes, encoded, and extended
by the next 10 to 1,000. Both encodings start from the same draw. Three numbers for the rows of the new nodes, each the
median of five graphs:

* ``rows``: the relative error of the last step, ||extended - recomputed|| / ||recomputed||;
* ``span``: the same after the best k x k map between the two bases, fitted on the old rows;
* ``accuracy``: of the community, by the nearest mean of the old rows (last step, rows of unit length), with extended
  rows and, as ``accuracy_recomputed``, with all rows encoded anew.
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import median

import networkx as nx
import torch
from matplotlib.figure import Figure
from torch import Tensor

import rfp

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "benchmarks" / "results" / "new-nodes-error.csv"
FIGURE = ROOT / "docs" / "images" / "new-nodes-error.png"
OLD, SIZES, SEEDS, COMMUNITIES = 1000, (10, 30, 100, 300, 1000), range(5), 8
SETTINGS = {
    "Â, QR": {"operators": ["normalized_adjacency"]},
    "Â, QR, P = 4": {"operators": ["normalized_adjacency"], "num_steps": 4},
    "Â, ℓ2": {"operators": ["normalized_adjacency"], "normalization": "l2"},
    "random walk, QR": {"operators": ["random_walk"]},
}


def community_graph(seed: int) -> tuple[rfp.Graph, Tensor]:
    """2,000 nodes in an order that has nothing to do with their communities, and the communities."""
    graph = nx.planted_partition_graph(COMMUNITIES, 250, 0.06, 0.004, seed=seed)
    order = torch.randperm(2000, generator=torch.Generator().manual_seed(seed))
    place = torch.empty_like(order)
    place[order] = torch.arange(2000)
    edges = place[torch.tensor(list(graph.edges)).T]
    return rfp.Graph(torch.cat([edges, edges.flip(0)], dim=1), 2000), order // 250


def first_nodes(graph: rfp.Graph, n: int) -> rfp.Graph:
    return rfp.Graph(graph.edge_index[:, (graph.edge_index < n).all(0)], n)


def accuracy(rows: Tensor, labels: Tensor) -> float:
    unit = torch.nn.functional.normalize(rows.double(), dim=1)
    means = torch.stack([unit[:OLD][labels[:OLD] == c].mean(0) for c in range(COMMUNITIES)])
    guess = (unit[OLD:] @ torch.nn.functional.normalize(means, dim=1).T).argmax(1)
    return float((guess == labels[OLD : len(rows)]).double().mean())


def compare(name: str, num_new: int, seed: int) -> dict[str, float]:
    whole, labels = community_graph(seed)
    n = OLD + num_new
    settings = rfp.Settings(**{"num_channels": 8, "num_steps": 16, **SETTINGS[name]})
    small, large = first_nodes(whole, OLD), first_nodes(whole, n)
    t = rfp.encode(small, settings)
    new = (large.edge_index >= OLD).any(0)
    extended = t.extend(large.edge_index[:, new], num_nodes=n).last()[0].double()
    recomputed = rfp.encode(large.with_keys(small.keys), settings).last()[0].double()
    fit = torch.linalg.lstsq(extended[:OLD], recomputed[:OLD]).solution
    scale = recomputed[OLD:].norm()
    return {
        "rows": float((extended[OLD:] - recomputed[OLD:]).norm() / scale),
        "span": float((extended[OLD:] @ fit - recomputed[OLD:]).norm() / scale),
        "accuracy": accuracy(extended, labels),
        "accuracy_recomputed": accuracy(recomputed, labels),
    }


def main() -> None:
    table = []
    for name in SETTINGS:
        for num_new in SIZES:
            runs = [compare(name, num_new, seed) for seed in SEEDS]
            values = {key: round(median(run[key] for run in runs), 4) for key in runs[0]}
            table.append({"settings": name, "old_nodes": OLD, "new_nodes": num_new, **values})
    with open(TABLE, "w", newline="") as file:
        writer = csv.DictWriter(file, table[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
    draw(table)


def draw(table: list[dict[str, float | str]]) -> None:
    figure = Figure(figsize=(10.4, 3.6), layout="constrained")
    colors = dict(zip(SETTINGS, ("#1b6ca8", "#2a9d8f", "#d1495b", "#8d99ae"), strict=True))
    titles = {
        "rows": "Error of new rows",
        "span": "… up to the basis",
        "accuracy": "Community found (dotted: recomputed)",
    }
    for axes, (key, title) in zip(figure.subplots(1, 3), titles.items(), strict=True):
        for name, color in colors.items():
            of_name = [row for row in table if row["settings"] == name]
            axes.semilogx(SIZES, [row[key] for row in of_name], "o-", ms=4, color=color, label=name)
            if key == "accuracy":
                axes.semilogx(SIZES, [row["accuracy_recomputed"] for row in of_name], ":", color=color)
        axes.set(xlabel=f"nodes added to {OLD:,}", ylim=(0, None))
        axes.set_xticks(SIZES, SIZES)
        axes.set_xticks([], minor=True)
        axes.set_title(title, fontsize=9.5)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="0.93")
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
