"""Means over channels of the products of two states, with standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.errors import ArgumentError

# Pairs are multiplied in blocks whose gathered states take about as much.
PAIR_BYTES = 1 << 27


class Uncertain:
    """Values with standard errors, ``value`` and ``standard_error`` of one shape."""

    value: Tensor
    standard_error: Tensor

    def interval(self, deviations: float = 1.96) -> tuple[Tensor, Tensor]:
        """Bounds that hold the true value in about 95 % of the cases if there are some tens of samples."""
        reach = deviations * self.standard_error
        return self.value - reach, self.value + reach


@dataclass(frozen=True)
class PowerEstimate(Uncertain):
    """Estimates of entries of :math:`S^0, S^1, \\dots, S^L`.

    Args:
        value: ``[rows, L + 1]``, a row for each node or pair.
        standard_error: The same shape; 0 where the value is exact, infinite where one sample is all there is.
        num_samples: Channels that were averaged, k B.
    """

    value: Tensor
    standard_error: Tensor
    num_samples: int


def checked_pairs(name: str, pairs: Tensor, num_nodes: int, device: torch.device) -> Tensor:
    """Pairs of nodes of a graph, ``[2, num_pairs]`` int64 on its device; raises if they are none, with their name."""
    if not isinstance(pairs, Tensor) or pairs.dim() != 2 or pairs.size(0) != 2:
        got = list(pairs.shape) if isinstance(pairs, Tensor) else type(pairs).__name__
        raise ArgumentError(f"{name} must be a tensor of shape [2, num_pairs], got {got}")
    if pairs.is_floating_point() or pairs.dtype == torch.bool:
        raise ArgumentError(f"{name} must hold node numbers, got {pairs.dtype}")
    pairs = pairs.to(device, torch.int64)
    if pairs.numel():
        low, high = int(pairs.min()), int(pairs.max())
        if low < 0 or high >= num_nodes:
            raise ArgumentError(f"{name} must hold nodes in 0..{num_nodes - 1}, got {low if low < 0 else high}")
    return pairs


@dataclass(frozen=True)
class ChannelMeans:
    """Mean over channels, and its error, of the products of two states.

    Args:
        edge_index: Pairs of nodes; ``None`` for every node with itself.
        scale: ``[rows]`` or ``[1]``, s.
        owner: ``[rows]``, the graph of each row; given for an orthonormal start, as the following.
        real: ``[B, graphs, k]``, False for columns that are no samples.
        sizes: ``[graphs]``, n: the columns are a sample without replacement from so many.
    """

    edge_index: Tensor | None
    scale: Tensor
    owner: Tensor | None = None
    real: Tensor | None = None
    sizes: Tensor | None = None

    def __call__(self, left: Tensor, right: Tensor, exchange: bool) -> tuple[Tensor, Tensor]:
        if self.edge_index is None:
            return self._of(left * right, slice(None))
        b, _, k = left.shape
        rows = max(1, PAIR_BYTES // (4 * b * k * left.element_size()))
        parts = []
        for low in range(0, max(self.edge_index.size(1), 1), rows):
            block = slice(low, low + rows)
            u, v = self.edge_index[:, block]
            product = left[:, u] * right[:, v]
            if exchange:
                product = (product + right[:, u] * left[:, v]) / 2
            parts.append(self._of(product, block))
        values, errors = zip(*parts, strict=True)
        return torch.cat(values), torch.cat(errors)

    def _of(self, x: Tensor, block: slice) -> tuple[Tensor, Tensor]:  # [B, rows, k] -> [rows] twice
        scale = self.scale if len(self.scale) == 1 else self.scale[block]
        b, _, k = x.shape
        if self.owner is None or self.real is None or self.sizes is None:
            value, total = x.mean((0, 2)), b * k
            if total == 1:
                return value * scale, torch.full_like(value, math.inf)
            variance = (x - value[:, None]).square().sum((0, 2)) / ((total - 1) * total)
            return value * scale, variance.sqrt() * scale
        owner = self.owner[block]
        count_of = self.real.sum(2).to(x.dtype)  # [B, graphs]
        count = count_of[:, owner]
        mean = x.sum(2) / count.clamp_min(1)
        spread = (x - mean[..., None]).square().sum(2)
        # Columns of zeros are no samples, but each has added the square of the mean.
        spread = (spread - (k - count) * mean.square()).clamp_min(0)
        left_out = (1 - count_of / self.sizes.to(x.dtype))[:, owner]
        variance = spread / ((count - 1) * count).clamp_min(1) * left_out
        unknown = (count <= 1) & (left_out > 0)
        variance = variance.masked_fill(unknown, math.inf)
        return mean.mean(0) * scale, variance.sum(0).sqrt() / b * scale
