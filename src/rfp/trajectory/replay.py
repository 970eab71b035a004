"""All rows of a larger graph, with the factors of a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.features import random_features
from rfp.graph import Graph
from rfp.one_loop import states
from rfp.operators import Operator, as_operator
from rfp.report import Report
from rfp.settings import Settings
from rfp.trajectory.stored_states import REPLAY, States, StoredStates


def replay(
    trajectory: States,
    graph: Any,
    *,
    weight: Any = None,
    features: Tensor | None = None,
    operators: Sequence[Any] | None = None,
) -> States:
    r"""Encode a larger graph with the stored factors: :math:`a'^{(p)} = (S' a'^{(p-1)}) W_p`, all rows computed.

    Node i of the trajectory is node i of the graph; nodes from n on are new. Their features continue the draw: those of
    index n, n + 1, ... under the key of the graph that was encoded, so the first n rows of :math:`r` are unchanged.

    Nothing is normalised anew, so old rows move only as far as the new edges move them, and the columns keep their
    meaning; they are no longer exactly orthonormal. What is moved grows: a change of column j along an eigenvector of
    :math:`\lambda` is multiplied by :math:`\lambda / \lambda_j` in each step. With many steps use :func:`extend`, whose
    old rows stay, or encode anew.

    Args:
        trajectory: From :func:`rfp.encode`, of one graph.
        graph: The larger graph, anything :func:`rfp.as_graph` reads.
        weight: As in :func:`rfp.as_graph`.
        features: ``[n' - n, k]`` or ``[B, n' - n, k]``: rows of :math:`a^{(0)}` of the new nodes, where the trajectory
            started from given features.
        operators: Operators of the larger graph, where the trajectory's are not names.

    Returns:
        The trajectory of all n' nodes, with the same factors. Computed in float64, kept in the precision it had. O(P O
        m' k B + P O n' k² B).

    Example:
        >>> import rfp
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> longer = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
        >>> t = rfp.encode((path, 3), num_channels=2, num_steps=4)
        >>> t.replay((longer, 4)).states.shape
        torch.Size([1, 4, 5, 2])
    """
    settings, old = trajectory.origin()
    larger = as_graph(graph, weight=weight)
    if larger.num_graphs != 1 or larger.num_nodes < old.num_nodes:
        raise ArgumentError(
            f"the graph must be one and hold the {old.num_nodes} nodes of the trajectory, got {larger.num_graphs} "
            f"graph(s) of {larger.num_nodes} nodes; nodes that leave need a new encoding"
        )
    larger = larger.to(old.device).with_keys(old.keys)
    begun = trajectory.storage[:, :, 0, 0].transpose(0, 1).double()
    start = torch.cat([begun, features_of_new(trajectory, larger.num_nodes, features)], dim=1)
    chosen = [as_operator(one, larger, torch.float64) for one in operators_of(settings, operators)]
    kept = [
        walk(operator, start, settings, factors) for operator, factors in zip(chosen, trajectory.factors, strict=True)
    ]
    storage = torch.stack(kept, dim=2).to(trajectory.storage.dtype)
    return grown(trajectory, storage, larger, "all rows computed with the stored factors")


def grown(trajectory: States, storage: Tensor, graph: Graph, how: str) -> States:
    """The trajectory of the larger graph, which keeps the factors it was computed with."""
    return replace(
        trajectory, storage=storage, graph=graph, report=Report(REPLAY, how), stored_factors=trajectory.factors
    )


def operators_of(settings: Settings, given: Sequence[Any] | None) -> Sequence[Any]:
    """What builds the operators of the larger graph: the names of the trajectory's, or those given."""
    if given is None:
        for i, operator in enumerate(settings.operators):
            if not isinstance(operator, str):
                raise ArgumentError(
                    f"operator {i} of the trajectory is {type(operator).__name__}, not a name, so that of the larger "
                    "graph is not known; give operators="
                )
        return settings.operators
    if len(given) != len(settings.operators):
        raise ArgumentError(f"operators must be {len(settings.operators)}, as in the trajectory, got {len(given)}")
    return given


def features_of_new(trajectory: StoredStates, num_nodes: int, given: Tensor | None) -> Tensor:
    r"""Rows n to n' - 1 of :math:`a^{(0)}`, ``[B, n' - n, k]`` float64: drawn with :math:`W_0`, or given."""
    settings, graph = trajectory.origin()
    n, b, _, _, k = trajectory.storage.shape
    shape = (b, num_nodes - n, k)
    if trajectory.drawn:
        if given is not None:
            raise ArgumentError("features of new nodes are drawn, as those of the others were; leave features out")
        nodes = Graph.unchecked(graph.edge_index[:, :0], num_nodes, known_keys=graph.keys)
        drawn = random_features(
            nodes,
            num_channels=k,
            num_trajectories=b,
            distribution=settings.distribution,
            seed=settings.seed,
            dtype=settings.dtype,
            rows=slice(n, num_nodes),
        )
        return drawn.double() @ trajectory.factors[0, 0]
    if given is None and num_nodes > n:
        raise ArgumentError(
            f"the trajectory started from given features, so those of the {num_nodes - n} new nodes must be given: "
            f"features={list(shape)}"
        )
    if given is None:
        return torch.zeros(shape, dtype=torch.float64, device=graph.device)
    values = given[None] if given.dim() == 2 else given
    if tuple(values.shape) != shape or not bool(torch.isfinite(values).all()):
        raise ArgumentError(f"features of new nodes must be finite and {list(shape)}, got {list(given.shape)}")
    return values.to(graph.device, torch.float64)


def walk(operator: Operator, start: Tensor, settings: Settings, factors: Tensor) -> Tensor:
    """The one loop with stored factors as its normalisation: ``[B, m, k]`` and ``[P + 1, B, k, k]`` to
    ``[m, B, P + 1, k]``.
    """
    w = settings.normalize_every
    steps = states(
        operator,
        start,
        num_steps=settings.num_steps,
        normalization=_one_after_the_other(iter(factors[w::w])),
        normalize_every=w,
    )
    return torch.stack([a.transpose(0, 1) for a in steps], dim=2)


def _one_after_the_other(factors: Iterator[Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, ptr: a @ next(factors)
