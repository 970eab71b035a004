"""The products of the sparse backend on blocks of rows: compiled ones where Numba is there, else library calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rfp.available import compiled_available

Array = NDArray[Any]

# Rows whose float64 copy is multiplied at a time.
_ROWS = 1 << 14


def sparse_rows(crow: Array, col: Array, value: Array, a: Array) -> Array:
    r"""Rows of :math:`S a` from the rows of S: ``[rows, c]`` from a ``[n, c]``. O(entries c)."""
    tensors = [torch.from_numpy(x) for x in (crow, col, value, a)]
    if compiled_available():
        from rfp.backends.compiled import kernels as compiled

        out: Array = compiled.spmm(*tensors, some_rows=True).numpy()
        return out
    matrix = torch.sparse_csr_tensor(tensors[0], tensors[1].long(), tensors[2], size=(len(crow) - 1, len(a)))
    product: Array = (matrix @ tensors[3]).numpy()
    return product


def add_gram(a: Array) -> Array:
    r""":math:`a^\top a` of each trajectory in float64, ``[rows, B, k] -> [B, k, k]``. O(rows k² B)."""
    if compiled_available():
        from rfp.backends.compiled import kernels as compiled

        compiled_gram: Array = compiled.gram(torch.from_numpy(np.ascontiguousarray(a))).numpy()
        return compiled_gram
    total = np.zeros((a.shape[1], a.shape[2], a.shape[2]))
    for start in range(0, len(a), _ROWS):
        part = a[start : start + _ROWS].transpose(1, 0, 2).astype(np.float64)
        total += part.transpose(0, 2, 1) @ part
    return total


def times(a: Array, factor: Array) -> Array:
    """``a @ factor`` for each trajectory, ``[rows, B, k]``; upper triangular ``[B, k, k]`` or diagonal ``[B, k]``."""
    factor = factor.astype(a.dtype)
    if factor.ndim == 2:
        return np.asarray(a * factor)
    out = np.empty_like(a)
    if compiled_available():
        from rfp.backends.compiled import kernels as compiled

        left, right = (torch.from_numpy(np.ascontiguousarray(x)) for x in (a, factor))
        compiled.apply(left, right, torch.from_numpy(out))
        return out
    for b in range(a.shape[1]):
        np.matmul(a[:, b], factor[b], out=out[:, b])
    return out
