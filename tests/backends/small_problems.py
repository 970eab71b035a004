"""Thousands of small problems that are hard on orthonormalisation: k near n or above, powers, w > 1, B > 1, weights,
several operators, graphs of low rank; and what must hold for each.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch import Tensor

import rfp
from rfp.conversion import as_graph
from rfp.graph import Graph

OPERATORS = ("adjacency", "normalized_adjacency", "normalized_laplacian", "random_walk", "adjacency.T", "random_walk.T")


@dataclass(frozen=True)
class SmallProblem:
    """The arguments of :func:`rfp.encode`, drawn from a seed."""

    graph: Graph
    arguments: dict[str, Any]

    @classmethod
    def draw(cls, seed: int) -> SmallProblem:
        rng = np.random.default_rng(seed)
        graphs = [_graph(rng) for _ in range(rng.choice([1, 1, 2, 3]))]
        largest = max(graph.num_nodes for graph in graphs)
        power = rng.choice(["", "", "", "^2", "^3"])
        names = rng.choice(OPERATORS, size=rng.choice([1, 1, 2]), replace=False)
        arguments: dict[str, Any] = {
            "num_channels": int(max(1, largest + rng.integers(-3, 3))),
            "num_steps": int(rng.integers(1, 5)),
            "operators": [f"{name}{power}" for name in names],
            "normalize_every": int(rng.choice([1, 1, 1, 2, 3])),
            "normalization": str(rng.choice(["qr", "qr", "qr", "l2"])),
            "num_trajectories": int(rng.choice([1, 1, 2])),
            "distribution": str(rng.choice(["normal", "normal", "rademacher", "uniform"])),
            "dtype": torch.float32 if rng.random() < 0.7 else torch.float64,
            "seed": seed,
        }
        graph = as_graph(graphs)
        if rng.random() < 0.1:  # features that L̂ and others annihilate
            constant = torch.ones(arguments["num_trajectories"], graph.num_nodes, arguments["num_channels"])
            constant[..., 1:] += torch.from_numpy(rng.standard_normal(constant[..., 1:].shape)) * (rng.random() < 0.5)
            arguments["features"] = constant.to(arguments["dtype"])
        return cls(graph, arguments)

    def encode(self, backend: str) -> rfp.Trajectory:
        return rfp.encode(self.graph, backend=backend, **self.arguments)

    @property
    def compiled(self) -> bool:
        """Whether the compiled backend takes it."""
        return not any("^" in name for name in self.arguments["operators"])


def _graph(rng: np.random.Generator) -> Graph:
    n = int(rng.integers(1, 26))
    kind = rng.integers(0, 7)
    seed = int(rng.integers(1 << 30))
    if kind <= 2:
        graph = nx.gnp_random_graph(n, float(rng.choice([0.1, 0.2, 0.4])), seed=seed)
    elif kind == 3:
        graph = nx.random_labeled_tree(n, seed=seed)
    elif kind == 4:
        graph = nx.complete_graph(n)
    elif kind == 5:
        graph = nx.complete_bipartite_graph((n + 1) // 2, n // 2)
    else:
        graph = nx.gnp_random_graph(n, 0.2, seed=seed, directed=True)
    read = as_graph(graph)
    weight = None
    if rng.random() < 0.3:
        weight = torch.from_numpy(rng.choice([0.5, 1.0, 2.0, -1.0, 1e3, 0.3], size=read.edge_index.size(1)))
    return Graph(read.edge_index, read.num_nodes, weight)


def columns_by_graph(problem: SmallProblem, storage: Tensor) -> list[Tensor]:
    """The normalised states of each graph, operator and trajectory, ``[n_g, k]`` float64."""
    every, bounds = problem.arguments["normalize_every"], problem.graph.offsets.tolist()
    found = []
    for start, stop in itertools.pairwise(bounds):
        for b in range(storage.size(1)):
            for o in range(storage.size(2)):
                found += [storage[start:stop, b, o, p].double() for p in range(every, storage.size(3), every)]
    return found


def departure(problem: SmallProblem, trajectory: rfp.Trajectory) -> float:
    """How far the columns are from length 1 (or exactly 0) and, for QR, from orthogonal: the largest error."""
    worst = 0.0
    for q in columns_by_graph(problem, trajectory.storage):
        kept = q[:, q.abs().sum(0) > 0]
        error = kept.T @ kept - torch.eye(kept.size(1), dtype=torch.float64)
        error = error if problem.arguments["normalization"] == "qr" else error.diagonal()
        worst = max(worst, float(error.abs().max()) if error.numel() else 0.0)
    return worst


def zero_columns(problem: SmallProblem, trajectory: rfp.Trajectory) -> list[list[bool]]:
    """Which columns are zero in each state."""
    return [(q == 0).all(0).tolist() for q in columns_by_graph(problem, trajectory.storage)]
