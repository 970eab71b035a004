r"""How large rounding alone can make a column of :math:`S a`: what is no larger than that counts as zero.

A product that is zero on paper (constant features under :math:`\hat L`) comes out as rounding noise, and a
normalisation would blow that up to unit length. The product alone does not show it; its factors do. Rounding of S, of
a and of the sums adds to column j about

.. math:: u \, \lVert S \rVert \, \lVert a_j \rVert_2, \qquad u = 8 \text{ units in the last place},

where the norm is that of :math:`|S|`, times d / 64 where a row has d > 64 entries
(:func:`rfp.operator_norms.rounding_norm`): a sum of equal terms, one after the other, is off by a part of its last
place for each of them. What is there already grows with the column. With :math:`\ell_j` and :math:`\ell_j'` the
lengths of column j before and after the product,

.. math:: e_j' = e_j \, \ell_j' / \ell_j + u \lVert S \rVert \ell_j, \qquad e_j = 0 \text{ after a normalisation}.

A column of length at most :math:`e_j` is zero to every normalisation. In a QR the residual of a column carries the
noise of those it was freed of as well (:func:`amplification`). All of it depends on lengths, norms and R alone: the
same in every backend and for every order of the nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

# Set by benchmarks/rounding_units.py: of 300 random graphs with rows of up to 10,000 entries, both types, over one
# to three products, columns that are zero on paper have at most 3.3 such units, those of random features at least 270
# (benchmarks/results/rounding-units.csv). What is cut off between has a direction known to an eighth at best.
UNITS = 8.0
# Entries of a row beyond which the unit grows with them: sums of equal terms were off by 0.035 units for each term.
LONG_ROW = 64
# :func:`rounding_unit` of float32, where a kernel needs a number.
FLOAT32_UNIT = UNITS * 2.0**-23


def rounding_unit(dtype: torch.dtype) -> float:
    """u: what rounding adds to the product of a matrix of norm 1 and a vector of length 1."""
    return UNITS * torch.finfo(dtype).eps


@dataclass(frozen=True)
class Rounding:
    """The lengths of a state's columns and what rounding may have added to them since the last normalisation.

    Args:
        unit: :math:`u \\lVert S \\rVert`, ``[G, 1, 1]`` float64.
        length: ``[G, B, k]`` float64.
        noise: ``[G, B, k]`` float64, :math:`e_j`.
        unknown_norm: u where the norm of S is not known: then the largest growth of a column so far stands for it.
    """

    unit: Tensor
    length: Tensor
    noise: Tensor
    unknown_norm: float = 0.0

    @classmethod
    def start(cls, norm: Tensor | None, length: Tensor, dtype: torch.dtype) -> Rounding:
        """Of features with columns of this length ``[G, B, k]`` under operators of this norm ``[G]``."""
        u, noise = rounding_unit(dtype), torch.zeros_like(length)
        if norm is None:
            return cls(torch.zeros_like(length[..., :1]), length, noise, unknown_norm=u)
        return cls(u * norm.to(length).view(-1, 1, 1), length, noise)

    def after(self, length: Tensor) -> Rounding:
        """After a product that left columns of this length."""
        growth = torch.where(self.length > 0, length / self.length, 0.0)
        unit = self.unit
        if self.unknown_norm and growth.size(-1):
            unit = torch.maximum(unit, self.unknown_norm * growth.amax(-1, keepdim=True))
        return replace(self, unit=unit, length=length, noise=self.noise * growth + unit * self.length)

    def renewed(self, length: Tensor | None = None) -> Rounding:
        """After a normalisation that left columns of this length, or of length 1 (zero ones stay zero anyway)."""
        length = torch.ones_like(self.length) if length is None else length
        return replace(self, length=length, noise=torch.zeros_like(self.noise))


def amplification(r: Tensor) -> Tensor:
    r"""By how much the residual of each column in a QR is noisier than one column of the product.

    Noise of size e in every column of :math:`a = q R` is noise of size :math:`e z_j` in :math:`q_j`, where errors that
    know nothing of each other add up as squares:

    .. math:: z_j^2 = \alpha_j^2 / R_{jj}^2, \qquad \alpha_j^2 = 1 + \sum_{i < j} R_{ij}^2 z_i^2.

    Args:
        r: ``[..., k, k]`` upper triangular float64, with pivots that are not zero.

    Returns:
        :math:`\alpha`, ``[..., k]``. Column j is determined where :math:`e \alpha_j < R_{jj}`. O(k²) each.
    """
    squares = r.square()
    # R_jj^2 z_j^2 - sum_{i<j} R_ij^2 z_i^2 = 1 for all j is a triangular system.
    system = torch.diag_embed(2 * squares.diagonal(dim1=-2, dim2=-1)) - squares.triu()
    ones = torch.ones(*r.shape[:-1], 1, dtype=r.dtype, device=r.device)
    z_squared = torch.linalg.solve_triangular(system.mT, ones, upper=False)[..., 0]
    alpha: Tensor = (z_squared * squares.diagonal(dim1=-2, dim2=-1)).sqrt()
    return alpha
