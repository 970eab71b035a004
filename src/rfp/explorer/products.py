r"""The product view: what unnormalised states estimate at a node and between two nodes (Proposition 4.1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.explorer.encodings import Asked
from rfp.operators import from_name

# E[r²] of an entry, by which products are divided.
_VARIANCE = {"normal": 1.0, "rademacher": 1.0, "uniform": 1 / 3}
# Numbers compared at a time when looking for the nearest nodes.
_CHUNK = 1 << 24


def pair_products(asked: Asked, *, operator: int, node: int, other: int) -> dict[str, Any]:
    r"""Estimates of :math:`(S^p)_{uv}` for p = 0, ..., P with their standard errors, and the exact values.

    .. math:: (S^p)_{vu} \approx \frac{1}{kB\sigma^2} \sum_{b, c} r_{bc}(u)\, (S^p r_{bc})(v)

    Args:
        asked: A finished encoding with ``normalization="none"``.
        operator: Which of its operators.
        node: v.
        other: u; the same node for return probabilities.
    """
    settings = asked.settings
    if settings.normalization != "none":
        raise ArgumentError(
            f"products of normalised states estimate no power of S; normalization is {settings.normalization!r}"
        )
    n = asked.graph.graph.num_nodes
    for index in (node, other):
        if not 0 <= index < n:
            raise ArgumentError(f"node must be from 0 to {n - 1}, got {index}")
    storage = asked.trajectory.storage[:, :, operator]  # [n, B, P + 1, k]
    kept = min(settings.num_channels, n) if settings.start == "orthonormal" else settings.num_channels
    here, there = storage[node, ..., :kept].double(), storage[other, :, :1, :kept].double()
    samples = (there * here).transpose(0, 1).flatten(1)  # [P + 1, B k]
    # Columns of norm 1 have entries of variance 1/n, whatever they were drawn from.
    samples = samples / (_VARIANCE[str(settings.distribution)] if settings.start == "drawn" else 1 / n)
    count = samples.size(1)
    error = samples.std(dim=1) / count**0.5 if count > 1 else torch.full((len(samples),), float("nan"))
    return {
        "estimate": samples.mean(dim=1).tolist(),
        "standard_error": error.tolist(),
        "exact": exact_products(asked, operator, node, other).tolist(),
        "samples": count,
        "operator": str(settings.operators[operator]),
    }


def exact_products(asked: Asked, operator: int, node: int, other: int) -> Tensor:
    r""":math:`(S^p)_{vu}` for p = 0, ..., P, ``[P + 1]``: one column of the powers, O(m P)."""
    S = from_name(str(asked.settings.operators[operator]), asked.graph.graph, torch.float64)
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
    flat = asked.trajectory.storage.flatten(1)  # [n, B O (P + 1) k]
    if not 0 <= node < len(flat):
        raise ArgumentError(f"node must be from 0 to {len(flat) - 1}, got {node}")
    rows = max(1, _CHUNK // max(1, flat.size(1)))
    distance = torch.cat([(part - flat[node]).double().norm(dim=1) for part in torch.split(flat, rows)])
    distance[node] = float("inf")
    distance = torch.where(distance.isnan(), float("inf"), distance)
    found = distance.topk(min(count, len(flat) - 1), largest=False)
    pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
    return [(i, d) for i, d in pairs if d < float("inf")]
