"""States of unnormalised steps, from a trajectory or drawn for a graph, and the powers that they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rfp.backends.problem import draw_features
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.one_loop import states
from rfp.operators import MatrixOperator, Operator, as_operator
from rfp.products.channel_means import ChannelMeans, PowerEstimate
from rfp.products.draw import DrawArguments, draw_settings, variance_of
from rfp.settings import Settings, as_integer
from rfp.trajectory import Trajectory

_NUM_POWERS, _NUM_CHANNELS = 16, 64


@dataclass(frozen=True)
class Samples:
    """States of unnormalised steps and what is known of them."""

    steps: Callable[[], Iterator[Tensor]]  # a^(0), a^(1), ..., each [B, n, k]
    num_powers: int
    graph: Graph
    symmetric: bool
    settings: Settings  # how the features were drawn
    exact: bool = False
    similarity: Tensor | None = None  # [n]: S = diag(s)^-1 (symmetric) diag(s)

    def estimate(self, edge_index: Tensor | None) -> PowerEstimate:
        """Powers 0 ... L for pairs of nodes; for every node with itself if there are none."""
        values: list[Tensor] = []
        errors: list[Tensor] = []
        before = first = torch.empty(0)
        means: ChannelMeans | None = None
        for p, a in enumerate(self.steps()):
            if means is None:
                first, means = a, self._means(a, edge_index)
            terms = [(a, first)]
            if self.symmetric:
                terms = ([(before, a)] if p else []) + [(a, a)]  # powers 2 p - 1 and 2 p
            for left, right in terms:
                if len(values) <= self.num_powers:
                    value, error = means(left, right, self.symmetric and left is not right)
                    values.append(value)
                    errors.append(error)
            before = a
        value, error = torch.stack(values, dim=1), torch.stack(errors, dim=1)
        if edge_index is not None:
            u, v = edge_index
            factor = (self.graph.batch[u] == self.graph.batch[v]).to(value.dtype)  # S has no entries between graphs
            if self.similarity is not None:
                factor = factor * (self.similarity[v] / self.similarity[u]).to(value.dtype)
            value, error = value * factor[:, None], torch.where(factor[:, None] > 0, error * factor[:, None], 0.0)
        return PowerEstimate(value, error, first.size(0) * first.size(2))

    def _means(self, a: Tensor, edge_index: Tensor | None) -> ChannelMeans:
        graph = self.graph
        if self.settings.start == "drawn":
            scale = 1 / variance_of(self.settings.distribution)
            return ChannelMeans(edge_index, torch.full((1,), scale, dtype=a.dtype, device=a.device))
        owner = graph.batch if edge_index is None else graph.batch[edge_index[1]]
        sizes = graph.sizes.to(a.dtype)[owner]
        if self.settings.start == "unit":
            return ChannelMeans(edge_index, sizes)
        # Columns that depend on earlier ones, and those beyond the n-th, are zero and no samples.
        lengths = a.new_zeros(a.size(0), graph.num_graphs, a.size(2)).index_add_(1, graph.batch, a.square())
        real = lengths > 0
        if self.exact and bool((real.sum(2) < graph.sizes).any()):
            raise ArgumentError(
                f"exact=True: {a.size(2)} features do not span a graph of {graph.largest} nodes; give num_channels of "
                'at least its nodes, and distribution="normal", whose columns are independent'
            )
        return ChannelMeans(edge_index, sizes, owner, real, graph.sizes)


def samples_from(source: Any, num_powers: int | None, operator: Any, exact: bool, draw: DrawArguments) -> Samples:
    """What is known of a trajectory, or of features drawn for a graph."""
    num_powers = None if num_powers is None else as_integer("num_powers", num_powers, 0)
    if isinstance(source, Trajectory):
        return _samples_of_trajectory(source, num_powers, operator, exact, draw)
    graph = as_graph(source)
    form = form_of("normalized_adjacency" if operator is None else operator, graph, drawn_type(draw))
    return samples_of_graph(graph, _NUM_POWERS if num_powers is None else num_powers, form, exact, draw)


def _samples_of_trajectory(
    trajectory: Trajectory, num_powers: int | None, operator: Any, exact: bool, draw: DrawArguments
) -> Samples:
    settings, graph = trajectory.settings, trajectory.graph
    if settings is None or graph is None:
        raise ArgumentError(
            "this trajectory does not know its graph and settings (rfp.propagate made it); make it by rfp.encode, or "
            "give the graph itself"
        )
    if trajectory.is_grown:
        raise ArgumentError(
            "nodes were added to this trajectory, whose rows are not all states of one operator; give its graph, "
            "trajectory.graph, to draw anew"
        )
    if draw:
        raise ArgumentError(f"{next(iter(draw))} is that of the trajectory; give the graph itself to draw anew")
    number = _number_of(operator, settings.operators)
    S = as_operator(settings.operators[number], graph, settings.dtype)
    symmetric = S.symmetric
    # Steps before the first normalisation.
    steps = settings.num_steps
    if settings.normalization != "none":
        steps = min(steps, settings.normalize_every - 1)
    most = 2 * steps if symmetric else steps
    if (num_powers is None and most == 0 < settings.num_steps) or (num_powers is not None and num_powers > most):
        asked = "products" if num_powers is None else f"num_powers={num_powers}"
        why = f"of {settings.num_steps} steps"
        if steps < settings.num_steps:
            does = "rescales" if settings.normalization == "l2" else "mixes"
            why += f" {steps} come before the first normalisation ({settings.normalization!r}), which {does} channels"
        kind = "symmetric" if symmetric else "not symmetric"
        raise ArgumentError(
            f"{asked} cannot be had from this trajectory: {why}, and S is {kind}, so it tells powers up to {most}; "
            'encode with normalization="none", a larger normalize_every or more steps'
        )
    num_channels = trajectory.storage.size(-1)
    if exact and (settings.start != "orthonormal" or num_channels < graph.largest):
        raise ArgumentError(
            f'exact=True needs start="orthonormal" and as many channels as the largest graph has nodes, '
            f"{graph.largest}; the trajectory has start={settings.start!r} and num_channels={num_channels}"
        )
    storage, dtype = trajectory.storage.detach(), settings.dtype
    return Samples(
        lambda: (storage[:, :, number, p].transpose(0, 1).to(dtype) for p in range(steps + 1)),
        most if num_powers is None else num_powers,
        graph,
        symmetric,
        settings,
        exact,
    )


def _number_of(operator: Any, operators: Sequence[Any]) -> int:
    names = [one if isinstance(one, str) else number for number, one in enumerate(operators)]
    if operator is None and len(operators) == 1:
        return 0
    if isinstance(operator, int) and not isinstance(operator, bool) and 0 <= operator < len(operators):
        return operator
    if isinstance(operator, str) and operator in names:
        return names.index(operator)
    if operator is None:
        raise ArgumentError(f"the trajectory has several operators; say which with operator=, one of {names}")
    raise unknown_choice("operator of the trajectory", operator, [str(name) for name in names])


def samples_of_graph(graph: Graph, num_powers: int, form: Form, exact: bool, draw: DrawArguments) -> Samples:
    """States of features drawn for a graph, computed one after the other."""
    num_channels = max(graph.largest, 1) if exact else _NUM_CHANNELS
    plain = Settings(num_channels=num_channels, start="orthonormal", normalization="none")
    settings = draw_settings(plain, draw)
    if exact and settings.start != "orthonormal":
        raise ArgumentError(f'exact=True needs start="orthonormal", got {settings.start!r}')
    if exact and settings.num_channels < graph.largest:
        raise ArgumentError(
            f"exact=True needs as many channels as the largest graph has nodes, {graph.largest}, got "
            f"num_channels={settings.num_channels}; leave num_channels out, or exact=True for an estimate"
        )
    settings = replace(settings, num_steps=-(-num_powers // 2) if form.symmetric else num_powers)
    features = draw_features(settings, graph)
    return Samples(
        lambda: states(form.operator, features, settings, ptr=graph.offsets),
        num_powers,
        graph,
        form.symmetric,
        settings,
        exact,
        form.similarity,
    )


@dataclass(frozen=True)
class Form:
    """The operator that is propagated; of a random walk on an undirected graph one that is similar to it.

    Args:
        operator: S, or :math:`diag(s)\\, S\\, diag(s)^{-1}`.
        symmetric: Whether it is; asked once, since the answer costs as much as a product.
        similarity: ``[n]``, s.
    """

    operator: Operator
    symmetric: bool
    similarity: Tensor | None = None


def drawn_type(draw: DrawArguments) -> torch.dtype:
    """The type that is asked for, by itself or by its name, or the usual one."""
    return Settings(dtype=draw.get("dtype", torch.float32)).dtype


def form_of(operator: Any, graph: Graph, dtype: torch.dtype) -> Form:
    """S, or a symmetric matrix that is similar to it."""
    if isinstance(operator, str) and operator in ("random_walk", "random_walk.sym"):
        pattern = (graph.to_undirected() if operator.endswith(".sym") else graph).pattern
        if MatrixOperator(pattern).symmetric:
            degree = torch.zeros(pattern.num_rows, dtype=torch.float64, device=graph.device)
            degree.index_add_(0, pattern.row, pattern.value.abs())
            root = torch.where(degree > 0, degree, 1.0).sqrt()  # a row without entries stays zero
            value = pattern.value / (root[pattern.row] * root[pattern.col.long()])
            return Form(MatrixOperator(pattern.with_value(value.to(dtype))), True, root)
    S = as_operator(operator, graph, dtype)
    return Form(S, S.symmetric)
