"""Graphs to measure on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from rfp.csr import CSR
from rfp.data import load
from rfp.errors import ArgumentError
from rfp.graph import Graph, batch_graphs
from rfp.ragged import join

# ogbn-arxiv's size, the graph on which the paper reports its cost.
ARXIV_NODES, ARXIV_EDGES = 169_343, 1_166_243
# ogbn-papers100M's.
PAPERS_NODES, PAPERS_EDGES = 111_059_956, 1_615_685_872
# How the sizes of the matchings of :func:`matchings` fall: degrees have a power law of exponent 1 + 0.8.
_DECAY = 0.8


def power_law(num_nodes: int, num_edges: int, seed: int = 0, device: str = "cpu") -> Graph:
    """A simple undirected graph with a heavy-tailed degree sequence, both directions listed, sorted by node.

    Chung-Lu: endpoints are drawn with probability proportional to :math:`u^{-0.6}`, u uniform on (0, 1); self-loops and
    repeated edges are drawn again until ``num_edges`` distinct ones are there. The graph is drawn on ``device``, and
    another one there than on the CPU.
    """
    if num_edges > num_nodes * (num_nodes - 1) // 4:
        raise ArgumentError(f"{num_edges} edges are too many for a sparse graph of {num_nodes} nodes")
    generator = torch.Generator(device).manual_seed(seed)
    exact: dict[str, Any] = {"generator": generator, "dtype": torch.float64, "device": device}
    cumulative = torch.rand(num_nodes, **exact).pow(-0.6).cumsum(0)
    keys = torch.zeros(0, dtype=torch.long, device=device)
    while len(keys) < num_edges:
        missing = num_edges - len(keys)
        ends = torch.rand(2, missing + missing // 4 + 16, **exact) * cumulative[-1]
        low, high = torch.searchsorted(cumulative, ends).clamp_max(num_nodes - 1).sort(0).values
        fresh = (low * num_nodes + high)[low != high]
        keys = torch.unique(torch.cat([keys, fresh]))
    keep = torch.randperm(len(keys), generator=generator, device=device)[:num_edges]
    low, high = keys[keep] // num_nodes, keys[keep] % num_nodes
    both = torch.cat([low * num_nodes + high, high * num_nodes + low]).sort().values
    return Graph.unchecked(torch.stack([both // num_nodes, both % num_nodes]), num_nodes)


def matchings(num_nodes: int, num_edges: int, device: str = "cpu", seed: int = 0) -> CSR:
    r""":math:`\hat A` of an undirected graph with power-law degrees, too large for a list of its edges to be sorted.

    The graph is a union of matchings. Nodes are ranked at random; the t-th matching pairs the ranks x and
    :math:`c_t - x \bmod n_t` among the first :math:`n_t` of them. Sizes :math:`n_t` fall as a power of t, so that the
    node of rank x, which is in all matchings of more than x nodes, has a degree of :math:`x^{-1.25}`. The neighbours of
    a node are therefore known in any order, and every entry of a row is written in its place. Pairs (x, x) become
    self-loops, a pair drawn twice stays twice: a few in a million.

    Args:
        num_nodes: n.
        num_edges: Undirected edges, met to within half a matching.
        device: Where it is built; O(m) memory beside the result only for the largest matching.

    Returns:
        The matrix; row offsets are int64 where they must be.
    """
    generator = torch.Generator(device).manual_seed(seed)
    sizes = _matching_sizes(num_nodes, num_edges)
    rank = torch.randperm(num_nodes, device=device, generator=generator)  # of each node
    node = torch.empty(num_nodes, dtype=torch.int32, device=device)  # of each rank
    node[rank] = torch.arange(num_nodes, dtype=torch.int32, device=device)
    steps = torch.tensor(sorted(sizes), device=device)
    degree = len(sizes) - torch.searchsorted(steps, rank, right=True) + 1  # and the self-loop of the operator
    del rank
    scale = degree.double().rsqrt().float()
    crow = torch.zeros(num_nodes + 1, dtype=torch.int64, device=device)
    torch.cumsum(degree, 0, out=crow[1:])
    del degree
    nnz = int(crow[-1])
    col = torch.empty(nnz, dtype=torch.int32, device=device)
    value = torch.empty(nnz, device=device)
    col[crow[:-1]] = torch.arange(num_nodes, dtype=torch.int32, device=device)
    value[crow[:-1]] = scale.square()
    centers = torch.rand(len(sizes), generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
    for t, (size, center) in enumerate(zip(sizes, centers, strict=True)):
        here = node[:size]
        other = node[(int(center * size) - torch.arange(size, device=device)) % size]
        place = crow[here] + (t + 1)
        col[place] = other
        value[place] = scale[here] * scale[other]
    return CSR(crow if nnz > 2**31 - 1 else crow.int(), col, value)


def _matching_sizes(num_nodes: int, num_edges: int) -> list[int]:
    """Eight matchings of all nodes, or fewer, then smaller and smaller ones, until there are enough edges."""
    sizes: list[int] = []
    missing = 2 * num_edges
    while missing > 0:
        size = max(2, int(num_nodes * max(len(sizes) - 6, 1) ** -_DECAY))
        sizes.append(size)
        missing -= size
    return sizes


def zinc(root: str | Path | None = None) -> Graph:
    """The 12,000 molecules of ZINC-12k as one batch, from ``<data root>/ZINC/raw``.

    Or from ``<data root>/zinc12k.pt``, for machines without the raw files: a dict of ``edge_index`` in node numbers of
    each molecule, ``num_nodes`` and ``num_edges`` of each.
    """
    root = root or os.environ.get("RFP_DATA")
    folder = Path(root or "")
    if root is not None and (folder / "zinc12k.pt").is_file():
        stored = torch.load(folder / "zinc12k.pt", weights_only=True)
        edge_index, ptr = join(stored["edge_index"].long(), stored["num_nodes"], stored["num_edges"])
        return Graph(edge_index, int(ptr[-1]), ptr=ptr)
    if root is None or not (folder / "ZINC" / "raw").is_dir():
        raise FileNotFoundError("ZINC needs a data root: set RFP_DATA to a folder that holds ZINC/raw/*.pickle")
    return load("zinc", data_root=root, download=False).graphs.graph


def first_graphs(graph: Graph, count: int) -> Graph:
    """The first graphs of a batch."""
    nodes = int(graph.offsets[count])
    inside = graph.edge_index[0] < nodes
    return Graph.unchecked(graph.edge_index[:, inside], nodes, ptr=graph.offsets[: count + 1])


def molecule_like(num_graphs: int, seed: int = 0) -> Graph:
    """Random graphs of ZINC's sizes (9 to 37 nodes, a tree and about three edges more), where the data is missing."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for n in torch.randint(9, 38, (num_graphs,), generator=generator).tolist():
        parent = (torch.rand(n - 1, generator=generator) * torch.arange(1, n)).long()
        tree = torch.stack([torch.arange(1, n), parent])
        extra = torch.randint(0, n, (2, 3), generator=generator)
        edges = torch.cat([tree, extra[:, extra[0] != extra[1]]], 1)
        graphs.append(Graph.unchecked(torch.cat([edges, edges.flip(0)], 1), n))
    return batch_graphs(graphs)


def random_batch(num_graphs: int, largest: int, seed: int) -> Graph:
    """Graphs of 1 to ``largest`` nodes of every density, stars, cliques and graphs without edges among them."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for i in range(num_graphs):
        n = int(torch.randint(1, largest + 1, (), generator=generator))
        upper = torch.zeros(n, n, dtype=torch.bool)
        if i % 8 == 0:
            upper[0, 1:] = True  # star
        elif i % 16 == 1:
            upper[:] = True  # clique
        elif i % 16 != 9:
            upper = torch.rand(n, n, generator=generator) < torch.rand((), generator=generator) ** 2
        upper = upper.triu(1)
        graphs.append(Graph.unchecked((upper | upper.T).nonzero().T, n))
    return batch_graphs(graphs)
