r"""Step 0: how the features begin, :math:`a^{(0)} = N_0(r)` for each graph and trajectory."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from rfp.backends.backend import Backend
from rfp.backends.compiled import COMPILED
from rfp.backends.fused import FUSED
from rfp.backends.problem import Problem, draw_features, tell_nobody
from rfp.backends.sparse.fast_loop import fast_normalization
from rfp.csr import CSR
from rfp.errors import unknown_choice
from rfp.graph import Graph
from rfp.normalization import Events, as_normalization
from rfp.operators import MatrixOperator
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


def begun(problem: Problem, *, plain: bool = False, by: Backend | None = None) -> tuple[Problem, Events]:
    """The problem from its step 0 on, and the events of that; see :func:`begin`.

    Args:
        problem: What is computed.
        plain: See :func:`begin`.
        by: The backend that goes on from there, where it computes whole trajectories.
    """
    start = problem.settings.start
    if start == "drawn":
        return problem, {}
    if start == "orthonormal" and by in (COMPILED, FUSED):
        features, events = _by_a_step(problem, by)
    else:
        features, events = begin(problem.features, problem.ptr, start, plain=plain)
    settings = replace(problem.settings, start="drawn")
    return replace(problem, source=features, settings=settings, known_sizes=problem.size_range), events


def _by_a_step(problem: Problem, backend: Backend) -> tuple[Tensor, Events]:
    """Q of many small graphs as what it is, a step with S = I and QR: their kernels do it without leaving the chip.

    The features are no product, so there is no rounding in them by which a column would be dropped.
    """
    assert backend.whole is not None
    like = next(operator for operator in problem.operators if isinstance(operator, MatrixOperator)).csr
    n = problem.shape[1]
    places = torch.arange(n + 1, device=problem.device)
    ones = torch.ones(n, dtype=like.value.dtype, device=problem.device)
    exact = torch.zeros(len(problem.ptr) - 1, dtype=torch.float64, device=problem.device)
    identity = MatrixOperator(
        CSR(places.to(like.crow.dtype), places[:-1].to(like.col.dtype), ones), norm=0.0, rounding_norm=exact
    )
    settings = replace(problem.settings, num_steps=1, normalization="qr", normalize_every=1, start="drawn")
    once = replace(problem, operators=(identity,), settings=settings, known_sizes=problem.size_range)
    states, events = backend.whole(once, problem.dtype, tell_nobody)
    return states[:, :, 0, 1].transpose(0, 1), events
