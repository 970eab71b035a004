r"""The scores by their formulas. All are one form, :math:`c_1 A + \sum_{l \ge 2} c_l\, A W A^{l-2}` with a diagonal W.

========================  ============================================================  ================================
name                      :math:`s(u, v)`                                               as a matrix
========================  ============================================================  ================================
``common_neighbors``      :math:`|N(u) \cap N(v)|`                                      :math:`A A`
``adamic_adar``           :math:`\sum_{w \in N(u) \cap N(v)} 1 / \log d_w`              :math:`A \,(\log D)^{-1} A`
``resource_allocation``   :math:`\sum_{w \in N(u) \cap N(v)} 1 / d_w`                   :math:`A D^{-1} A`
``katz``                  :math:`\sum_{l=1}^{L} \beta^l` times the walks of length l    :math:`\sum_l \beta^l A^l`
                          from u to v
========================  ============================================================  ================================

A common neighbour of two nodes has a degree of at least 2, so the weight of nodes of degree 0 and 1, where
:math:`1 / \log d` is not defined, plays no role and is 0.

References:
    L. A. Adamic, E. Adar. Friends and neighbors on the Web. Social Networks 25, 2003.
    T. Zhou, L. Lü, Y.-C. Zhang. Predicting missing links via local information. Eur. Phys. J. B 71, 2009.
    L. Katz. A new status index derived from sociometric analysis. Psychometrika 18, 1953.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.settings import as_integer


def _ones(degree: Tensor) -> Tensor:
    return torch.ones_like(degree)


def _inverse_log(degree: Tensor) -> Tensor:
    return torch.where(degree > 1, 1 / degree.clamp_min(2).log(), 0.0)


def _inverse(degree: Tensor) -> Tensor:
    return torch.where(degree > 1, 1 / degree.clamp_min(1), 0.0)


# Weight of a common neighbour by its degree; Katz counts walks, which need none.
SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "common_neighbors": _ones,
    "adamic_adar": _inverse_log,
    "resource_allocation": _inverse,
    "katz": _ones,
}
KATZ_BETA, KATZ_LENGTH = 0.005, 6
# Scores of Katz may have so many digits before the point.
_MOST_DIGITS = 300


@dataclass(frozen=True)
class ScoreForm:
    r"""A score of a graph as :math:`c_1 A + \sum_{l=2}^{L} \gamma^l\, A W A^{l-2}`.

    Args:
        name: A key of :data:`SCORES`.
        weight: W, ``[n]`` float64; ones where L > 2.
        decay: γ: each step of a walk counts so much.
        direct: :math:`c_1`, what an edge between the two counts.
        length: L.
    """

    name: str
    weight: Tensor
    decay: float = 1.0
    direct: float = 0.0
    length: int = 2

    @property
    def num_states(self) -> int:
        """T: powers up to L are products of the steps 1 to T."""
        return -(-self.length // 2)

    def mixing(self) -> tuple[Tensor, Tensor]:
        r"""How products of states make the score: ``M`` ``[T, T]`` float64 and signs ``[T]``.

        With the states :math:`x_i = \gamma^i S_1 A^{i-1} q` the score without :math:`c_1 A` is
        :math:`E[\sum_{ij} C_{ij} x_i(u) x_j(v)]` for the symmetric C that has 1 at (i, i) and 1/2 beside it wherever
        that power is asked for. :math:`C = M \,\mathrm{diag}(\pm 1)\, M^\top`, so with :math:`y = M^\top x` it is one
        product of y(u) and y(v).

        Example:
            >>> ScoreForm("katz", torch.ones(3), 0.1, 0.1, length=3).mixing()[0].shape
            torch.Size([2, 2])
        """
        T = self.num_states
        C = torch.zeros(T, T, dtype=torch.float64)
        for i in range(1, T + 1):
            C[i - 1, i - 1] = 1.0 if 2 * i <= self.length else 0.0
            if i < T and 2 * i + 1 <= self.length:
                C[i - 1, i] = C[i, i - 1] = 0.5
        values, vectors = torch.linalg.eigh(C)
        return vectors * values.abs().sqrt(), values.sign()


def score_form(
    score: str, graph: Graph, *, beta: float = KATZ_BETA, max_length: int = KATZ_LENGTH, degree: Tensor | None = None
) -> ScoreForm:
    """A named score of a simple graph.

    Args:
        score: A key of :data:`SCORES`.
        graph: Undirected, without weights, loops and duplicates.
        beta: β of Katz.
        max_length: L of Katz; the longer walks count :math:`\\beta^l` and less.
        degree: ``[n]``, if it is known.
    """
    if score not in SCORES:
        raise unknown_choice("score", score, SCORES)
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not math.isfinite(beta) or beta <= 0:
        raise ArgumentError(f"beta must be a positive number, got {beta!r}")
    max_length = as_integer("max_length", max_length, 2)
    if degree is None:
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    weight = SCORES[score](degree.double())
    if score == "katz":
        # No node has more walks of length l than the largest degree to the power l.
        most = max_length * math.log10(beta * max(float(degree.max()) if len(degree) else 0.0, 1.0))
        if most > _MOST_DIGITS:
            raise ArgumentError(
                f"beta={beta:g} and max_length={max_length} may give scores beyond floating point; take smaller ones"
            )
        return ScoreForm(score, weight, float(beta), float(beta), max_length)
    return ScoreForm(score, weight)
