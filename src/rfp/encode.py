"""The front door: a graph in, its trajectory out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Unpack

import torch
from torch import Tensor

from rfp.cache import EncodingCache
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.features import random_features
from rfp.graph import Graph
from rfp.operators import Operator, as_operator
from rfp.propagate import Trajectory, propagate
from rfp.settings import Arguments, Settings, shows_settings


@shows_settings(Arguments)
def encode(
    graph: Any,
    settings: Settings | None = None,
    *,
    weight: Any = None,
    features: Tensor | None = None,
    graph_keys: Tensor | None = None,
    progress: Callable[[int], None] | None = None,
    **arguments: Unpack[Arguments],
) -> Trajectory:
    r"""Encode a graph by random feature propagation (Eq. 1-3 of the paper).

    .. math::
        t = r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}, \qquad
        a^{(p)} = N(S a^{(p-1)}), \quad a^{(0)} = r \sim \mathcal D

    Args:
        graph: Anything :func:`rfp.as_graph` reads: PyG ``Data`` or ``Batch``, ``edge_index``, a matrix, a NetworkX
            graph, a data frame, what :func:`rfp.read_graph` returns, or a list of these encoded as one batch. Graphs
            of a batch never mix.
        settings: All arguments in one :class:`~rfp.settings.Settings`, which says what each means. Any of its fields
            may be given as a keyword, with settings or without.
        weight: Weights of the edges, or the name of the attribute or column that holds them (:func:`rfp.as_graph`).
        features: Start from this ``[n, k]`` or ``[B, n, k]`` instead of drawing; then ``num_channels``,
            ``num_trajectories``, ``distribution`` and ``seed`` are not used.
        graph_keys: Name the graphs by these integers instead of their content (:func:`~rfp.features.random_features`).
        progress: Called with 1 after each step of each operator.

    Returns:
        The :class:`~rfp.propagate.Trajectory`: ``states`` ``[B, n, P + 1, O k]``, ``flat()`` ``[B, n, C]``, ``report``.

    Costs O(P O (m k B + n k² B)) time, O(n O (P + 1) k B) memory for the result and two steps' worth beside it.

    Example:
        >>> import torch, rfp
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> t = rfp.encode((torch.cat([ring, ring.flip(0)], dim=1), 4), num_channels=2, num_steps=3, seed=0)
        >>> t.states.shape, t.flat().shape
        (torch.Size([1, 4, 4, 2]), torch.Size([1, 4, 8]))
    """
    settings, read = Settings.of(settings, arguments), as_graph(graph, weight=weight)
    stored = None if settings.cache is None else EncodingCache(settings.cache)
    if stored is not None:
        key = stored.key(settings, read, features, graph_keys)
        hit = stored.load(key, read.device)
        if hit is not None:
            return _with_origin(hit, settings, read, features)
    operators, drawn = prepare(settings, read, features=features, graph_keys=graph_keys)
    trajectory = propagate(operators, drawn, settings, ptr=read.offsets, progress=progress)
    if stored is not None:
        stored.save(key, trajectory)
    return _with_origin(trajectory, settings, read, features)


def _with_origin(trajectory: Trajectory, settings: Settings, graph: Graph, features: Tensor | None) -> Trajectory:
    known = settings if features is None else replace(settings, distribution="normal")
    return replace(trajectory, settings=known, graph=graph)


def prepare(
    settings: Settings, graph: Graph, *, features: Tensor | None = None, graph_keys: Tensor | None = None
) -> tuple[list[Operator], Tensor]:
    """The operators and the features ``[B, n, k]`` that :func:`~rfp.propagate.propagate` starts from."""
    operators = [as_operator(operator, graph, settings.dtype) for operator in settings.operators]
    if features is not None:
        return operators, _given_features(features, graph, settings.dtype)
    return operators, draw_features(settings, graph, graph_keys)


def draw_features(settings: Settings, graph: Graph, graph_keys: Tensor | None = None) -> Tensor:
    """The random features as they are drawn, ``[B, n, k]``."""
    return random_features(
        graph,
        num_channels=settings.num_channels,
        num_trajectories=settings.num_trajectories,
        distribution=settings.distribution,
        seed=settings.seed,
        dtype=settings.dtype,
        graph_keys=graph_keys,
    )


def _given_features(features: Tensor, graph: Graph, dtype: torch.dtype) -> Tensor:
    if features.dim() == 2:
        features = features[None]
    if features.dim() != 3 or features.size(1) != graph.num_nodes:
        raise ArgumentError(
            f"features must have shape [n, k] or [B, n, k] with n = {graph.num_nodes}, got {list(features.shape)}"
        )
    if not bool(torch.isfinite(features).all()):
        raise ArgumentError("features must be finite, got NaN or infinity; clean them or draw random ones")
    return features.to(graph.device, dtype)
