"""Return probabilities of random walks (RWPE), by the one loop started from one-hot features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.one_loop import states
from rfp.operators import from_name
from rfp.precision import full_precision
from rfp.settings import as_integer

# One-hot columns propagated at a time: bounds the memory at this many numbers a node.
_COLUMNS = 256


@full_precision
def random_walk_pe(graph: Any, *, walk_length: int = 16, dtype: torch.dtype = torch.float32) -> Tensor:
    r"""Probability that a random walk of p = 1, ..., K steps returns: :math:`\mathrm{diag}(S^p)`, :math:`S = D^{-1} A`.

    Weights are probabilities of transition after division by the *weighted* degree, so every value is a probability for
    non-negative weights. Isolated nodes have zeros. In a batch every graph uses the same one-hot columns, so the cost
    is that of the largest graph: O(K m n_max) time, O(n min(n_max, 256)) memory.

    Args:
        graph: Anything :func:`rfp.encode` takes.
        walk_length: K.
        dtype: float32 or float64.

    Returns:
        ``[n, K]``.

    Example:
        >>> from rfp.graph import Graph
        >>> path = Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> random_walk_pe(path, walk_length=2)
        tensor([[0.0000, 0.5000],
                [0.0000, 1.0000],
                [0.0000, 0.5000]])

    References:
        V. P. Dwivedi et al. Graph neural networks with learnable structural and positional representations. ICLR 2022.
    """
    walk_length = as_integer("walk_length", walk_length, 1)
    read = as_graph(graph)
    S = from_name("random_walk", read, dtype)
    place = torch.arange(read.num_nodes, device=read.device) - read.offsets[:-1][read.batch]  # node number in its graph
    out = torch.zeros(read.num_nodes, walk_length, dtype=dtype, device=read.device)
    for start in range(0, read.largest, _COLUMNS):
        columns = torch.arange(start, min(start + _COLUMNS, read.largest), device=read.device)
        one_hot = (place[:, None] == columns).to(dtype)
        here = torch.nonzero((place >= start) & (place < start + _COLUMNS))[:, 0]
        steps = states(S, one_hot, num_steps=walk_length, normalization="none", ptr=read.offsets)
        for p, a in enumerate(steps):
            if p:
                out[here, p - 1] = a[0, here, place[here] - start]
    return out
