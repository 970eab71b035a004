r"""How many samples an accuracy takes, and what accuracy a number of samples gives (Lemma C.4, Corollary C.6)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.operators import as_operator
from rfp.settings import as_integer
from rfp.theory.traces import check_symmetric

# A dense eigendecomposition of this many nodes takes about a minute on one core.
MAX_DENSE_NODES = 5_000


def _check_bound(delta: float, rho: float, rank: int) -> None:
    if not 0 < delta < 1:
        raise ArgumentError(f"delta must be a failure probability between 0 and 1, got {delta}; e.g. 0.05")
    if not (math.isfinite(rho) and rho >= 1):
        raise ArgumentError(f"rho must be finite and at least 1 (sum |lambda| over |trace|), got {rho}")
    if rank < 1:
        raise ArgumentError(f"rank must be at least 1, got {rank}; the bound is about a matrix with non-zero trace")


def num_samples(*, eps: float, delta: float, rho: float, rank: int) -> int:
    r"""The number of Rademacher samples for a relative error of at most ε with probability at least 1 - δ.

    .. math:: M \ge 6\, \epsilon^{-2} \rho(C)^2 \ln(2\, \mathrm{rank}(C) / \delta), \qquad
              \rho(C) = \frac{\sum_i |\lambda_i|}{|\mathrm{trace}(C)|}

    For triangles :math:`C = A^3` (Corollary C.6). The bound is a guarantee for every graph and far from tight on most:
    the interval of :class:`~rfp.theory.SampleEstimate` is what was reached on this one.

    Example:
        >>> num_samples(eps=0.1, delta=0.05, rho=2.0, rank=60)
        18680
    """
    _check_bound(delta, rho, rank)
    if not eps > 0:
        raise ArgumentError(f"eps must be above 0, got {eps}; it is a relative error, e.g. 0.05")
    return math.ceil(6 * rho**2 * math.log(2 * rank / delta) / eps**2)


def epsilon(*, num_samples: int, delta: float, rho: float, rank: int) -> float:
    r"""The relative error that M samples guarantee with probability 1 - δ: the inverse of :func:`num_samples`.

    .. math:: \epsilon = \rho(C) \sqrt{6 \ln(2\, \mathrm{rank}(C) / \delta) / M}

    Example:
        >>> round(epsilon(num_samples=18680, delta=0.05, rho=2.0, rank=60), 4)
        0.1
    """
    _check_bound(delta, rho, rank)
    if num_samples < 1:
        raise ArgumentError(f"num_samples must be at least 1, got {num_samples}")
    return rho * math.sqrt(6 * math.log(2 * rank / delta) / num_samples)


def dense_eigenvalues(graph: Any, operator: Any = "adjacency") -> Tensor:
    """All eigenvalues of a symmetric operator, ascending, ``[n]`` float64. O(n³), at most 5000 nodes."""
    return dense_eigenpairs(graph, operator)[0]


def dense_eigenpairs(graph: Any, operator: Any = "adjacency") -> tuple[Tensor, Tensor]:
    """Eigenvalues, ascending, ``[n]``, and eigenvectors, ``[n, n]``, of a symmetric operator in float64."""
    read = as_graph(graph)
    if read.num_nodes > MAX_DENSE_NODES:
        raise ArgumentError(
            f"the spectrum is computed densely, for at most {MAX_DENSE_NODES} nodes, got {read.num_nodes}; "
            "take a subgraph, or scipy.sparse.linalg.eigsh for a few eigenpairs"
        )
    S = as_operator(operator, read, torch.float64)
    check_symmetric(S, operator)
    dense = S @ torch.eye(read.num_nodes, dtype=torch.float64, device=read.device)
    values, vectors = torch.linalg.eigh((dense + dense.T) / 2)
    return values, vectors


def rho(graph: Any, *, power: int = 3, operator: Any = "adjacency") -> float:
    r""":math:`\rho(S^P) = \sum_i |\lambda_i|^P / |\sum_i \lambda_i^P|` of a small graph, from its spectrum.

    At least 1, and equal to 1 for even powers. Infinite trace ratios (no triangles) are refused: no number of samples
    gives a relative error of zero.

    Example:
        >>> import networkx as nx
        >>> round(rho(nx.complete_graph(5)), 4)  # (64 + 4) / (64 - 4)
        1.1333
    """
    power = as_integer("power", power, 0)
    values = dense_eigenvalues(graph, operator)
    total, magnitude = float(values.pow(power).sum()), float(values.abs().pow(power).sum())
    if abs(total) <= 1e-12 * magnitude or magnitude == 0:
        raise ArgumentError(f"rho is infinite: trace(S^{power}) is 0 (for P = 3: the graph has no triangle)")
    return magnitude / abs(total)


def rank(graph: Any, *, operator: Any = "adjacency") -> int:
    """The rank of a symmetric operator, which is that of all its powers from 1 on; small graphs.

    Example:
        >>> import networkx as nx
        >>> rank(nx.star_graph(6))
        2
    """
    values = dense_eigenvalues(graph, operator).abs()
    return int((values > 1e-10 * values.max()).sum()) if len(values) else 0
