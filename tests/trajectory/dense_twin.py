"""The definition in dense NumPy: operators by their formulas, factors by NumPy's QR, rows by a plain loop."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from torch import Tensor

import rfp


def dense_adjacency(graph: rfp.Graph) -> np.ndarray:
    """A with A[i, j] the sum of the weights i -> j."""
    out = np.zeros((graph.num_nodes, graph.num_nodes))
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.double().numpy()
    np.add.at(out, tuple(graph.edge_index.numpy()), weight)
    return out


def dense_operator(name: str, adjacency: np.ndarray) -> np.ndarray:
    """The matrix of docs/concepts/conventions.md, suffixes included."""
    base, _, power = name.partition("^")
    base, *suffixes = base.split(".")
    if "sym" in suffixes:
        adjacency = np.where(abs(adjacency) >= abs(adjacency.T), adjacency, adjacency.T)
        adjacency = np.where(adjacency == -adjacency.T, abs(adjacency), adjacency)
    n = len(adjacency)
    looped = adjacency + np.diag((np.diag(adjacency) == 0).astype(float))
    with np.errstate(divide="ignore"):
        hat = looped / np.sqrt(np.outer(abs(looped).sum(1), abs(looped).sum(0)))
        inverse = np.where(abs(adjacency).sum(1) > 0, 1 / abs(adjacency).sum(1), 0.0)
    matrix = {
        "adjacency": adjacency,
        "normalized_adjacency": hat,
        "normalized_laplacian": np.eye(n) - hat,
        "random_walk": inverse[:, None] * adjacency,
    }[base]
    matrix = matrix.T if "T" in suffixes else matrix
    return np.linalg.matrix_power(matrix, int(power or 1))


def dense_factor(normalization: str, b: np.ndarray) -> np.ndarray:
    """W with N(b) = b W, of independent columns."""
    if normalization == "none":
        return np.eye(b.shape[1])
    if normalization == "l2":
        return np.diag(1 / np.linalg.norm(b, axis=0))
    if normalization == "inverse_gram":
        return np.linalg.inv(b.T @ b)
    r = np.linalg.qr(b)[1]
    return np.linalg.inv(np.sign(np.diag(r))[:, None] * r)


def encoded(matrix: np.ndarray, r: np.ndarray, settings: rfp.Settings) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The states of one operator and trajectory, and the factor of every step, that of the start first."""
    start = {"drawn": "none", "unit": "l2", "orthonormal": "qr"}[settings.start]
    factors = [dense_factor(start, r)]
    states = [r @ factors[0]]
    for p in range(1, settings.num_steps + 1):
        b = matrix @ states[-1]
        normalised = p % settings.normalize_every == 0
        factors.append(dense_factor(str(settings.normalization) if normalised else "none", b))
        states.append(b @ factors[-1])
    return states, factors


def with_factors(matrix: np.ndarray, r: np.ndarray, factors: list[np.ndarray]) -> list[np.ndarray]:
    """Encode with factors that are there: nothing is normalised."""
    states = [r @ factors[0]]
    for factor in factors[1:]:
        states.append(matrix @ states[-1] @ factor)
    return states


def block(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """S on the old rows, S' on the new ones: old nodes do not hear of new ones."""
    out = new.copy()
    out[: len(old)] = 0
    out[: len(old), : len(old)] = old
    return out


def communities(seed: int = 0) -> rfp.Graph:
    """40 nodes whose leading eigenvalues are apart, so that no step is ill-conditioned."""
    return rfp.as_graph(nx.planted_partition_graph(4, 10, 0.7, 0.1, seed=seed))


def directed_weighted() -> rfp.Graph:
    """30 nodes, weights of both signs, a self-loop, duplicates and an isolated node (the last)."""
    generator = np.random.default_rng(0)
    edges = generator.integers(0, 29, (2, 220))
    edges[:, :3] = [[3, 4, 4], [3, 5, 5]]
    weight = torch.from_numpy(generator.normal(1.0, 0.7, edges.shape[1]))
    return rfp.Graph(torch.from_numpy(edges), 30, weight)


def arrivals(n: int, num_new: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Edges of new nodes to old ones and to each other, one self-loop, both directions mixed; and weights."""
    generator = np.random.default_rng(seed)
    new = generator.integers(n, n + num_new, 6 * num_new)
    other = generator.integers(0, n + num_new, 6 * num_new)
    flip = generator.random(len(new)) < 0.4
    edges = np.where(flip, [other, new], [new, other])
    edges[:, 0] = n
    weight = torch.from_numpy(generator.uniform(0.5, 2.0, edges.shape[1]))
    return torch.from_numpy(edges), weight
