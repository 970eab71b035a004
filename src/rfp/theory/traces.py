r"""Traces and diagonals of powers of a symmetric operator, from random feature propagation (section 4.1).

Hutchinson's estimator needs :math:`r^\top S^P r` for random :math:`r`. With S symmetric that is an inner product of two
states of the loop without normalisation,

.. math:: r^\top S^P r = \langle a^{(\lfloor P/2 \rfloor)}, a^{(\lceil P/2 \rceil)} \rangle ,

so P = 3 needs steps 1 and 2 alone: the TraceTriangle algorithm of Avron (2010), section C.1 of the paper. The terms of
that inner product are themselves unbiased, node by node, for the diagonal of :math:`S^P`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

import torch
from torch import Tensor

from rfp.backends.finite import NotFiniteError, all_finite
from rfp.backends.problem import fold, unfold
from rfp.conversion import as_graph
from rfp.errors import ArgumentError, NumericalError
from rfp.features import random_features
from rfp.graph import Graph
from rfp.one_loop import states
from rfp.operators import Operator, as_operator
from rfp.settings import as_integer, shows_settings
from rfp.theory.integers import as_integer_matrix, count_primes, integer_trace
from rfp.theory.sampling import ROUND, SAMPLES_AT_ONCE, Affine, Moments, SampleEstimate, Sampling, SamplingArguments

# Trajectories the deflation basis is drawn from: far from the samples', which count from 0, and so independent of them.
_BASIS_TRAJECTORY = 1 << 40

# Multiplications an exact trace may take unless told otherwise, some ten minutes at this rate of one core.
EXACT_RATE = 3e8
MAX_EXACT_WORK = 2e11

EstimateTold = Callable[[SampleEstimate], None]


@shows_settings(SamplingArguments, Sampling)
def trace(
    graph: Any,
    *,
    power: int,
    operator: Any = "adjacency",
    progress: EstimateTold | None = None,
    **sampling: Unpack[SamplingArguments],
) -> SampleEstimate:
    r"""Estimate :math:`\mathrm{trace}(S^P)` for a symmetric operator by Hutchinson's method (Definition C.3).

    .. math:: H_M(S^P) = \frac1M \sum_{i=1}^M r_i^\top S^P r_i

    The variance of a sample is :math:`2 (\|C\|_F^2 - \sum_i C_{ii}^2)` for Rademacher features and :math:`2 \|C\|_F^2`
    for normal ones, with :math:`C = S^P`. It is dominated by the largest eigenvalues, which ``deflation`` removes:
    with Q an orthonormal basis found by the loop with QR (P steps of k channels) and :math:`\Pi = I - Q Q^\top`,

    .. math:: \mathrm{trace}(C) = \mathrm{trace}(Q^\top C Q) + \mathrm{trace}(\Pi C \Pi),

    the first term is computed and only the second is sampled (Hutch++, [2]_). It is unbiased for any Q.

    Per node, the terms :math:`(S^{\lfloor P/2 \rfloor} r)_i (S^{\lceil P/2 \rceil} r)_i` have expectation
    :math:`(S^P)_{ii}`. They cost no further product, add up to the trace estimate exactly, and vary less than the
    products :math:`r_i (S^P r)_i` of [3]_ wherever a node is close to one of much larger degree.

    Args:
        graph: Anything :func:`rfp.as_graph` reads; a SciPy matrix is its own graph.
        power: P, at least 0.
        operator: S, as in :func:`rfp.encode`; it must be symmetric.
        num_samples: M. With ``epsilon`` the most that may be drawn. Default 256, or 16384 with ``epsilon``.
        epsilon: Stop once the half-width of the interval is at most this fraction of the estimate.
        confidence: Coverage of the interval.
        distribution: ``"rademacher"`` or ``"normal"``.
        seed: Sample ``8 b + c`` is channel ``c`` of trajectory ``b`` of :func:`rfp.random_features`, for any block
            size.
        deflation: k, directions removed before sampling; 0 is plain Hutchinson. With k >= n the result is exact.
        per_node: Also estimate the diagonal, with a standard error for each node.
        block_size: Samples that share one product, at most 32 and in steps of 8; the default keeps a state below 128
            MiB.
        progress: Called with the running estimate after every 32 samples.

    Returns:
        The :class:`SampleEstimate`. Its interval is Student's, from the samples drawn. Two things make it cover less
        often than ``confidence`` says: when one eigenvalue dominates, a sample is as skewed as a chi-square variable,
        which a mean of 32 still feels; and with ``epsilon`` the same samples decide when to stop and how wide the
        interval is. We measured 83 to 90 % for a nominal 90 %, and 91 to 96 % for 95 %, the low ends at 32 to 64
        samples without deflation. Where that matters, fix ``num_samples``, or ask for a smaller ``epsilon``.

    Costs O(M ⌈P/2⌉ m) time, and O(k P m + k² P n + M k n) more with deflation; four states of a block in memory.
    Computed in float64: counts beyond 2^24 are not exact in float32.

    Example:
        >>> import networkx as nx
        >>> complete = nx.complete_graph(5)  # eigenvalues 4, -1, -1, -1, -1: trace(A^3) = 64 - 4
        >>> estimate = trace(complete, power=3, num_samples=2000, seed=0)
        >>> estimate.interval[0] < 60 < estimate.interval[1]
        True
        >>> round(trace(complete, power=3, num_samples=32, deflation=5).value, 9)
        60.0

    References:
        .. [1] H. Avron. Counting triangles in large graphs using randomized matrix trace estimation. LDMTA 2010.
        .. [2] R. Meyer, C. Musco, C. Musco, D. Woodruff. Hutch++: optimal stochastic trace estimation. SOSA 2021.
        .. [3] C. Bekas, E. Kokiopoulou, Y. Saad. An estimator for the diagonal of a matrix. Appl. Numer. Math. 2007.
    """
    how, read = Sampling.of(sampling), as_graph(graph)
    S = as_operator(operator, read, torch.float64)
    power = as_integer("power", power, 0)  # S^0 = I has trace n
    check_symmetric(S, operator)
    return estimate_trace(S, read, power, how, Affine(), progress)


def check_symmetric(S: Operator, given: Any) -> None:
    """Refuse an operator for which <a^(p), a^(q)> is not r^T S^(p+q) r."""
    if not S.symmetric:
        name = repr(given) if isinstance(given, str) else type(given).__name__
        raise ArgumentError(
            f"operator must be symmetric, got {name}, which is not (a directed graph, or D^-1 A) or does not say so; "
            'use a symmetric one such as "adjacency.sym", or declare FunctionOperator(..., symmetric=True)'
        )


def estimate_trace(
    S: Operator, graph: Graph, power: int, sampling: Sampling, target: Affine, progress: EstimateTold | None = None
) -> SampleEstimate:
    """:func:`trace` of a checked operator, mapped to the target; the stopping rule looks at the target."""
    if graph.num_graphs > 1:
        # A batch is one graph here: drawn for one by one, equal graphs would have equal features, and the products
        # between them, which deflation makes, no mean of zero.
        graph = Graph.unchecked(graph.edge_index, graph.num_nodes)
    try:
        return _sample(S, graph, power, sampling, target, progress)
    except NumericalError:
        raise NumericalError(
            f"S^{power} has entries beyond 1e308, which float64 does not hold: take a smaller power, an operator of "
            "norm at most 1, or the exact count of integers (exact_trace; rfp count --exact)"
        ) from None


def _sample(
    S: Operator, graph: Graph, power: int, sampling: Sampling, target: Affine, progress: EstimateTold | None
) -> SampleEstimate:
    # S^0 = I has nothing to deflate, and a basis found with S misses the null space of S.
    deflated = sampling.deflation > 0 and power > 0 and graph.num_nodes > 0
    deflation = _deflate(S, graph, power, sampling) if deflated else None
    known = 0.0 if deflation is None else deflation.trace
    known_diagonal = None if deflation is None else deflation.diagonal
    at_once = sampling.trajectories_at_once(graph.num_nodes)
    moments, trajectory = Moments(), 0
    while True:
        stop = min(moments.count + ROUND, sampling.limit)
        while moments.count < stop:
            missing = stop - moments.count
            num_trajectories = min(at_once, max(1, missing // SAMPLES_AT_ONCE))
            r = random_features(
                graph,
                num_channels=min(SAMPLES_AT_ONCE, missing),
                num_trajectories=num_trajectories,
                first_trajectory=trajectory,
                distribution=sampling.distribution,
                seed=sampling.seed,
                dtype=torch.float64,
            )
            moments.add(_terms(S, r, power, deflation, sampling.per_node), sampling.per_node)
            trajectory += num_trajectories
        current = moments.estimate(sampling, target, known, known_diagonal)
        if progress is not None:
            progress(current)
        # What is left of all directions is rounding, whose error relative to a count of 0 is never small.
        exact = deflated and sampling.deflation >= graph.num_nodes and sampling.epsilon is not None
        if moments.count >= sampling.limit or (sampling.epsilon is not None and current.reached) or exact:
            return replace(current, reached=True) if exact else current


def _terms(S: Operator, r: Tensor, power: int, deflation: _Deflation | None, per_node: bool) -> Tensor:
    """The terms of ``<a^(floor(P/2)), a^(ceil(P/2))>``, one sample a column: ``[B, n, k] -> [n, B k]``."""
    left = right = r
    for a in states(S, r, num_steps=(power + 1) // 2, normalization="none"):
        left, right = right, a
    left = right if power % 2 == 0 else left
    if deflation is not None:
        right = deflation.project(right)
        # The sum over the nodes needs one projection, <a, Pi b> = <Pi a, Pi b>; single terms need both.
        left = deflation.project(left) if per_node else left
    product = fold(left * right)
    if not all_finite(product):
        raise NotFiniteError(product.dtype)
    return product


@dataclass(frozen=True)
class _Deflation:
    r"""An orthonormal basis Q with the parts of :math:`C = S^P` that touch it.

    Args:
        basis: Q, ``[n, k]``; columns beyond the rank are zero.
        trace: :math:`\mathrm{trace}(Q^\top C Q)`.
        diagonal: The diagonal of :math:`C - \Pi C \Pi = Q Q^\top C + C Q Q^\top - Q Q^\top C Q Q^\top`, ``[n]``.
    """

    basis: Tensor
    trace: float
    diagonal: Tensor

    def project(self, a: Tensor) -> Tensor:  # [B, n, k] -> [B, n, k]
        r""":math:`\Pi a = a - Q Q^\top a`."""
        columns = fold(a)
        return unfold(torch.addmm(columns, self.basis, self.basis.T @ columns, alpha=-1), a)


def _deflate(S: Operator, graph: Graph, power: int, sampling: Sampling) -> _Deflation:
    r = random_features(
        graph,
        num_channels=min(sampling.deflation, graph.num_nodes),
        first_trajectory=_BASIS_TRAJECTORY,
        seed=sampling.seed,
        dtype=torch.float64,
    )
    # Without `ptr`: the basis of a batch, too, is orthonormal over all its nodes.
    basis = _last(S, r, power, "qr")
    image = _last(S, basis, power, "none")  # C Q
    Q, CQ = basis[0], image[0]
    middle = Q.T @ CQ
    diagonal = (Q * (2 * CQ - Q @ middle)).sum(dim=1)
    return _Deflation(Q, float(middle.diagonal().sum()), diagonal)


def _last(S: Operator, r: Tensor, num_steps: int, normalization: str) -> Tensor:
    a = r
    for state in states(S, r, num_steps=num_steps, normalization=normalization):
        a = state
    return a


def exact_trace(
    graph: Any,
    *,
    power: int,
    operator: Any = "adjacency",
    block_size: int = ROUND,
    max_work: float = MAX_EXACT_WORK,
) -> int | float:
    r""":math:`\mathrm{trace}(S^P)` of a symmetric operator without sampling: the features are the n unit vectors.

    .. math:: \mathrm{trace}(S^P) = \sum_i \langle S^{\lfloor P/2 \rfloor} e_i, S^{\lceil P/2 \rceil} e_i \rangle

    A matrix of integers gives an integer, exact however large: in float64 while all numbers stay below 2^53, else
    modulo as many primes as its size needs (:mod:`rfp.theory.integers`). Any other matrix gives what float64 does.
    Costs n (2m + n) ⌈P/2⌉ multiplications for each prime: for small graphs.

    Args:
        graph: Anything :func:`rfp.as_graph` reads.
        power: P.
        operator: S, symmetric.
        block_size: Unit vectors that share one product.
        max_work: Refuse what takes more multiplications than this.

    Example:
        >>> import networkx as nx
        >>> exact_trace(nx.cycle_graph(4), power=4)  # eigenvalues 2, 0, 0, -2
        32
        >>> exact_trace(nx.complete_graph(3), power=60) == 2**60 + 2  # eigenvalues 2, -1, -1
        True
    """
    read = as_graph(graph)
    S = as_operator(operator, read, torch.float64)
    power = as_integer("power", power, 0)  # S^0 = I has trace n
    check_symmetric(S, operator)
    integers = as_integer_matrix(S)
    num_primes = 0 if integers is None else count_primes(integers, power)
    work = read.num_nodes * (read.num_edges + read.num_nodes) * ((power + 1) // 2) * max(1, num_primes)
    if work > max_work:
        raise ArgumentError(
            f"an exact trace takes {work:.3g} multiplications (some {EXACT_RATE:.0e} a second), above the limit of "
            f"{max_work:.3g}; estimate it (rfp.theory.trace; rfp count without --exact), or raise max_work (--force)"
        )
    if integers is not None and num_primes:
        return integer_trace(integers, power)
    total = 0.0
    for start in range(0, read.num_nodes, block_size):
        width = min(block_size, read.num_nodes - start)
        unit = torch.zeros(read.num_nodes, width, dtype=torch.float64, device=read.device)
        unit[start : start + width] = torch.eye(width, dtype=torch.float64, device=read.device)
        total += float(_terms(S, unit[None], power, None, per_node=False).sum())
    return total if integers is None else int(total)
