"""Scores of given pairs of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor

from rfp.errors import ArgumentError, GraphError, unknown_choice
from rfp.graph import Graph
from rfp.links.definitions import KATZ_BETA, KATZ_LENGTH, score_form
from rfp.links.estimates import estimate_pairs
from rfp.links.exact import Progress, exact_pairs
from rfp.products import DrawArguments
from rfp.settings import Settings
from rfp.theory.simple import require_simple

# 1024 samples in four trajectories: one of them is in memory at a time.
DEFAULT_DRAW = Settings(num_channels=256, num_trajectories=4, start="orthonormal", normalization="none")


@dataclass(frozen=True)
class LinkScores:
    """Scores of pairs of nodes.

    Args:
        pairs: ``[2, p]``.
        value: ``[p]`` float64.
        standard_error: ``[p]``; 0 where the value is exact, infinite where one sample is all there is.
        num_samples: Channels that were averaged, k B; 0 for an exact computation.
    """

    pairs: Tensor
    value: Tensor
    standard_error: Tensor
    num_samples: int

    def interval(self, deviations: float = 1.96) -> tuple[Tensor, Tensor]:
        """Bounds that hold the score in about 95 % of the cases."""
        reach = deviations * self.standard_error
        return self.value - reach, self.value + reach


def score_pairs(
    graph: Any,
    pairs: Tensor,
    *,
    score: str = "common_neighbors",
    exact: bool = False,
    beta: float = KATZ_BETA,
    max_length: int = KATZ_LENGTH,
    progress: Progress = lambda done, total: None,
    **draw: Unpack[DrawArguments],
) -> LinkScores:
    r"""Common neighbours, Adamic-Adar, resource allocation or Katz index of pairs of nodes.

    The formulas are in :mod:`rfp.links.definitions`, the estimator in :mod:`rfp.links.estimates`. An estimate of common
    neighbours from K samples has a standard error of about :math:`\sqrt{(d_u d_v + s(u, v)^2) / K}`: it tells pairs
    with many common neighbours from others, and is no way to see the first one between hubs. With k ≥ n and an
    orthonormal start, the default, nothing is random and the error is 0.

    Args:
        graph: A simple graph in any form :func:`rfp.as_graph` takes (:func:`rfp.theory.simplify` makes one).
        pairs: ``[2, p]``, two different nodes each, edges or not. The order of the two does not matter.
        score: A key of :data:`SCORES`.
        exact: No estimate: rows are intersected (Katz: walks are counted) for every pair.
        beta: For Katz: a walk of length l counts :math:`\beta^l`.
        max_length: For Katz: walks of up to so many steps.
        progress: For an exact computation: told how much of how much is done.
        draw: ``num_channels`` (256), ``num_trajectories`` (4), ``distribution`` (``"normal"``), ``start``
            (``"orthonormal"``), ``seed`` (0), ``dtype`` (float32).

    Costs B times O(T m k + p T k), and O(n k²) for an orthonormal start, in memory of O(n T k), with T = 1 (Katz: half
    the length). Exact: O(d_u + d_v) a pair; Katz O(L m) for each distinct node.

    Raises:
        GraphError: The graph is not simple.
        ArgumentError: A pair holds a node that does not exist, or the same node twice.

    Example:
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> graph = Graph(torch.cat([ring, ring.flip(0)], dim=1), 4)
        >>> score_pairs(graph, torch.tensor([[0, 0], [2, 1]]), score="resource_allocation").value.round(decimals=4)
        tensor([1., 0.], dtype=torch.float64)
    """
    read = simple_graph(graph)
    pairs = checked_pairs(pairs, read)
    form = score_form(score, read, beta=beta, max_length=max_length)
    settings = draw_settings(draw, read)
    if exact:
        value = exact_pairs(read, form, pairs, progress)
        return LinkScores(pairs, value, torch.zeros_like(value), 0)
    value, error = estimate_pairs(read, form, pairs, settings)
    return LinkScores(pairs, value, error, settings.num_channels * settings.num_trajectories)


def simple_graph(graph: Any) -> Graph:
    """One simple graph; raises with the reason otherwise."""
    read = require_simple(graph)
    if read.num_graphs > 1:
        raise GraphError(f"links are scored in one graph, got a batch of {read.num_graphs}; give them one by one")
    return read


def draw_settings(draw: DrawArguments, graph: Graph) -> Settings:
    """The settings of a draw; one trajectory is enough where it spans all nodes."""
    for name in draw:
        if name not in DrawArguments.__annotations__:
            raise unknown_choice("an argument", name, DrawArguments.__annotations__)
    settings = Settings.of(DEFAULT_DRAW, draw)
    whole = settings.start == "orthonormal" and settings.num_channels >= graph.num_nodes
    return replace(settings, num_trajectories=1) if whole and "num_trajectories" not in draw else settings


def checked_pairs(pairs: Tensor, graph: Graph) -> Tensor:
    """Pairs of two different nodes of the graph, ``[2, p]`` int64 on its device."""
    given: Any = pairs
    if not isinstance(given, Tensor) or pairs.dim() != 2 or pairs.size(0) != 2:
        got = list(given.shape) if isinstance(given, Tensor) else type(given).__name__
        raise ArgumentError(f"pairs must be a tensor of shape [2, num_pairs], got {got}")
    if pairs.is_floating_point() or pairs.dtype == torch.bool:
        raise ArgumentError(f"pairs must hold node numbers, got {pairs.dtype}")
    pairs = pairs.to(graph.device, torch.int64)
    if not pairs.numel():
        return pairs
    low, high = int(pairs.min()), int(pairs.max())
    if low < 0 or high >= graph.num_nodes:
        bad = low if low < 0 else high
        raise ArgumentError(f"pairs must hold nodes in 0..{graph.num_nodes - 1}, got {bad}")
    same = (pairs[0] == pairs[1]).nonzero()
    if len(same):
        where = int(same[0])
        raise ArgumentError(f"a pair needs two different nodes, got {int(pairs[0, where])} twice in pair {where}")
    return pairs
