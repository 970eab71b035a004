"""Scores of given pairs of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.links.estimates import estimate_pairs
from rfp.links.exact import exact_pairs
from rfp.links.scoring import DEFAULT_DRAW, ScoreArguments, ScoreTask, Scoring
from rfp.products.channel_means import Uncertain, checked_pairs
from rfp.settings import shows_settings


@dataclass(frozen=True)
class LinkScores(Uncertain):
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


@shows_settings(ScoreArguments, Scoring, DEFAULT_DRAW)
def score_pairs(graph: Any, pairs: Tensor, **arguments: Unpack[ScoreArguments]) -> LinkScores:
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
        arguments: How the features of an estimate are drawn: ``num_channels`` (256), ``num_trajectories`` (4),
            ``distribution`` (``"normal"``), ``start`` (``"orthonormal"``), ``seed`` (0), ``dtype`` (float32).

    Costs B times O(T m k + p T k), and O(n k²) for an orthonormal start, in memory of O(n T k), with T = 1 (Katz: half
    the length). Exact: O(d_u + d_v) a pair; Katz O(L m) for each distinct node.

    Raises:
        GraphError: The graph is not simple.
        ArgumentError: A pair holds a node that does not exist, or the same node twice.

    Example:
        >>> import rfp
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> graph = rfp.Graph(torch.cat([ring, ring.flip(0)], dim=1), 4)
        >>> pairs = torch.tensor([[0, 0], [2, 1]])
        >>> score_pairs(graph, pairs, score="resource_allocation").value.round(decimals=4) + 0.0
        tensor([1., 0.], dtype=torch.float64)
    """
    task = ScoreTask.of(graph, arguments)
    pairs = different_nodes(checked_pairs("pairs", pairs, task.graph.num_nodes, task.graph.device))
    if task.scoring.exact:
        value = exact_pairs(task.graph, task.form, pairs, task.scoring.progress)
        return LinkScores(pairs, value, torch.zeros_like(value), 0)
    value, error = estimate_pairs(task.graph, task.form, pairs, task.settings)
    return LinkScores(pairs, value, error, task.num_samples)


def different_nodes(pairs: Tensor) -> Tensor:
    """The pairs ``[2, p]``; raises if one is of a node with itself."""
    same = (pairs[0] == pairs[1]).nonzero()
    if len(same):
        where = int(same[0])
        raise ArgumentError(f"a pair needs two different nodes, got {int(pairs[0, where])} twice in pair {where}")
    return pairs
