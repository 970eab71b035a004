r"""What a trajectory knows: entries of the powers of S, estimated from products of its states, with standard errors.

The states of an unnormalised trajectory are :math:`a^{(i)} = S^i a^{(0)}`, and its K = B k columns are samples. If they
satisfy :math:`E[a^{(0)} a^{(0)\top}] = I / s`, then for a symmetric S

.. math:: \widehat{(S^{i+j})_{uv}} = \frac{s}{K} \sum_c a^{(i)}_c(u)\, a^{(j)}_c(v), \qquad
          E\,\widehat{(S^{i+j})_{uv}} = (S^{i+j})_{uv},

so P steps tell the powers up to 2P. Power p is read from steps :math:`\lfloor p/2 \rfloor` and
:math:`\lceil p/2 \rceil`: for normal features one term has the variance :math:`(S^{2i})_{uu} (S^{2j})_{vv} +
(S^p)_{uv}^2`, and since :math:`i \mapsto \log (S^{2i})_{vv}` is convex (moments of a spectral measure), no other split
of p makes that of a diagonal entry smaller. For an S that is not symmetric only :math:`E[a^{(p)}(u) a^{(0)}(v)] =
(S^p)_{uv}` holds, and P steps tell P powers; a random walk on an undirected graph is *similar* to a symmetric matrix,
:math:`D^{-1} A = D^{-1/2} (D^{-1/2} A D^{-1/2}) D^{1/2}`, which is propagated in its place.

How the features begin decides on s and on the error (:class:`~rfp.settings.Settings`, ``start``):

=============== ========================= ==============================================================================
start           s                         standard error
=============== ========================= ==============================================================================
``drawn``       1 / variance of D         :math:`\hat\sigma / \sqrt K`, the samples are independent
``unit``        n                         the same
``orthonormal`` n                         :math:`\hat\sigma / \sqrt k \cdot \sqrt{1 - k / n}` in each trajectory: k of
                                          the n columns of an orthogonal matrix are a sample without replacement from
                                          columns whose mean is exact
=============== ========================= ==============================================================================

With an orthonormal start and k >= n, :math:`Q Q^\top = I` and the "estimate" is exact, for any S.

A normalisation destroys this: ℓ2 divides each column by a random length, QR mixes the columns of a graph by a random
triangular matrix. Only the states *before* the first normalisation (steps below w) are used, and what needs later ones
is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from rfp.backends.problem import draw_features
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, unknown_choice
from rfp.features import Distribution
from rfp.graph import Graph
from rfp.operators import MatrixOperator, Operator, as_operator
from rfp.propagate import states
from rfp.settings import Settings, as_integer
from rfp.trajectory import Trajectory

# E[r^2] of the named distributions (:mod:`rfp.features`).
_VARIANCE = {"normal": 1.0, "rademacher": 1.0, "uniform": 1 / 3}
# Pairs are multiplied in blocks whose gathered states take about as much.
_PAIR_BYTES = 1 << 27
_NUM_POWERS, _NUM_CHANNELS = 16, 64


class DrawArguments(TypedDict, total=False):
    """How the features of a graph are drawn; see :class:`rfp.Settings`. A trajectory has its own."""

    num_channels: int
    num_trajectories: int
    distribution: Distribution
    start: str
    seed: int
    dtype: torch.dtype


@dataclass(frozen=True)
class PowerEstimate:
    """Estimates of entries of :math:`S^0, S^1, \\dots, S^L`.

    Args:
        value: ``[rows, L + 1]``, a row for each node or pair.
        standard_error: The same shape; 0 where the value is exact, infinite where one sample is all there is.
        num_samples: Channels that were averaged, k B.
    """

    value: Tensor
    standard_error: Tensor
    num_samples: int

    def interval(self, deviations: float = 1.96) -> tuple[Tensor, Tensor]:
        """Bounds that hold the true value in about 95 % of the cases if there are some tens of samples."""
        reach = deviations * self.standard_error
        return self.value - reach, self.value + reach


def diagonal(
    source: Any,
    *,
    num_powers: int | None = None,
    operator: Any = None,
    exact: bool = False,
    **draw: Unpack[DrawArguments],
) -> PowerEstimate:
    r"""Estimate :math:`(S^p)_{vv}` for all nodes and p = 0 ... L.

    For ``operator="random_walk"`` these are the return probabilities of walks of p steps (what RWPE is made of).

    Args:
        source: A :class:`~rfp.trajectory.Trajectory`, or a graph in any form :func:`rfp.encode` takes: then the states
            are computed one after the other and two of them are kept.
        num_powers: L. Of a trajectory by default all it tells; of a graph by default 16.
        operator: For a graph: S, by default ``"normalized_adjacency"``. For a trajectory: which of its operators, by
            number or by name; may be left out if it has one.
        exact: Ask for exact values: an orthonormal start with at least as many channels as the largest graph has nodes
            (which is then the default of ``num_channels``), or an error.
        draw: For a graph: ``num_channels`` (64), ``num_trajectories`` (1), ``distribution`` (``"normal"``), ``start``
            (``"orthonormal"``), ``seed`` (0), ``dtype`` (float32).

    Returns:
        ``[n, L + 1]``.

    Costs O(L m k B + L n k B) for a symmetric S, O(n k² B) more for an orthonormal start, and memory O(n k B).

    Example:
        >>> import rfp
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> graph = rfp.Graph(torch.cat([ring, ring.flip(0)], dim=1), 4)
        >>> diagonal(graph, operator="random_walk", num_powers=4, exact=True).value[0].round(decimals=4).abs()
        tensor([1.0000, 0.0000, 0.5000, 0.0000, 0.5000])
    """
    samples = _samples(source, num_powers, operator, exact, draw)
    return samples.estimate(None)


def pairs(
    source: Any,
    edge_index: Tensor,
    *,
    num_powers: int | None = None,
    operator: Any = None,
    exact: bool = False,
    **draw: Unpack[DrawArguments],
) -> PowerEstimate:
    r"""Estimate :math:`(S^p)_{uv}` for given pairs of nodes and p = 0 ... L.

    For a symmetric S and odd p the two halves of a pair are exchanged and averaged, so (u, v) and (v, u) agree.

    Args:
        source: See :func:`diagonal`.
        edge_index: ``[2, num_pairs]``, any pairs (u, v), edges or not. Of two graphs of a batch the entry is 0.
        num_powers: See :func:`diagonal`.
        operator: See :func:`diagonal`.
        exact: See :func:`diagonal`.
        draw: See :func:`diagonal`.

    Returns:
        ``[num_pairs, L + 1]``.

    Example:
        >>> import rfp
        >>> ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> graph = rfp.Graph(torch.cat([ring, ring.flip(0)], dim=1), 4)
        >>> walks = pairs(graph, torch.tensor([[0], [2]]), operator="adjacency", num_powers=2, exact=True)
        >>> walks.value.round(decimals=4).abs()  # two walks of length 2 between opposite corners
        tensor([[0., 0., 2.]])
    """
    samples = _samples(source, num_powers, operator, exact, draw)
    nodes = samples.num_nodes
    if not isinstance(edge_index, Tensor) or edge_index.dim() != 2 or edge_index.size(0) != 2:
        got = list(edge_index.shape) if isinstance(edge_index, Tensor) else type(edge_index).__name__
        raise ArgumentError(f"edge_index must be a tensor of shape [2, num_pairs], got {got}")
    if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
        raise ArgumentError(f"edge_index must hold node numbers, got {edge_index.dtype}")
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < nodes:
        bad = int(edge_index.min()) if int(edge_index.min()) < 0 else int(edge_index.max())
        raise ArgumentError(f"edge_index must hold nodes in 0..{nodes - 1}, got {bad}")
    return samples.estimate(edge_index.long())


def return_probabilities(
    graph: Any, *, walk_length: int = 16, exact: bool = False, **draw: Unpack[DrawArguments]
) -> PowerEstimate:
    r"""Estimate the probability that a random walk of p = 1 ... K steps returns, :math:`\mathrm{diag}((D^{-1} A)^p)`.

    What RWPE is made of, in time and memory linear in the size of the graph. Two columns cost nothing and are exact:
    p = 1 is the diagonal of S, and on an undirected graph p = 2 is a sum over the edges of a node. Graphs of at most
    ``num_channels`` nodes are exact altogether.

    Args:
        graph: See :func:`diagonal`. Directed graphs need twice the steps and have larger errors.
        walk_length: K.
        exact: See :func:`diagonal`.
        draw: See :func:`diagonal`.

    Returns:
        ``[n, K]``. An estimate of a probability may lie below 0 or above 1.

    Example:
        >>> import rfp
        >>> path = rfp.Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> return_probabilities(path, walk_length=4).value.round(decimals=4).abs()
        tensor([[0.0000, 0.5000, 0.0000, 0.5000],
                [0.0000, 1.0000, 0.0000, 1.0000],
                [0.0000, 0.5000, 0.0000, 0.5000]])

    References:
        V. P. Dwivedi et al. Graph neural networks with learnable structural and positional representations. ICLR 2022.
    """
    walk_length = as_integer("walk_length", walk_length, 1)
    read = as_graph(graph)
    form = _form_of("random_walk", read, draw.get("dtype", torch.float32))
    found = _of_graph(read, walk_length, form, exact, draw).estimate(None)
    assert isinstance(form.operator, MatrixOperator)
    csr = form.operator.csr
    known = {1: torch.where(csr.row == csr.col, csr.value, 0.0)}
    if form.symmetric:
        known[2] = csr.value.square()
    value, error = found.value[:, 1:].clone(), found.standard_error[:, 1:].clone()
    for p, entries in known.items():
        if p <= walk_length:
            value[:, p - 1] = entries.new_zeros(read.num_nodes).index_add_(0, csr.row, entries)
            error[:, p - 1] = 0.0
    return PowerEstimate(value, error, found.num_samples)


@dataclass(frozen=True)
class _Samples:
    """States of unnormalised steps and what is known of them."""

    steps: Callable[[], Iterator[Tensor]]  # a^(0), a^(1), ..., each [B, n, k]
    num_powers: int
    graph: Graph
    symmetric: bool
    start: str
    scale: float  # 1 / variance, of features as they are drawn
    exact: bool = False
    similarity: Tensor | None = None  # [n]: S = diag(s)^-1 (symmetric) diag(s)

    @property
    def num_nodes(self) -> int:
        return self.graph.num_nodes

    def estimate(self, edge_index: Tensor | None) -> PowerEstimate:
        values: list[Tensor] = []
        errors: list[Tensor] = []
        before = first = torch.empty(0)
        reduction: _Reduction | None = None
        for p, a in enumerate(self.steps()):
            if reduction is None:
                first, reduction = a, self._reduction(a, edge_index)
            terms = [(a, first)]
            if self.symmetric:
                terms = ([(before, a)] if p else []) + [(a, a)]  # powers 2 p - 1 and 2 p
            for left, right in terms:
                if len(values) <= self.num_powers:
                    value, error = reduction(left, right, self.symmetric and left is not right)
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

    def _reduction(self, a: Tensor, edge_index: Tensor | None) -> _Reduction:
        graph = self.graph
        if self.start == "drawn":
            return _Reduction(edge_index, torch.full((1,), self.scale, dtype=a.dtype, device=a.device))
        owner = graph.batch if edge_index is None else graph.batch[edge_index[1]]
        scale = graph.sizes.to(a.dtype)[owner]
        if self.start == "unit":
            return _Reduction(edge_index, scale)
        # Columns that depend on earlier ones, and those beyond the n-th, are zero and no samples.
        lengths = a.new_zeros(a.size(0), graph.num_graphs, a.size(2)).index_add_(1, graph.batch, a.square())
        real = lengths > 0
        if self.exact and bool((real.sum(2) < graph.sizes).any()):
            raise ArgumentError(
                f"exact=True: {a.size(2)} features do not span a graph of {graph.largest} nodes; give num_channels of "
                'at least its nodes, and distribution="normal", whose columns are independent'
            )
        return _Reduction(edge_index, scale, owner, real, graph.sizes)


@dataclass(frozen=True)
class _Reduction:
    """Mean over channels, and its error, of the products of two states.

    Args:
        edge_index: Pairs of nodes; ``None`` for every node with itself.
        scale: ``[rows]`` or ``[1]``, s.
        owner: ``[rows]``, the graph of each row; given for an orthonormal start, as the following.
        real: ``[B, graphs, k]``, False for columns that are no samples.
        sizes: ``[graphs]``, n: the columns are a sample without replacement from so many.
    """

    edge_index: Tensor | None
    scale: Tensor
    owner: Tensor | None = None
    real: Tensor | None = None
    sizes: Tensor | None = None

    def __call__(self, left: Tensor, right: Tensor, exchange: bool) -> tuple[Tensor, Tensor]:
        if self.edge_index is None:
            return self._of(left * right, slice(None))
        b, _, k = left.shape
        rows = max(1, _PAIR_BYTES // (4 * b * k * left.element_size()))
        parts = []
        for low in range(0, max(self.edge_index.size(1), 1), rows):
            block = slice(low, low + rows)
            u, v = self.edge_index[:, block]
            product = left[:, u] * right[:, v]
            if exchange:
                product = (product + right[:, u] * left[:, v]) / 2
            parts.append(self._of(product, block))
        values, errors = zip(*parts, strict=True)
        return torch.cat(values), torch.cat(errors)

    def _of(self, x: Tensor, block: slice) -> tuple[Tensor, Tensor]:  # [B, rows, k] -> [rows] twice
        scale = self.scale if len(self.scale) == 1 else self.scale[block]
        b, _, k = x.shape
        if self.owner is None or self.real is None or self.sizes is None:
            value, total = x.mean((0, 2)), b * k
            if total == 1:
                return value * scale, torch.full_like(value, math.inf)
            variance = (x - value[:, None]).square().sum((0, 2)) / ((total - 1) * total)
            return value * scale, variance.sqrt() * scale
        owner = self.owner[block]
        count_of = self.real.sum(2).to(x.dtype)  # [B, graphs]
        count = count_of[:, owner]
        mean = x.sum(2) / count.clamp_min(1)
        spread = (x - mean[..., None]).square().sum(2)
        # Columns of zeros are no samples, but each has added the square of the mean.
        spread = (spread - (k - count) * mean.square()).clamp_min(0)
        left_out = (1 - count_of / self.sizes.to(x.dtype))[:, owner]
        variance = spread / ((count - 1) * count).clamp_min(1) * left_out
        unknown = (count <= 1) & (left_out > 0)
        variance = variance.masked_fill(unknown, math.inf)
        return mean.mean(0) * scale, variance.sum(0).sqrt() / b * scale


def _samples(source: Any, num_powers: int | None, operator: Any, exact: bool, draw: DrawArguments) -> _Samples:
    num_powers = None if num_powers is None else as_integer("num_powers", num_powers, 0)
    if isinstance(source, Trajectory):
        return _of_trajectory(source, num_powers, operator, exact, draw)
    graph = as_graph(source)
    form = _form_of("normalized_adjacency" if operator is None else operator, graph, draw.get("dtype", torch.float32))
    return _of_graph(graph, _NUM_POWERS if num_powers is None else num_powers, form, exact, draw)


def _of_trajectory(
    trajectory: Trajectory, num_powers: int | None, operator: Any, exact: bool, draw: DrawArguments
) -> _Samples:
    settings, graph = trajectory.settings, trajectory.graph
    if settings is None or graph is None:
        raise ArgumentError(
            "this trajectory does not know its graph and settings (rfp.propagate made it); make it by rfp.encode, or "
            "give the graph itself"
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
            why += f" {steps} come before the first normalisation ({settings.normalization!r}), which mixes channels"
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
    return _Samples(
        lambda: (storage[:, :, number, p].transpose(0, 1).to(dtype) for p in range(steps + 1)),
        most if num_powers is None else num_powers,
        graph,
        symmetric,
        settings.start,
        1 / variance_of(settings.distribution) if settings.start == "drawn" else 1.0,
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


def _of_graph(graph: Graph, num_powers: int, form: _Form, exact: bool, draw: DrawArguments) -> _Samples:
    for name in draw:
        if name not in DrawArguments.__annotations__:
            raise unknown_choice("an argument", name, DrawArguments.__annotations__)
    num_channels = max(graph.largest, 1) if exact else _NUM_CHANNELS
    plain = Settings(num_channels=num_channels, start="orthonormal", normalization="none")
    settings = Settings.of(plain, draw)
    if exact and settings.start != "orthonormal":
        raise ArgumentError(f'exact=True needs start="orthonormal", got {settings.start!r}')
    if exact and settings.num_channels < graph.largest:
        raise ArgumentError(
            f"exact=True needs as many channels as the largest graph has nodes, {graph.largest}, got "
            f"num_channels={settings.num_channels}; leave num_channels out, or exact=True for an estimate"
        )
    settings = replace(settings, num_steps=-(-num_powers // 2) if form.symmetric else num_powers)
    features = draw_features(settings, graph)
    return _Samples(
        lambda: states(form.operator, features, settings, ptr=graph.offsets),
        num_powers,
        graph,
        form.symmetric,
        settings.start,
        1 / variance_of(settings.distribution) if settings.start == "drawn" else 1.0,
        exact,
        form.similarity,
    )


@dataclass(frozen=True)
class _Form:
    """The operator that is propagated; of a random walk on an undirected graph one that is similar to it.

    Args:
        operator: S, or :math:`diag(s)\\, S\\, diag(s)^{-1}`.
        symmetric: Whether it is; asked once, since the answer costs as much as a product.
        similarity: ``[n]``, s.
    """

    operator: Operator
    symmetric: bool
    similarity: Tensor | None = None


def _form_of(operator: Any, graph: Graph, dtype: torch.dtype) -> _Form:
    if isinstance(operator, str) and operator in ("random_walk", "random_walk.sym"):
        pattern = (graph.to_undirected() if operator.endswith(".sym") else graph).pattern
        if MatrixOperator(pattern).symmetric:
            degree = torch.zeros(pattern.num_rows, dtype=torch.float64, device=graph.device)
            degree.index_add_(0, pattern.row, pattern.value.abs())
            root = torch.where(degree > 0, degree, 1.0).sqrt()  # a row without entries stays zero
            value = pattern.value / (root[pattern.row] * root[pattern.col.long()])
            return _Form(MatrixOperator(pattern.with_value(value.to(dtype))), True, root)
    S = as_operator(operator, graph, dtype)
    return _Form(S, S.symmetric)


def variance_of(distribution: Distribution) -> float:
    """E[r²] of a named distribution: features as they are drawn have :math:`E[r r^\\top]` so many times I."""
    if not isinstance(distribution, str):
        raise ArgumentError(
            'the variance of a callable distribution is not known; use start="unit" or "orthonormal", whose scale does '
            "not depend on it"
        )
    return _VARIANCE[distribution]
