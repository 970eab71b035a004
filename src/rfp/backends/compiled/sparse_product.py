"""The sparse product on a CPU, with neighbours fetched ahead of their use."""

# mypy: disable-error-code="misc, untyped-decorator, no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit
from torch import Tensor

from rfp.backends.compiled.pieces import as_array, equal_work, run_pieces
from rfp.backends.compiled.vectors import fma, prefetch, vload, vstore, vzeros
from rfp.compiled.cached import kernel
from rfp.pages import empty

# How far ahead of their use the sparse product fetches neighbours: 8 rows of 64 numbers, but at most 16 rows.
_NUMBERS_AHEAD, _ROWS_AHEAD = 512, 16


@njit(inline="always")
def _gather(col, value, a, out, i, start, stop, c, lanes):
    total, last = vzeros(out, lanes), len(col) - 1
    for e in range(start, stop):
        ahead = col[min(e + min(_NUMBERS_AHEAD // lanes, _ROWS_AHEAD), last)]
        for line in range(0, lanes, 64 // a.itemsize):
            prefetch(a, (ahead, c + line))
        total = fma(total, value[e], vload(a, (col[e], c), lanes))
    vstore(total, out, (i, c))


@kernel
def _sparse_product_kernel(crow, col, value, a, out, piece, first, last):
    for i in range(first, last):
        c, width = 0, a.shape[1]
        while a.itemsize == 4 and c + 64 <= width:  # 16 of NEON's 32 registers; 64 doubles would fill them all
            _gather(col, value, a, out, i, crow[i], crow[i + 1], c, 64)
            c += 64
        while c + 16 <= width:
            _gather(col, value, a, out, i, crow[i], crow[i + 1], c, 16)
            c += 16
        while c < width:
            _gather(col, value, a, out, i, crow[i], crow[i + 1], c, 1)
            c += 1


def sparse_product(
    crow: Tensor, col: Tensor, value: Tensor, a: Tensor, out: Tensor | None = None, *, some_rows: bool = False
) -> Tensor:
    r"""The sparse product :math:`S a`, O(nnz c).

    Args:
        crow: ``[rows + 1]`` int32 or int64: all rows of S, or a block of them.
        col: ``[nnz]``.
        value: ``[nnz]``.
        a: ``[n, c]`` float32 or float64. Rows may be apart (one step of a trajectory), at 1.5 times the time.
        out: ``[rows, c]``, not ``a`` itself.
        some_rows: Whether these are some rows of S, not all n of them.
    """
    num_rows, width = len(crow) - 1, a.size(1)
    shape = (len(a) if some_rows else num_rows, width)
    out = empty(num_rows, width, dtype=a.dtype) if out is None else out
    arrays = (crow.numpy(), col.numpy(), value.numpy(), as_array("a", a, *shape), as_array("out", out, num_rows, width))
    bounds = equal_work(arrays[0] + np.arange(len(crow)), 1 << 14)  # an empty row costs something too
    run_pieces(_sparse_product_kernel, bounds, *arrays)
    return out
