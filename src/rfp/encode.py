"""The front door: a graph in, its trajectory out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rfp.cache import EncodingCache
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.features import Distribution, random_features
from rfp.graph import Graph
from rfp.normalization import NormalizationChoice
from rfp.operators import Operator, as_operator
from rfp.propagate import Trajectory, propagate
from rfp.settings import Settings


def encode(
    graph: Any,
    *,
    num_channels: int = 16,
    num_steps: int = 16,
    operators: Sequence[Any] = ("normalized_adjacency",),
    normalization: NormalizationChoice = "qr",
    normalize_every: int = 1,
    num_trajectories: int = 1,
    distribution: Distribution = "normal",
    start: str = "drawn",
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    storage_dtype: torch.dtype | None = None,
    backend: str = "auto",
    strict: bool = False,
    features: Tensor | None = None,
    graph_keys: Tensor | None = None,
    cache: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> Trajectory:
    r"""Encode a graph by random feature propagation (Eq. 1-3 of the paper).

    .. math::
        t = r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}, \qquad
        a^{(p)} = N(S a^{(p-1)}), \quad a^{(0)} = r \sim \mathcal D

    Args:
        graph: PyG ``Data`` or ``Batch``, :class:`~rfp.graph.Graph`, ``(edge_index, num_nodes)``, SciPy sparse matrix,
            NetworkX graph, or a list of these encoded as one batch. Graphs of a batch never mix.
        num_channels: k.
        num_steps: P; 0 gives plain random node features.
        operators: Each a name (:mod:`rfp.operators`), a matrix, a callable ``a -> S a`` or an
            :class:`~rfp.operators.Operator`. All start from the same features.
        normalization: ``"qr"``, ``"l2"``, ``"none"``, ``"inverse_gram"``, or a callable ``(a [B, n, k], ptr) -> a``.
        normalize_every: w.
        num_trajectories: B. They share every sparse product.
        distribution: ``"normal"``, ``"rademacher"``, ``"uniform"``, or a callable
            (:func:`~rfp.features.random_features`).
        start: How the features begin, for each graph and trajectory: as ``"drawn"``; with columns of ``"unit"`` length;
            or ``"orthonormal"``, Q of their own QR (columns that depend on earlier ones, and those beyond the n-th, are
            zero). All steps follow from these.
        seed: The draw is a pure function of (seed, graph content, trajectory, node, channel).
        dtype: Precision of the computation, float32 or float64.
        storage_dtype: Precision of the result, if another.
        backend: ``"auto"``, or one of :data:`rfp.backends.BACKENDS`.
        strict: Raise where the result departs from a plain full-rank QR (dependent columns).
        features: Start from this ``[n, k]`` or ``[B, n, k]`` instead of drawing; then ``num_channels``,
            ``num_trajectories``, ``distribution`` and ``seed`` are not used.
        graph_keys: Name the graphs by these integers instead of their content (:func:`~rfp.features.random_features`).
        cache: Folder of stored encodings, keyed by the content of the graph, every argument and the version.
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
    settings = Settings(
        num_channels=num_channels,
        num_steps=num_steps,
        operators=tuple(operators) if isinstance(operators, list | tuple) else operators,  # type: ignore[arg-type]
        normalization=normalization,
        normalize_every=normalize_every,
        num_trajectories=num_trajectories,
        distribution=distribution,
        start=start,
        seed=seed,
        dtype=dtype,
        storage_dtype=storage_dtype,
        backend=backend,
        strict=strict,
    )
    return encode_with(
        settings, as_graph(graph), features=features, graph_keys=graph_keys, cache=cache, progress=progress
    )


def encode_with(
    settings: Settings,
    graph: Graph,
    *,
    features: Tensor | None = None,
    graph_keys: Tensor | None = None,
    cache: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> Trajectory:
    """:func:`encode` with its arguments in one object."""
    stored = None if cache is None else EncodingCache(cache)
    if stored is not None:
        key = stored.key(settings, graph, features, graph_keys)
        hit = stored.load(key, graph.device)
        if hit is not None:
            return hit
    operators, drawn = prepare(settings, graph, features=features, graph_keys=graph_keys)
    trajectory = propagate_with(settings, graph, operators, drawn, progress)
    if stored is not None:
        stored.save(key, trajectory)
    return trajectory


def propagate_with(
    settings: Settings,
    graph: Graph,
    operators: Sequence[Operator],
    features: Tensor,
    progress: Callable[[int], None] | None = None,
) -> Trajectory:
    """:func:`~rfp.propagate.propagate` with the settings' arguments, from features that are drawn."""
    return propagate(
        operators,
        features,
        start=settings.start,
        num_steps=settings.num_steps,
        normalization=settings.normalization,
        normalize_every=settings.normalize_every,
        ptr=graph.offsets,
        backend=settings.backend,
        strict=settings.strict,
        storage_dtype=settings.storage_dtype,
        progress=progress,
    )


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
