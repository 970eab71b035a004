"""How many units in the last place rounding takes, where a product is zero on paper, and how far real products are off.

    python benchmarks/rounding_units.py [problems]

A column of a product counts as zero if it is no longer than ``UNITS`` units (:mod:`rfp.rounding`). Too few, and noise
is taken for a direction; too many, and directions are lost. This scans random problems for both ends, in units, that is
in multiples of ``eps * norm of |S| * length of the column`` (more for rows of many entries) carried along by the same
recursion:

* *zero on paper*: the normalised Laplacian of a weighted graph and the roots of its degrees; I - D^-1 A and constants;
  the centring matrix and constants; each column scaled by a random number, over one to three products;
* *genuine*: random features under every predefined operator, over one to three products.

Writes ``benchmarks/results/rounding-units.csv``, a row for each kind of problem, type and number of products.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import networkx as nx
import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.graph import Graph
from rfp.normalization import column_lengths
from rfp.operator_norms import rounding_norm
from rfp.operators import OPERATORS, Operator, from_matrix, from_name
from rfp.rounding import UNITS, Rounding

RESULTS = Path(__file__).parent / "results" / "rounding-units.csv"
PROBLEMS = 3000
TYPES = (torch.float32, torch.float64)
PRODUCTS = (1, 2, 3)


def random_graph(rng: np.random.Generator) -> Graph:
    """Sparse, dense, regular, stars, paths or of hubs; mostly of some hundred nodes, stars and complete ones also of
    some thousand entries in a row; weights over three decades.
    """
    n, seed = int(rng.integers(2, 300)), int(rng.integers(2**31))
    long = int(10 ** rng.uniform(0.5, 4.0)) + 1
    make = [
        lambda: nx.gnp_random_graph(n, min(1.0, 4 / n), seed=seed),
        lambda: nx.gnp_random_graph(min(n, 80), 0.5, seed=seed),
        lambda: nx.complete_graph(min(long, 400)),
        lambda: nx.star_graph(long),
        lambda: nx.path_graph(n),
        lambda: nx.cycle_graph(n),
        lambda: nx.barabasi_albert_graph(n + 3, 2, seed=seed),
        lambda: nx.random_regular_graph(4, 2 * n + 6, seed=seed),
    ][int(rng.integers(8))]
    graph: nx.Graph = make()
    if rng.random() < 0.5:
        for _, _, edge in graph.edges(data=True):
            edge["weight"] = float(np.exp(rng.normal(0, 2)))
    read = as_graph(graph)
    return Graph(read.edge_index, graph.number_of_nodes(), read.edge_weight)


def zero_on_paper(graph: Graph, dtype: torch.dtype, rng: np.random.Generator) -> Iterator[tuple[str, Operator, Tensor]]:
    """Operators with columns that they take to zero, but for the rounding of both."""
    scales = torch.from_numpy(np.exp(rng.normal(0, 3, size=4)))
    weights = graph.to_scipy()
    looped = weights + sp.diags_array((weights.diagonal() == 0).astype(float))
    roots = torch.from_numpy(np.sqrt(abs(looped).sum(1)))
    laplacian = from_name("normalized_laplacian", graph, dtype)
    yield "roots of degrees, normalized_laplacian", laplacian, (roots[:, None] * scales).to(dtype)
    constants = torch.ones(graph.num_nodes, 1, dtype=torch.float64) * scales
    degree = abs(weights).sum(1)
    walk = sp.diags_array(1 / np.where(degree > 0, degree, 1)) @ weights
    stays = sp.diags_array((degree > 0).astype(float))
    yield "constants, I - random_walk", from_matrix(stays - walk, dtype), constants.to(dtype)
    n = min(graph.num_nodes, 1000)
    centring = torch.eye(n, dtype=torch.float64) - torch.full((n, n), 1 / n, dtype=torch.float64)
    yield "constants, centring", from_matrix(centring.to(dtype), dtype), constants[:n].to(dtype)


def genuine(graph: Graph, dtype: torch.dtype, rng: np.random.Generator) -> Iterator[tuple[str, Operator, Tensor]]:
    """Random features: only a row of S that is zero takes them to zero."""
    features = torch.from_numpy(rng.standard_normal((graph.num_nodes, 4))).to(dtype)
    for name in OPERATORS:
        yield f"random features, {name}", from_name(name, graph, dtype), features


def units(operator: Operator, features: Tensor, products: int) -> Tensor:
    """The length of each column after so many products, in units; empty where nothing of it is there."""
    ptr = torch.tensor([0, len(features)])
    a = features[None]
    rounding = Rounding.start(rounding_norm(operator, ptr), column_lengths(a, ptr), features.dtype)
    for _ in range(products):
        a = (operator @ a[0])[None]
        length = column_lengths(a, ptr)
        rounding = rounding.after(length)
    there = rounding.noise > 0
    return (length[there] / rounding.noise[there]) * UNITS


def scan(problems: int, seed: int = 0) -> dict[tuple[str, str, str, int], list[float]]:
    """Of every kind of problem, type and number of products: all lengths in units."""
    found: dict[tuple[str, str, str, int], list[float]] = defaultdict(list)
    rng = np.random.default_rng(seed)
    for _ in range(problems):
        graph = random_graph(rng)
        for dtype in TYPES:
            for group, made in (("zero on paper", zero_on_paper), ("genuine", genuine)):
                for name, operator, features in made(graph, dtype, rng):
                    for products in PRODUCTS:
                        lengths = units(operator, features, products)
                        # Of a graph without edges nothing is left by any operator of zero rows.
                        kept = lengths[lengths > 0] if group == "genuine" else lengths
                        found[group, name, str(dtype), products] += kept.tolist()
    return found


def main() -> None:
    """Scan, write the table, and say what lies on either side of the bound."""
    (problems,) = [int(given) for given in islice(sys.argv, 1, 2)] or [PROBLEMS]
    found = scan(problems)
    with RESULTS.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["group", "problem", "dtype", "products", "columns", "smallest", "median", "largest"])
        for key, values in found.items():
            spread = (f"{number:.4g}" for number in (min(values), float(np.median(values)), max(values)))
            table.writerow([*key, len(values), *spread])
    noise = max(max(values) for key, values in found.items() if key[0] == "zero on paper")
    least = min(min(values) for key, values in found.items() if key[0] == "genuine")
    sys.stdout.write(f"{problems} graphs; zero on paper: at most {noise:.3g} units; genuine: at least {least:.3g}\n")


if __name__ == "__main__":
    main()
