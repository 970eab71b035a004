"""Entries of powers of S: the diagonal, given pairs, and the return probabilities of walks."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.operators import MatrixOperator
from rfp.precision import full_precision
from rfp.products.channel_means import PowerEstimate, checked_pairs
from rfp.products.draw import DrawArguments
from rfp.products.samples import drawn_type, form_of, samples_from, samples_of_graph
from rfp.settings import as_integer


@full_precision
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
    samples = samples_from(source, num_powers, operator, exact, draw)
    return samples.estimate(None)


@full_precision
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
    samples = samples_from(source, num_powers, operator, exact, draw)
    return samples.estimate(checked_pairs("edge_index", edge_index, samples.graph.num_nodes, samples.graph.device))


@full_precision
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
    form = form_of("random_walk", read, drawn_type(draw))
    found = samples_of_graph(read, walk_length, form, exact, draw).estimate(None)
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
