"""The front door: a graph in, its trajectory out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Unpack

from torch import Tensor

from rfp.backends import choose
from rfp.backends.backend import Backend
from rfp.backends.problem import Problem
from rfp.cache import EncodingCache
from rfp.conversion import as_graph
from rfp.features import check_keys
from rfp.graph import Graph
from rfp.hashing import mixed_keys
from rfp.one_loop import run_problem
from rfp.precision import full_precision
from rfp.report import Report
from rfp.settings import Arguments, Settings, shows_settings
from rfp.sinks import KeptSteps, Memory
from rfp.trajectory import Trajectory


@shows_settings(Arguments)
@full_precision
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
        graph: Anything that :func:`rfp.as_graph` reads: PyG ``Data`` or ``Batch``, ``edge_index``, a matrix, a NetworkX
            graph, a data frame, or what :func:`rfp.read_graph` returns. A list of these is encoded as one batch, in
            which graphs never mix.
        settings: All arguments in one :class:`~rfp.settings.Settings`, which explains each. You can give any of its
            fields as a keyword, with or without ``settings``.
        weight: Weights of the edges, or the name of the attribute or column that holds them (:func:`rfp.as_graph`).
        features: Start from these features ``[n, k]`` or ``[B, n, k]`` instead of drawing. ``num_channels``,
            ``num_trajectories``, ``distribution`` and ``seed`` are then not used.
        graph_keys: Name the graphs by these integers instead of their content (:func:`~rfp.features.random_features`).
        progress: Called with 1 after each step of each operator.

    Returns:
        The :class:`~rfp.trajectory.Trajectory`: ``states`` ``[B, n, P + 1, O k]``, ``flat()`` ``[B, n, C]``, and
        ``report``.

    Takes O(P O (m k B + n k² B)) time, and O(n O (P + 1) k B) memory for the result plus that of two steps.

    Example:
        >>> import torch, rfp
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> t = rfp.encode((torch.cat([ring, ring.flip(0)], dim=1), 4), num_channels=2, num_steps=3, seed=0)
        >>> t.states.shape, t.flat().shape
        (torch.Size([1, 4, 4, 2]), torch.Size([1, 4, 8]))
    """
    settings, read = Settings.of(settings, arguments), as_graph(graph, weight=weight)
    trajectory = encode_graph(read, settings, features=features, graph_keys=graph_keys, progress=progress)
    if graph_keys is None:
        return trajectory
    # So that nodes that arrive later continue this draw.
    return replace(trajectory, graph=read.with_keys(mixed_keys(graph_keys, read.device)))


def encode_graph(
    graph: Graph,
    settings: Settings,
    *,
    features: Tensor | None = None,
    graph_keys: Tensor | None = None,
    progress: Callable[[int], None] | None = None,
    looks: bool = True,
) -> Trajectory:
    """:func:`encode` of what is read and checked already: what the faces inside a model call.

    Args:
        looks: ``False`` where the caller looks for what is not finite, and nothing here may wait for a GPU to tell.

    The other arguments are those of :func:`encode`.
    """

    if graph_keys is not None:
        check_keys(graph_keys, graph)

    def compute() -> tuple[Tensor, Report]:
        plain = not looks and features is None and graph_keys is None and progress is None
        if plain and graph.sorts_on_gpu:
            from rfp.backends.fused.new_batches import new_batch_trajectory

            if (found := new_batch_trajectory(settings, graph)) is not None:
                return found
        problem = Problem.of(settings, graph, features, graph_keys)
        memory = Memory(problem)
        report = run_problem(problem, memory, progress=progress, looks=looks)
        return memory.storage, report

    if settings.cache is None:
        storage, report = compute()
    else:
        storage, report = EncodingCache(settings.cache).through(settings, graph, features, graph_keys, compute)
    known = settings if features is None else replace(settings, distribution="normal")
    return Trajectory(storage, report, known, graph, drawn=features is None)


def encode_steps(
    graph: Graph,
    settings: Settings,
    steps: Sequence[int],
    *,
    chosen: tuple[Backend, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Tensor, Report]:
    """Some steps of an encoding, ``[n, B, O K k]``: the others are not held where a backend goes step by step.

    Args:
        graph: What is encoded.
        settings: All arguments; what a ``cache`` holds is whole, so all steps are held then.
        steps: Their numbers, ascending.
        chosen: A backend that goes step by step, and why that one, instead of the one that the settings ask for.
        progress: Called with 1 after each step of each operator.
    """
    if settings.cache is None and (chosen is not None or len(steps) <= settings.num_steps):
        problem = Problem.of(settings, graph)
        memory = Memory(problem, len(steps))  # takes its place when the first step comes
        backend, reason = chosen or choose(problem, settings.backend)
        if backend.steps is not None:
            report = run_problem(problem, KeptSteps(memory, steps), chosen=(backend, reason), progress=progress)
            return memory.storage.flatten(2), report
    trajectory = encode_graph(graph, settings, progress=progress)
    return trajectory.select(steps), trajectory.report
