r"""Triangles, 4-cycles and closed walks, estimated from traces of powers of the adjacency matrix (section 4.1)."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from rfp.graph import Graph
from rfp.operators import as_operator
from rfp.settings import as_integer, shows_settings
from rfp.theory.hubs import split_hubs
from rfp.theory.sampling import Affine, SampleEstimate, Sampling, SamplingArguments
from rfp.theory.simple import require_simple
from rfp.theory.traces import EstimateTold, estimate_trace


@shows_settings(SamplingArguments, Sampling)
def count_triangles(
    graph: Any,
    *,
    hubs: int | None = 0,
    progress: EstimateTold | None = None,
    **sampling: Unpack[SamplingArguments],
) -> SampleEstimate:
    r"""Estimate the number of triangles, :math:`c_3 = \mathrm{trace}(A^3) / 6` (section C.1: TraceTriangle_R).

    .. math:: c_3 \approx \frac{1}{6M} \sum_{i=1}^M \langle a_i^{(1)}, a_i^{(2)} \rangle, \qquad a^{(p)} = A^p r

    Per node it estimates the triangles the node lies in, :math:`(A^3)_{ii} / 2`.

    The arguments, the interval and its caveat are those of :func:`rfp.theory.trace`. With the defaults this is the
    paper's algorithm, whose samples vary by several times the count on a graph with hubs; two options change that
    without a bias, and ``rfp count`` uses both. ``hubs`` counts what touches the nodes of highest degree exactly and
    samples the rest (:mod:`rfp.theory.hubs`): the remedy for skewed degrees. ``deflation`` removes the largest
    eigenvalues: the remedy for dense graphs.

    Args:
        graph: A simple undirected graph, in any form :func:`rfp.as_graph` reads; a batch is counted as one graph.
        num_samples: M, as in :func:`rfp.theory.trace`.
        epsilon: Relative half-width to stop at.
        confidence: Coverage of the interval.
        distribution: ``"rademacher"`` or ``"normal"``.
        seed: Seed of the samples.
        deflation: Directions removed before sampling.
        hubs: Nodes counted exactly; ``None`` takes as many as cost about 100 samples.
        per_node: Also estimate the count of each node.
        block_size: Samples that share one product.
        progress: Called with the running estimate after every 32 samples.

    Example:
        >>> import networkx as nx
        >>> friends = nx.windmill_graph(50, 3)  # 50 triangles that share a node
        >>> estimate = count_triangles(friends, epsilon=0.1, deflation=4, seed=0)
        >>> estimate.reached, abs(estimate.value - 50) < 10
        (True, True)
    """
    how, simple = Sampling.of(sampling), require_simple(graph)
    split = split_hubs(simple, "triangle", hubs, per_node=how.per_node)
    S = as_operator("adjacency", split.rest, torch.float64)
    target = Affine(scale=1 / 6, offset=split.count, node_scale=1 / 2)
    return split.whole(estimate_trace(S, split.rest, 3, how, target, progress))


@shows_settings(SamplingArguments, Sampling)
def count_cycles4(
    graph: Any,
    *,
    hubs: int | None = 0,
    progress: EstimateTold | None = None,
    **sampling: Unpack[SamplingArguments],
) -> SampleEstimate:
    r"""Estimate the number of 4-cycles by Harary's formula (section 4.1).

    .. math:: c_4 = \tfrac18 \Big( \mathrm{trace}(A^4) + \mathrm{trace}(A^2) - 2 \sum_v \deg^2(v) \Big)

    :math:`\mathrm{trace}(A^2) = \sum_v \deg(v)` and the last sum are exact, :math:`\mathrm{trace}(A^4) = E
    \|a^{(2)}\|^2` is sampled. Per node, a closed walk of four steps that is no cycle goes out and back twice, or two
    steps out and back:

    .. math:: c_4(v) = \tfrac12 \Big( (A^4)_{vv} - \deg^2(v) - \sum_{u \sim v} (\deg(u) - 1) \Big)

    Arguments as in :func:`count_triangles`. ``epsilon`` bounds the error of the count, not of the trace.

    Example:
        >>> import networkx as nx
        >>> grid = nx.grid_2d_graph(20, 20)  # 19 x 19 squares
        >>> estimate = count_cycles4(grid, epsilon=0.05, seed=0)
        >>> abs(estimate.value - 361) < 0.1 * 361
        True
    """
    how, simple = Sampling.of(sampling), require_simple(graph)
    split = split_hubs(simple, "cycle4", hubs, per_node=how.per_node)
    S = as_operator("adjacency", split.rest, torch.float64)
    degree = degrees(split.rest)
    offset = float(degree.sum() - 2 * degree.square().sum()) / 8 + split.count
    around = (S @ (degree - 1)[:, None])[:, 0]  # sum over the neighbours of deg - 1
    target = Affine(scale=1 / 8, offset=offset, node_scale=1 / 2, node_offset=-(degree.square() + around) / 2)
    return split.whole(estimate_trace(S, split.rest, 4, how, target, progress))


@shows_settings(SamplingArguments, Sampling)
def count_walks(
    graph: Any,
    *,
    length: int,
    progress: EstimateTold | None = None,
    **sampling: Unpack[SamplingArguments],
) -> SampleEstimate:
    r"""Estimate the number of closed walks of P steps, :math:`\mathrm{trace}(A^P)`; per node those that start there.

    Arguments as in :func:`count_triangles`, without ``hubs``, and ``length``, P. Self-loops are allowed: a walk may
    use them.

    Example:
        >>> import networkx as nx
        >>> estimate = count_walks(nx.cycle_graph(7), length=4, num_samples=32, deflation=7)
        >>> round(estimate.value, 6)  # 7 nodes, 6 ways each
        42.0
    """
    length = as_integer("length", length, 0)
    how, simple = Sampling.of(sampling), require_simple(graph, loops=True)
    S = as_operator("adjacency", simple, torch.float64)
    return estimate_trace(S, simple, length, how, Affine(), progress)


def degrees(graph: Graph) -> Tensor:
    """Number of edges at each node, ``[n]`` float64."""
    return torch.bincount(graph.edge_index[0].long(), minlength=graph.num_nodes).double()
