r"""The values of predefined operators on the entries of A, on a CPU: all of them in two passes.

They are those of :mod:`rfp.operators.predefined`: with :math:`\tilde A` the matrix :math:`A` with a self-loop of weight
1 on every node that has none, and degrees :math:`d_i = \sum_j |\tilde A_{ij}|`, :math:`d'_j = \sum_i |\tilde A_{ij}|`,

.. math:: \hat A_{ij} = d_i^{-1/2} \tilde A_{ij} {d'_j}^{-1/2}, \qquad \hat L = I - \hat A.
"""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rfp.compiled.cached import helper, kernel
from rfp.csr import CSR

# The operators that are made here, by their places in what the kernel is told.
COMPILED_OPERATORS = ("normalized_adjacency", "normalized_laplacian")


@helper
def _looped_degrees(crow, col, value, of_rows, of_columns):
    """The sums of absolute values of the rows and the columns of Ã; the columns' are zero before."""
    for i in range(len(of_rows)):
        total = 0.0
        for e in range(np.uint64(crow[i]), np.uint64(crow[i + 1])):
            size = 1.0 if value[e] == 0.0 and col[e] == i else abs(value[e])
            total += size
            of_columns[np.uint64(col[e])] += size
        of_rows[i] = total


@helper
def _invert_roots(degrees):
    for i in range(len(degrees)):
        degrees[i] = 1.0 / np.sqrt(degrees[i]) if degrees[i] > 0.0 else 0.0


@kernel
def _operator_values_kernel(crow, col, value, left, right, normalized, laplacian):
    """Fill those of the last two that are as long as ``col``; ``left`` and ``right`` are ``[n]`` zeros before."""
    _looped_degrees(crow, col, value, left, right)
    _invert_roots(left)
    _invert_roots(right)
    for i in range(len(left)):
        for e in range(np.uint64(crow[i]), np.uint64(crow[i + 1])):
            diagonal = col[e] == i
            looped = 1.0 if value[e] == 0.0 and diagonal else value[e]
            entry = left[i] * looped * right[np.uint64(col[e])]
            if len(normalized):
                normalized[e] = entry
            if len(laplacian):
                laplacian[e] = (1.0 if diagonal else 0.0) - entry


def compiled_operator_values(names: Sequence[str], pattern: CSR, dtype: torch.dtype) -> dict[str, Tensor]:
    """Values of operators by their names, ``[nnz]`` each, computed in float64. O(m).

    Args:
        names: Of :data:`COMPILED_OPERATORS`; others are left out.
        pattern: :attr:`rfp.Graph.pattern`, on a CPU.
        dtype: Type of the values.
    """
    out = {name: torch.empty(pattern.nnz, dtype=dtype) for name in COMPILED_OPERATORS if name in names}
    if out:
        crow, col, value = pattern.crow.numpy(), pattern.col.numpy(), pattern.value.numpy()
        left, right = np.zeros((2, pattern.num_rows))
        none = torch.empty(0, dtype=dtype)
        filled = [out.get(name, none).numpy() for name in COMPILED_OPERATORS]
        _operator_values_kernel(crow, col, value, left, right, *filled)
    return out
