r"""The product view: what the features tell about powers of S at a node and between two nodes (Proposition 4.1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.explorer.encodings import Asked
from rfp.operators import from_name
from rfp.products import pairs

# Numbers compared at a time when looking for the nearest nodes.
_CHUNK = 1 << 24


def pair_products(asked: Asked, *, operator: int, node: int, other: int) -> dict[str, Any]:
    r"""Estimates of :math:`(S^p)_{uv}` for p = 0, ..., P with their standard errors, and the exact values.

    The features are those of the encoding, propagated without its normalisation, which would mix the channels
    (:mod:`rfp.products`).

    Args:
        asked: An encoding.
        operator: Which of its operators.
        node: u.
        other: v; the same node for return probabilities.

    Raises:
        ArgumentError: There is no such node.
    """
    settings, name = asked.settings, str(asked.settings.operators[operator])
    check_node(asked, node)
    check_node(asked, other)
    found = pairs(
        asked.graph.graph,
        torch.tensor([[node], [other]]),
        num_powers=settings.num_steps,
        operator=name,
        num_channels=settings.num_channels,
        num_trajectories=settings.num_trajectories,
        distribution=settings.distribution,
        start=settings.start,
        seed=settings.seed,
        dtype=torch.float64,
    )
    return {
        "estimate": found.value[0].tolist(),
        "standard_error": found.standard_error[0].tolist(),
        "exact": exact_products(asked, name, node, other).tolist(),
        "samples": found.num_samples,
        "operator": name,
    }


def check_node(asked: Asked, node: int) -> None:
    """Refuse a node that the graph does not have."""
    n = asked.graph.graph.num_nodes
    if not 0 <= node < n:
        raise ArgumentError(f"node must be from 0 to {n - 1}, got {node}")


def exact_products(asked: Asked, operator: str, node: int, other: int) -> Tensor:
    r""":math:`(S^p)_{uv}` for p = 0, ..., P, ``[P + 1]``: one column of the powers, O(m P)."""
    S = from_name(operator, asked.graph.graph, torch.float64)
    column = torch.zeros(S.num_nodes, 1, dtype=torch.float64)
    column[other] = 1
    values = [column[node, 0]]
    for _ in range(asked.settings.num_steps):
        column = S @ column
        values.append(column[node, 0])
    return torch.stack(values)


def nearest(asked: Asked, node: int, count: int = 10) -> list[tuple[int, float]]:
    """The nodes whose whole encoding is nearest to that of a node, with their Euclidean distances, nearest first.

    Costs O(n C).
    """
    check_node(asked, node)
    flat = asked.trajectory.storage.flatten(1)  # [n, B O (P + 1) k]
    rows = max(1, _CHUNK // max(1, flat.size(1)))
    distance = torch.cat([(part - flat[node]).double().norm(dim=1) for part in torch.split(flat, rows)])
    distance[node] = float("inf")
    distance = torch.where(distance.isnan(), float("inf"), distance)
    found = distance.topk(min(count, len(flat) - 1), largest=False)
    pairs_found = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return [(i, d) for i, d in pairs_found if d < float("inf")]
