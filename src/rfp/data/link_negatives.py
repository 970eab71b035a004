"""Pairs that are no edges: drawn uniformly, or hard ones that share neighbours; all of it a function of the seed."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.links.definitions import score_form
from rfp.links.exact import adjacency, blocks_by_size

# With at most so many pairs in all, the open ones are listed; otherwise they are drawn and edges thrown back.
_LISTED_PAIRS = 1 << 22


def pair_keys(pairs: Tensor, num_nodes: int) -> Tensor:
    """One number for each pair, whichever way round: ``min * n + max``."""
    return pairs.amin(0) * num_nodes + pairs.amax(0)


def no_negatives(num_nodes: int, source: str) -> ArgumentError:
    """The error for a graph in which every pair is an edge."""
    return ArgumentError(
        f"{source}: every pair of the {num_nodes} nodes is an edge, so there are no negatives to tell links from; "
        "link prediction needs a graph that is not complete"
    )


def uniform_negatives(
    edges: Tensor, num_nodes: int, count: int, generator: torch.Generator, *, source: str = "the graph"
) -> Tensor:
    """Pairs of different nodes that are no edges, each at most once, ``[2, count]`` or as many as there are.

    Args:
        edges: ``[2, m]``, either way round, on the CPU.
        num_nodes: n.
        count: How many.
        generator: Generator of the draw.
        source: For errors.

    Raises:
        ArgumentError: Every pair is an edge.

    Example:
        >>> path = torch.tensor([[0, 1], [1, 2]])
        >>> uniform_negatives(path, 3, 5, torch.Generator().manual_seed(0)).tolist()
        [[0], [2]]
    """
    n = num_nodes
    known = torch.unique(pair_keys(edges, n))
    available = n * (n - 1) // 2 - len(known)
    if available < 1:
        raise no_negatives(n, source)
    if n * (n - 1) // 2 <= _LISTED_PAIRS or count > available // 2:
        row, column = torch.triu_indices(n, n, offset=1)
        keys = row * n + column
        keys = keys[~torch.isin(keys, known)]
        keys = keys[torch.randperm(len(keys), generator=generator)[:count]]
        return torch.stack([keys // n, keys % n])
    found = known.new_zeros(0)
    while len(found) < count:
        drawn = torch.randint(n, (2, 2 * (count - len(found)) + 16), generator=generator)
        keys = pair_keys(drawn[:, drawn[0] != drawn[1]], n)
        keys = keys[~torch.isin(keys, known)]
        merged = torch.cat([found, keys])
        # The first of equal draws stays, in the order of the draw.
        distinct, number = torch.unique(merged, return_inverse=True)
        first = torch.full((len(distinct),), len(merged)).scatter_reduce_(
            0, number, torch.arange(len(merged)), reduce="amin"
        )
        found = merged[first.sort().values]
    found = found[:count]
    return torch.stack([found // n, found % n])


def hard_negatives(
    train: Graph, positives: Tensor, edges: Tensor, count: int, *, seed: int, source: str = "the graph"
) -> tuple[Tensor, Tensor]:
    """For each positive (u, v) rivals that share one of its nodes and, as far as there are any, neighbours with it.

    In the manner of HeaRT: one end is kept and the other replaced, half of the rivals for either end, by the nodes with
    the highest resource allocation to the kept one in the *training* graph (of equal ones a random choice). Where too
    few nodes share a neighbour the rest is drawn uniformly among the nodes that are not linked to it.

    Args:
        train: The training graph, on the CPU.
        positives: ``[2, p]``.
        edges: ``[2, m]``: all edges of all parts; none of them is a negative.
        count: Rivals of each positive; there may be fewer in small or dense graphs.
        seed: Seed of ties and of the uniform rest.
        source: For errors.

    Returns:
        Pairs ``[2, r]`` and the number of the positive that each is the rival of, ascending.

    References:
        J. Li et al. Evaluating graph neural networks for link prediction: current pitfalls and new benchmarking.
        NeurIPS 2023.
    """
    n = train.num_nodes
    matrix = adjacency(train)
    weighted = matrix.multiply(score_form("resource_allocation", train).weight.numpy()[None, :]).tocsr()
    ends = np.concatenate([edges.numpy(), edges.numpy()[::-1]], axis=1)
    linked = sp.coo_array((np.ones(ends.shape[1], dtype=np.int8), tuple(ends)), shape=(n, n)).tocsr()
    random = np.random.default_rng(seed)
    kept = positives.numpy().reshape(-1)  # first all first nodes, then all second ones
    nodes, number = np.unique(kept, return_inverse=True)
    halves = (count - count // 2, count // 2)
    rivals: dict[int, NDArray[np.int64]] = {}
    reach = (weighted[nodes] @ np.diff(matrix.indptr).astype(np.float64)).astype(np.int64)
    for low, high in blocks_by_size(reach + np.diff(linked.indptr)[nodes]):
        scores = (weighted[nodes[low:high]] @ matrix).tocsr()
        for i in range(low, high):
            row = slice(scores.indptr[i - low], scores.indptr[i - low + 1])
            own = linked.indices[linked.indptr[nodes[i]] : linked.indptr[nodes[i] + 1]]
            rivals[i] = _rivals(scores.indices[row], scores.data[row], int(nodes[i]), own, n, max(halves), random)
    pairs, groups = [], []
    p = positives.size(1)
    for side, most in enumerate(halves):
        for g in range(p):
            i = number[side * p + g]
            some = rivals[i][:most]
            pairs.append(np.stack([np.full(len(some), nodes[i]), some]))
            groups.append(np.full(len(some), g))
    joined = np.concatenate(pairs, axis=1) if pairs else np.zeros((2, 0), dtype=np.int64)
    if not joined.size:
        raise no_negatives(n, source)
    owner = np.concatenate(groups)
    order = np.argsort(owner, kind="stable")
    return torch.from_numpy(joined[:, order]), torch.from_numpy(owner[order])


def _rivals(
    near: NDArray[np.int32],
    score: NDArray[np.float64],
    node: int,
    own: NDArray[np.int32],
    num_nodes: int,
    count: int,
    random: np.random.Generator,
) -> NDArray[np.int64]:
    """Nodes that are not linked to ``node``: those near it by falling score, then others at random."""
    open_node = ~np.isin(near, own) & (near != node)
    near, score = near[open_node], score[open_node]
    order = np.lexsort((random.random(len(near)), -score))[:count]
    found = near[order].astype(np.int64)
    missing = count - len(found)
    if missing > 0:
        closed = np.concatenate([own, found, [node]])
        if num_nodes > 4 * (count + len(closed)):
            others = np.unique(random.integers(num_nodes, size=2 * missing + 8))
            others = random.permutation(others[~np.isin(others, closed)])
        else:
            others = random.permutation(np.setdiff1d(np.arange(num_nodes), closed))
        found = np.concatenate([found, others[:missing]])
    return found
