r"""Scores from trajectories: what products of states of random features estimate, with standard errors.

If :math:`E[q q^\top] = I / s`, the columns of :math:`x = A W^{1/2} q` satisfy
:math:`s\, E[x(u) x(v)] = (A W A)_{uv}`: common neighbours, Adamic-Adar and resource allocation are one sparse product
of features weighted by the degrees of the nodes they start at, and a product of two numbers for each pair and channel.
Katz takes further steps of the same trajectory (:meth:`~rfp.links.definitions.ScoreForm.mixing`). A² is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.features import random_features
from rfp.graph import Graph
from rfp.links.definitions import ScoreForm
from rfp.one_loop import states
from rfp.operators import MatrixOperator
from rfp.products.channel_means import PAIR_BYTES
from rfp.products.draw import variance_of
from rfp.settings import Settings


@dataclass(frozen=True)
class Sketch:
    r"""One trajectory's y: the score of a pair is estimated by :math:`s / k \sum_c \sum_t \pm y_{tc}(u) y_{tc}(v)`.

    Args:
        y: ``[n, T, k]``.
        signs: ``[T]``.
        scale: s.
        num_real: Channels that are samples: with an orthonormal start there are at most n.
        left_out: What the variance is multiplied by, :math:`1 - k / n` for a sample without replacement.
    """

    y: Tensor
    signs: Tensor
    scale: float
    num_real: int
    left_out: float

    def factors(self) -> tuple[Tensor, Tensor]:
        """Two matrices ``[n, T k]`` whose product is the estimate of all scores."""
        right = self.y.flatten(1)
        signed = self.y * self.signs[:, None]
        return signed.flatten(1) * (self.scale / max(self.num_real, 1)), right

    def pairs(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the mean for pairs of nodes, ``[p]`` each; NaN where one sample is all there is."""
        _, T, k = self.y.shape
        rows = max(1, PAIR_BYTES // (3 * T * k * self.y.element_size()))
        blocks = zip(torch.split(u, rows), torch.split(v, rows), strict=True)
        parts = [self._block(left, right) for left, right in blocks]
        if not parts:
            return self.y.new_zeros(0), self.y.new_zeros(0)
        means, variances = zip(*parts, strict=True)
        return torch.cat(means), torch.cat(variances)

    def _block(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.einsum("ptk,ptk,t->pk", self.y[u], self.y[v], self.signs)
        count, k = self.num_real, z.size(1)
        mean = z.sum(1) / max(count, 1)
        # Columns of zeros are no samples, but each has added the square of the mean.
        spread = (z - mean[:, None]).square().sum(1) - (k - count) * mean.square()
        if self.left_out == 0:
            variance = torch.zeros_like(mean)
        elif count < 2:
            variance = torch.full_like(mean, math.nan)
        else:
            variance = spread.clamp_min(0) / ((count - 1) * count) * self.left_out
        return mean * self.scale, variance * self.scale**2


def sketches(graph: Graph, form: ScoreForm, settings: Settings, *, first_trajectory: int = 0) -> Iterator[Sketch]:
    """One :class:`Sketch` after the other, B of them; each takes n T k numbers.

    Args:
        graph: Simple.
        form: The score.
        settings: k, B, distribution, start, seed and dtype are read.
        first_trajectory: Number of the first of them.
    """
    root = form.weight.sqrt().to(graph.device)
    csr = graph.pattern
    first = MatrixOperator(csr.with_value((csr.value * root[csr.col.long()]).to(settings.dtype)))
    mixing, signs = (part.to(graph.device, settings.dtype) for part in form.mixing())
    n, T = graph.num_nodes, form.num_states
    scale = 1 / variance_of(settings.distribution) if settings.start == "drawn" else float(n)
    for b in range(first_trajectory, first_trajectory + settings.num_trajectories):
        features = random_features(
            graph,
            num_channels=settings.num_channels,
            first_trajectory=b,
            distribution=settings.distribution,
            seed=settings.seed,
            dtype=settings.dtype,
        )
        num_real, left_out = settings.num_channels, 1.0
        y = features.new_zeros(n, T, settings.num_channels)
        # W is the identity where there is more than one step, so S_1 serves them all. So few steps are not worth the
        # time that a compiled backend takes to load.
        walk = states(first, features, num_steps=T, normalization="none", start=settings.start, backend="sparse")
        for i, a in enumerate(walk):
            if i:
                y += mixing[i - 1][:, None] * (a[0] * form.decay**i)[:, None]
            elif settings.start == "orthonormal":
                num_real = int((a[0].square().sum(0) > 0).sum())
                left_out = max(1 - num_real / n, 0.0) if n else 0.0
        yield Sketch(y, signs, scale, num_real, left_out)


def estimate_pairs(
    graph: Graph, form: ScoreForm, pairs: Tensor, settings: Settings, *, first_trajectory: int = 0
) -> tuple[Tensor, Tensor]:
    """Estimates and standard errors for pairs of nodes, ``[p]`` float64 each; one trajectory in memory at a time.

    Args:
        graph: Simple.
        form: The score.
        pairs: ``[2, p]``.
        settings: See :func:`sketches`.
        first_trajectory: See :func:`sketches`.
    """
    total = torch.zeros(pairs.size(1), dtype=torch.float64, device=graph.device)
    squares, variance = total.clone(), total.clone()
    u, v = pairs
    for sketch in sketches(graph, form, settings, first_trajectory=first_trajectory):
        mean, within = sketch.pairs(u, v)
        total += mean.double()
        squares += mean.double().square()
        variance += within.double()
    B = settings.num_trajectories
    value = total / B
    if B > 1:  # trajectories of one sample each tell their spread together
        between = (squares / B - value.square()).clamp_min(0) / (B - 1)
        error = torch.where(variance.isnan(), between, variance / B**2).sqrt()
    else:
        error = variance.sqrt().nan_to_num(nan=math.inf)
    return value + form.direct * adjacent(graph, pairs), error


def adjacent(graph: Graph, pairs: Tensor) -> Tensor:
    """Whether each pair is an edge, as 0 and 1: ``[p]`` float64. O((m + p) log m)."""
    if not graph.num_edges:
        return torch.zeros(pairs.size(1), dtype=torch.float64, device=graph.device)
    n = graph.num_nodes
    known = torch.sort(graph.edge_index[0] * n + graph.edge_index[1]).values
    asked = pairs[0] * n + pairs[1]
    place = torch.searchsorted(known, asked).clamp_max(len(known) - 1)
    return (known[place] == asked).double()
