r"""Step 0: how the features begin, :math:`a^{(0)} = N_0(r)` for each graph and trajectory."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from rfp.backends.problem import Problem, draw_features
from rfp.backends.sparse.fast_loop import fast_normalization
from rfp.errors import unknown_choice
from rfp.graph import Graph
from rfp.normalization import Events, as_normalization
from rfp.settings import STARTS, Settings


def begin(features: Tensor, ptr: Tensor, start: str, *, plain: bool = False) -> tuple[Tensor, Events]:
    r"""The states that the first step sets out from.

    ``"drawn"``: r itself. ``"unit"``: its columns divided by their lengths. ``"orthonormal"``: Q of its QR with
    :math:`R_{ii} > 0`; columns that depend on earlier ones are zero, as are those beyond the n-th where n < k. With
    :math:`k \ge n` independent columns :math:`Q Q^\top = I`, and products of unnormalised steps are exact.

    Args:
        features: r, ``[B, n, k]``.
        ptr: ``[num_graphs + 1]``.
        start: A key of :data:`rfp.settings.STARTS`.
        plain: By the plain normalisation that defines the result, instead of the fast one.

    Returns:
        ``[B, n, k]``, and the events of the normalisation.

    Costs O(n k² B) for ``"orthonormal"``, O(n k B) for ``"unit"``.
    """
    if start not in STARTS:
        raise unknown_choice("start", start, STARTS)
    if start == "drawn":
        return features, {}
    name = STARTS[start]
    if plain:
        return as_normalization(name)(features, ptr, None)
    normalize = fast_normalization(name, ptr, features.size(0) * features.size(2), features.requires_grad)
    step = normalize(features, ptr, None)
    return step.state, step.events


def first_state(settings: Settings, graph: Graph) -> Tensor:
    """Step 0 of an encoding alone, ``[B, n, k]``: the features drawn, and begun with as the settings say."""
    plain = settings.backend == "reference"
    state, _ = begin(draw_features(settings, graph), graph.offsets, settings.start, plain=plain)
    return state


def begun(problem: Problem, *, plain: bool = False) -> tuple[Problem, Events]:
    """The problem from its step 0 on, and the events of that; see :func:`begin`."""
    start = problem.settings.start
    if start == "drawn":
        return problem, {}
    features, events = begin(problem.features, problem.ptr, start, plain=plain)
    settings = replace(problem.settings, start="drawn")
    return replace(problem, source=features, settings=settings, known_sizes=problem.size_range), events
