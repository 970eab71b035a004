"""FastRP: the one loop on very sparse random features, its steps added up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.features import random_features
from rfp.graph import Graph
from rfp.one_loop import states
from rfp.operators import OPERATORS, EntryTable, MatrixOperator
from rfp.precision import full_precision
from rfp.settings import as_integer

# Of the draw of the vectors of features, which must not be that of any node.
_FEATURE_KEY = 0x66656174


@dataclass(frozen=True)
class FastRP:
    """The parameters of FastRP, with the names and defaults of Neo4j's Graph Data Science (GDS).

    Args:
        embedding_dimension: Columns of the result.
        iteration_weights: Weights of steps 1, 2, ...; their number is the number of steps.
        normalization_strength: β: the random vector of a node is multiplied by its degree to this power. Negative
            values make much of nodes with few neighbours.
        node_self_influence: Weight of step 0, the node's own random vector.
        property_ratio: The part of the columns that starts from node features instead of random vectors.
        normalize_rows: Every vector is scaled to length 1 after every step, as in GDS. ``False`` adds up the steps as
            they are, as the paper does and the package ``fastrp``.
        seed: Any integer.
    """

    embedding_dimension: int = 128
    iteration_weights: Sequence[float] = (0.0, 1.0, 1.0)
    normalization_strength: float = 0.0
    node_self_influence: float = 0.0
    property_ratio: float = 0.0
    normalize_rows: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        as_integer("embedding_dimension", self.embedding_dimension, 1)
        numbers = [*self.iteration_weights, self.normalization_strength, self.node_self_influence]
        if not all(math.isfinite(number) for number in numbers):
            raise ArgumentError(f"the weights of FastRP must be finite, got {numbers}")
        if not any(self.iteration_weights) and not self.node_self_influence:
            raise ArgumentError(
                "iteration_weights and node_self_influence are all zero, so every embedding would be; give one a weight"
            )
        if not 0 <= self.property_ratio <= 1:
            raise ArgumentError(f"property_ratio must be from 0 to 1, got {self.property_ratio}")

    @property
    def property_dimension(self) -> int:
        """Columns that start from node features."""
        return int(self.embedding_dimension * self.property_ratio)


@full_precision
def fast_random_projection(
    graph: Any,
    parameters: FastRP | None = None,
    *,
    x: Tensor | None = None,
    features: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    progress: Callable[[int], None] | None = None,
    **arguments: Any,
) -> Tensor:
    r"""FastRP with GDS's parameters, by the loop of :func:`rfp.states`.

    .. math::
        e = \alpha_0 N(a^{(0)}) + \sum_{p=1}^{P} \alpha_p a^{(p)}, \qquad
        a^{(p)} = N\!\left(D^{-1} A\, a^{(p-1)}\right), \qquad a^{(0)}_v = d_v^{\beta}\, r_v

    with N the scaling of every *row* to length 1 (zero rows stay), :math:`r` very sparse (:math:`\pm\sqrt{3 / k}` with
    probability 1/6 each, else 0) and :math:`d_v` the number of edges that leave v. In the columns of ``property_ratio``
    :math:`r = X V` with node features X and a very sparse V. Same meaning as in GDS; not the same numbers, which come
    from another generator.

    Args:
        graph: Anything :func:`rfp.as_graph` reads. GDS's ``UNDIRECTED`` lists each edge both ways.
        parameters: All in one :class:`FastRP`. Its fields may be given as keywords instead.
        x: Node features ``[n, d]`` (GDS: ``featureProperties``), the graph's own by default; read if
            ``property_ratio`` is not 0.
        features: Start from this ``[n, k]`` instead of drawing.
        dtype: float32 or float64.
        progress: Called with 1 after each step.

    Returns:
        ``[n, k]``. Two states are held in memory beside it. Costs O(P (m + n) k).

    Example:
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> e = fast_random_projection(path, embedding_dimension=8, iteration_weights=[0.0, 1.0])
        >>> e.shape, bool(torch.allclose(e[0], e[2]))  # two steps from the ends of a path lead to the same vector
        (torch.Size([3, 8]), True)

    References:
        H. Chen, S. F. Sultan, Y. Tian, M. Chen, S. Skiena. Fast and accurate network embeddings via very sparse random
        projection. CIKM 2019.
    """
    if parameters is not None and arguments:
        raise ArgumentError(f"give parameters or {', '.join(arguments)}, not both")
    try:
        parameters = FastRP(**arguments) if parameters is None else parameters
    except TypeError as error:
        raise ArgumentError(f"FastRP has no such parameter: {error}") from error
    read = as_graph(graph)
    start = _start(graph, read, parameters, x, dtype) if features is None else features.to(read.device, dtype)
    if tuple(start.shape) != (read.num_nodes, start.size(-1)):
        raise ArgumentError(f"features must have shape [{read.num_nodes}, k], got {list(start.shape)}")
    normalize = _unit_rows if parameters.normalize_rows else "none"
    steps = states(_averaging(read, dtype), start, num_steps=len(parameters.iteration_weights), normalization=normalize)
    total = torch.zeros_like(start)
    for p, (weight, a) in enumerate(
        zip([parameters.node_self_influence, *parameters.iteration_weights], steps, strict=True)
    ):
        if weight:
            total += weight * (_unit_rows(a, read.offsets) if p == 0 and parameters.normalize_rows else a)[0]
        if progress is not None and p:
            progress(1)
    return total


def _unit_rows(a: Tensor, ptr: Tensor) -> Tensor:
    return torch.nn.functional.normalize(a, dim=-1, eps=torch.finfo(a.dtype).tiny)


def _averaging(graph: Graph, dtype: torch.dtype) -> MatrixOperator:
    """The mean over neighbours: weighted sums divided by the *number* of edges, as GDS and ``fastrp`` do."""
    pattern = graph.pattern
    counts = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).double()
    value = OPERATORS["adjacency"](EntryTable.of(pattern)) / counts.clamp_min(1.0)[pattern.row]
    return MatrixOperator(pattern.with_value(value.to(dtype)))


def very_sparse(uniform: Tensor) -> Tensor:
    r"""±√3 with probability 1/6 each, else 0, from uniform values on (-1, 1): mean 0 and variance 1."""
    return torch.where(uniform.abs() > 2 / 3, math.sqrt(3.0) * uniform.sign(), 0.0)


def _start(data: Any, graph: Graph, parameters: FastRP, x: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Step 0: random columns, scaled by degrees, then those of the node features."""
    wide, own = parameters.property_dimension, parameters.embedding_dimension - parameters.property_dimension
    parts = []
    if own:
        r = random_features(graph, num_channels=own, distribution=very_sparse, seed=parameters.seed, dtype=dtype)[0]
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).to(dtype)
        scale = torch.where(degree > 0, degree.clamp_min(1.0).pow(parameters.normalization_strength), 1.0)
        parts.append(r * (scale / math.sqrt(own))[:, None])
    if wide:
        x = getattr(data, "x", None) if x is None else x
        if x is None:
            raise ArgumentError("property_ratio needs node features: give x, or a graph that has x")
        values = (x[:, None] if x.dim() == 1 else x).to(graph.device, dtype)
        if values.dim() != 2 or len(values) != graph.num_nodes or not bool(torch.isfinite(values).all()):
            raise ArgumentError(f"x must be finite and [{graph.num_nodes}, d], got {list(x.shape)}")
        one_for_each = Graph.unchecked(graph.edge_index[:, :0], values.size(1))
        key = torch.tensor([_FEATURE_KEY])
        vectors = random_features(
            one_for_each, num_channels=wide, distribution=very_sparse, seed=parameters.seed, dtype=dtype, graph_keys=key
        )[0]
        parts.append(values @ vectors / math.sqrt(wide))
    return torch.cat(parts, dim=1)
