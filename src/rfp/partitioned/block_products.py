"""The products of the sparse backend on blocks of rows: compiled ones where Numba is there, else library calls.

A worker that has a GPU, and was told to use it, multiplies there: the panel stays on it, the blocks go through.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.available import compiled_available
from rfp.precision import matmul_precision

Array = NDArray[Any]

# Rows whose float64 copy is multiplied at a time.
_ROWS = 1 << 14


def device_here(wanted: str) -> torch.device:
    """The device of the tasks of this process: a GPU where one is wanted and there."""
    return torch.device("cuda" if wanted == "cuda" and torch.cuda.is_available() else "cpu")


def _compiled(device: torch.device) -> bool:
    return device.type == "cpu" and compiled_available()


def sparse_rows(crow: Array, col: Array, value: Array, a: Tensor, out: Array | None = None) -> Array:
    r"""Rows of :math:`S a` from the rows of S: ``[rows, c]`` from a ``[n, c]``, on its device. O(entries c).

    Args:
        crow: ``[rows + 1]``.
        col: ``[entries]``.
        value: ``[entries]``.
        a: The panel.
        out: Memory for the result, which is used where that is computed here.
    """
    rows, columns, values = (torch.from_numpy(x) for x in (crow, col, value))
    if _compiled(a.device):
        from rfp.backends.compiled.sparse_product import sparse_product

        here = None if out is None else torch.from_numpy(out)
        product: Array = sparse_product(rows, columns, values, a, here, some_rows=True).numpy()
        return product
    return sparse_rows_by_library(rows, columns, values, a)


def sparse_rows_by_library(crow: Tensor, col: Tensor, value: Tensor, a: Tensor) -> Array:
    """:func:`sparse_rows` by the product of PyTorch, which the device of ``a`` brings."""
    rows, columns, values = (x.to(a.device) for x in (crow, col.long(), value))
    matrix = torch.sparse_csr_tensor(rows, columns, values, size=(len(crow) - 1, len(a)), check_invariants=False)
    product: Array = (matrix @ a).cpu().numpy()
    return product


def block_gram(a: Array, device: torch.device | None = None) -> Array:
    r""":math:`a^\top a` of each trajectory in float64, ``[rows, B, k] -> [B, k, k]``. O(rows k² B)."""
    device = device or torch.device("cpu")
    if _compiled(device):
        from rfp.backends.compiled.dense_products import gram_matrix

        compiled_gram: Array = gram_matrix(torch.from_numpy(np.ascontiguousarray(a))).numpy()
        return compiled_gram
    return gram_by_library(torch.from_numpy(a), device)


def gram_by_library(a: Tensor, device: torch.device) -> Array:
    """:func:`block_gram` by batched products of PyTorch, a piece of the rows at a time."""
    total = torch.zeros(a.size(1), a.size(2), a.size(2), dtype=torch.float64, device=device)
    for start in range(0, len(a), _ROWS):
        part = a[start : start + _ROWS].to(device).transpose(0, 1).double()
        total += part.mT @ part
    gram: Array = total.cpu().numpy()
    return gram


def times(a: Array, factor: Array, device: torch.device | None = None, out: Array | None = None) -> Array:
    """``a @ factor`` for each trajectory, ``[rows, B, k]``.

    Args:
        a: ``[rows, B, k]``.
        factor: Upper triangular ``[B, k, k]`` or diagonal ``[B, k]``.
        device: Where it is computed.
        out: Memory for the result, which is used where that is computed here; may be ``a``.
    """
    device = device or torch.device("cpu")
    factor = factor.astype(a.dtype)
    if factor.ndim == 2:
        return np.asarray(np.multiply(a, factor, out=out))
    if _compiled(device):
        from rfp.backends.compiled.dense_products import times_upper

        out = np.empty_like(a) if out is None else out
        left, right = (torch.from_numpy(np.ascontiguousarray(x)) for x in (a, factor))
        times_upper(left, right, torch.from_numpy(out))
        return out
    return times_by_library(torch.from_numpy(a), torch.from_numpy(factor), device)


def times_by_library(a: Tensor, factor: Tensor, device: torch.device) -> Array:
    """:func:`times` by products of PyTorch."""
    factor = factor.contiguous().to(device)
    with matmul_precision("highest"):
        parts = [(a[:, b].to(device) @ factor[b]).cpu() for b in range(a.size(1))]
    product: Array = torch.stack(parts, dim=1).numpy()
    return product
