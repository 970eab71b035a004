"""Graphs to measure on."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from rfp.data import load
from rfp.errors import ArgumentError
from rfp.graph import Graph, batch_graphs

# ogbn-arxiv's size, the graph on which the paper reports its cost.
ARXIV_NODES, ARXIV_EDGES = 169_343, 1_166_243


def power_law(num_nodes: int, num_edges: int, seed: int = 0) -> Graph:
    """A simple undirected graph with a heavy-tailed degree sequence, both directions listed, sorted by node.

    Chung-Lu: endpoints are drawn with probability proportional to :math:`u^{-0.6}`, u uniform on (0, 1); self-loops and
    repeated edges are drawn again until ``num_edges`` distinct ones are there.
    """
    if num_edges > num_nodes * (num_nodes - 1) // 4:
        raise ArgumentError(f"{num_edges} edges are too many for a sparse graph of {num_nodes} nodes")
    generator = torch.Generator().manual_seed(seed)
    cumulative = torch.rand(num_nodes, generator=generator, dtype=torch.float64).pow(-0.6).cumsum(0)
    keys = torch.zeros(0, dtype=torch.long)
    while len(keys) < num_edges:
        missing = num_edges - len(keys)
        ends = torch.rand(2, missing + missing // 4 + 16, generator=generator, dtype=torch.float64) * cumulative[-1]
        low, high = torch.searchsorted(cumulative, ends).clamp_max(num_nodes - 1).sort(0).values
        fresh = (low * num_nodes + high)[low != high]
        keys = torch.unique(torch.cat([keys, fresh]))
    keep = torch.randperm(len(keys), generator=generator)[:num_edges]
    low, high = keys[keep] // num_nodes, keys[keep] % num_nodes
    both = torch.cat([low * num_nodes + high, high * num_nodes + low]).sort().values
    return Graph(torch.stack([both // num_nodes, both % num_nodes]), num_nodes, check=False)


def zinc(root: str | Path | None = None) -> Graph:
    """The 12,000 molecules of ZINC-12k as one batch, from ``<data root>/ZINC/raw``."""
    root = root or os.environ.get("RFP_DATA")
    folder = Path(root or "") / "ZINC" / "raw"
    if root is None or not folder.is_dir():
        raise FileNotFoundError("ZINC needs a data root: set RFP_DATA to a folder that holds ZINC/raw/*.pickle")
    return load("zinc", data_root=root, download=False).graphs.graph


def molecule_like(num_graphs: int, seed: int = 0) -> Graph:
    """Random graphs of ZINC's sizes (9 to 37 nodes, a tree and about three edges more), where the data is missing."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for n in torch.randint(9, 38, (num_graphs,), generator=generator).tolist():
        parent = (torch.rand(n - 1, generator=generator) * torch.arange(1, n)).long()
        tree = torch.stack([torch.arange(1, n), parent])
        extra = torch.randint(0, n, (2, 3), generator=generator)
        edges = torch.cat([tree, extra[:, extra[0] != extra[1]]], 1)
        graphs.append(Graph(torch.cat([edges, edges.flip(0)], 1), n, check=False))
    return batch_graphs(graphs)
