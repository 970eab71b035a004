r"""How fast the states approach the dominant eigenvectors, measured (Proposition 4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from rfp.conversion import as_graph
from rfp.encode import encode
from rfp.errors import ArgumentError
from rfp.features import Distribution
from rfp.operators import Operator, as_operator
from rfp.theory.angles import principal_angles
from rfp.theory.bounds import dense_eigenpairs

# Magnitudes that agree to this factor are tied: rounding of the eigenvalues is far below, any useful gap far above.
_TIE = 1e-9
# Singular values below this fraction of the largest are no direction of the span.
_RANK = 1e-10


@dataclass(frozen=True)
class Convergence:
    r"""Each step's distance from the space that propagation with QR converges to.

    With :math:`|\lambda_1| \ge |\lambda_2| \ge \dots`, the *dominant space* is spanned by the eigenvectors with
    :math:`|\lambda| \ge |\lambda_k|`. Without a tie at k its dimension K is k; with one (equal eigenvalues, or a pair
    :math:`\pm\lambda`) it is larger, and the k-dimensional span of a state converges into it without a limit of its
    own.

    Args:
        angles: Principal angles between the span of each step and the dominant space, ``[P + 1, k]``, ascending, in
            radians. A direction the span lacks (dependent columns) counts as π/2.
        column_angles: Angle between column j of each step and the j-th eigenvector, ``[P + 1, k]``: what Proposition
            4.2 says vanishes, if the k + 1 largest magnitudes differ.
        step_angles: Largest principal angle between the spans of consecutive steps, ``[P]``: needs no eigenvectors.
        ritz_values: Eigenvalues of :math:`Q^\top S Q`, Q an orthonormal basis of the step's span, by descending
            magnitude, ``[P + 1, k]``; zeros for directions it lacks.
        eigenvalues: All eigenvalues by descending magnitude, ``[n]``.
        dominant_dimension: K.
    """

    angles: Tensor
    column_angles: Tensor
    step_angles: Tensor
    ritz_values: Tensor
    eigenvalues: Tensor
    dominant_dimension: int

    @property
    def num_channels(self) -> int:
        return self.angles.size(1)

    @property
    def tie(self) -> bool:
        r"""Whether :math:`|\lambda_k| = |\lambda_{k+1}|`, against the assumption of the proposition."""
        return self.dominant_dimension > self.num_channels

    @property
    def rate(self) -> float:
        r"""The factor by which the angles shrink at each step in the end, :math:`|\lambda_{K+1}| / |\lambda_k|`."""
        magnitude = self.eigenvalues.abs()
        if self.dominant_dimension >= len(magnitude) or magnitude[self.num_channels - 1] == 0:
            return 0.0
        return float(magnitude[self.dominant_dimension] / magnitude[self.num_channels - 1])

    def measured_rate(self, *, below: float = 0.1, above: float = 1e-10) -> float:
        """The factor fitted to the largest angle over the steps where it lies between two bounds.

        Above 0.1 the angle has not settled to its rate, below 1e-10 it is rounding.
        """
        largest = self.angles[:, -1]
        steps = ((largest < below) & (largest > above)).nonzero()[:, 0].double()
        if len(steps) < 3:
            raise ArgumentError(
                f"only {len(steps)} steps have an angle between {above:g} and {below:g}, at least 3 are needed to fit "
                "a rate; take more steps, unless it converges at once"
            )
        logs = largest[steps.long()].log()
        slope = ((steps - steps.mean()) * (logs - logs.mean())).sum() / (steps - steps.mean()).square().sum()
        return math.exp(float(slope))


def convergence(
    graph: Any,
    *,
    num_channels: int = 4,
    num_steps: int = 32,
    operator: Any = "normalized_adjacency",
    normalization: str = "qr",
    distribution: Distribution = "normal",
    seed: int = 0,
    features: Tensor | None = None,
) -> Convergence:
    r"""Propagate in float64 and compare every step with the exact eigenvectors of the operator.

    For symmetric S, random features of a continuous distribution and :math:`|\lambda_k| > |\lambda_{k+1}|`, the
    largest angle behaves as :math:`O(|\lambda_{k+1} / \lambda_k|^p)` with probability one (Proposition 4.2).

    Args:
        graph: One graph of at most 5000 nodes, in any form :func:`rfp.as_graph` reads.
        num_channels: k, at most n.
        num_steps: P.
        operator: S, symmetric.
        normalization: ``"qr"`` is subspace iteration; ``"l2"`` sends every column to the dominant eigenvector.
        distribution: Distribution of the features.
        seed: Seed of the features.
        features: Start from these ``[n, k]`` instead: node features (NFP), which need not have full rank.

    Returns:
        A :class:`Convergence`. Costs O(n³) for the eigenvectors and O(P n k²).

    Example:
        >>> import networkx as nx
        >>> result = convergence(nx.star_graph(5), operator="adjacency", num_channels=1, num_steps=8)
        >>> result.tie, result.dominant_dimension  # the eigenvalues are ± sqrt(5) and 0
        (True, 2)
        >>> bool(result.angles[1, 0] < 1e-6), bool(result.step_angles[-1] > 0.1)  # in their plane, never settled
        (True, True)
    """
    read = as_graph(graph)
    if read.num_graphs != 1:
        raise ArgumentError(f"convergence is measured on one graph, got a batch of {read.num_graphs}")
    values, vectors = dense_eigenpairs(read, operator)
    order = values.abs().argsort(descending=True, stable=True)
    values, vectors = values[order], vectors[:, order]
    t = encode(
        read,
        num_channels=num_channels,
        num_steps=num_steps,
        operators=[operator],
        normalization=normalization,
        distribution=distribution,
        seed=seed,
        dtype=torch.float64,
        features=features,
    )
    states = t.states[0].transpose(0, 1)  # [P + 1, n, k]
    if states.size(2) > read.num_nodes:
        raise ArgumentError(f"num_channels must be at most the number of nodes, {read.num_nodes}, got {states.size(2)}")
    return measure_states(states, as_operator(operator, read, torch.float64), values, vectors)


def measure_states(states: Tensor, S: Operator, values: Tensor, vectors: Tensor) -> Convergence:
    """:func:`convergence` of states that are there.

    Args:
        states: ``[P + 1, n, k]`` with k at most n; some of the steps will do.
        S: The symmetric operator they were propagated by.
        values: Its eigenvalues by descending magnitude, at least k of them, ``[l]``.
        vectors: The eigenvectors in that order, ``[n, l]``. Of a tie at k only the part that is given is known.
    """
    k = states.size(2)
    tied = int((values.abs() >= (1 - _TIE) * values[k - 1].abs()).sum())
    bases = [_basis(a.double()) for a in states]
    steps = [_between(before, after) for before, after in pairwise(bases)]
    return Convergence(
        angles=torch.stack([_padded_angles(vectors[:, :tied], Q, k) for Q in bases]),
        column_angles=torch.stack([_column_angles(a.double(), vectors[:, :k]) for a in states]),
        step_angles=torch.tensor(steps, dtype=torch.float64),
        ritz_values=torch.stack([_ritz_values(S, Q, k) for Q in bases]),
        eigenvalues=values,
        dominant_dimension=tied,
    )


def _basis(a: Tensor) -> Tensor:  # [n, k] -> [n, rank]
    left, singular, _ = torch.linalg.svd(a, full_matrices=False)
    basis: Tensor = left[:, singular > _RANK * singular.max()]
    return basis


def _padded_angles(space: Tensor, basis: Tensor, k: int) -> Tensor:  # [n, K], [n, rank] -> [k]
    angles = torch.full((k,), torch.pi / 2, dtype=torch.float64, device=basis.device)
    if basis.size(1):
        angles[: basis.size(1)] = principal_angles(space, basis)
    return angles


def _between(before: Tensor, after: Tensor) -> float:
    """The largest principal angle of two spans; a right angle if they differ in dimension."""
    if before.size(1) != after.size(1):
        return math.pi / 2
    return float(principal_angles(before, after)[-1]) if after.size(1) else 0.0


def _column_angles(a: Tensor, vectors: Tensor) -> Tensor:  # [n, k], [n, k] -> [k]
    along = (a * vectors).sum(dim=0)
    across = (a - vectors * along).norm(dim=0)
    # The arc tangent is accurate at both ends; a zero column is given a right angle.
    return torch.where((across == 0) & (along == 0), torch.pi / 2, torch.atan2(across, along.abs()))


def _ritz_values(S: Operator, basis: Tensor, k: int) -> Tensor:  # -> [k]
    values = torch.zeros(k, dtype=torch.float64, device=basis.device)
    if basis.size(1):
        found = torch.linalg.eigvalsh(basis.T @ (S @ basis.contiguous()))
        values[: basis.size(1)] = found[found.abs().argsort(descending=True)]
    return values
