r"""Norms of operators: what rounding of :math:`S a` scales with (:mod:`rfp.rounding`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rfp.available import triton_available
from rfp.csr import CSR
from rfp.errors import NumericalError
from rfp.operators import DenseOperator, MatrixOperator, Operator
from rfp.ragged import owners
from rfp.rounding import LONG_ROW

Product = Callable[[Tensor], Tensor]


def norm_of(operator: Operator, ptr: Tensor) -> Tensor | None:
    r"""The norm of :math:`|S|` for each graph, ``[G]`` float64, or a bound on it: what rounding of ``S a`` scales with.

    An operator may declare it, ``norm``, as a number or as ``[G]`` of them. For a matrix it is :func:`schur_bound`.
    ``None`` for an operator that is a function and declares nothing. O(m).
    """
    declared: float | Tensor | None = getattr(operator, "norm", None)
    if isinstance(declared, Tensor):
        return declared.to(ptr.device, torch.float64)
    if declared is not None:
        return torch.full((len(ptr) - 1,), float(declared), dtype=torch.float64, device=ptr.device)
    if isinstance(operator, DenseOperator):
        matrix = operator.matrix.detach().double().abs()
        return schur_bound(lambda x: matrix @ x, lambda x: matrix.T @ x, matrix.shape, ptr, ptr)
    if isinstance(operator, MatrixOperator):
        if _by_kernels(operator.csr):
            from rfp.triton_norms import schur_bounds

            return schur_bounds(operator.csr, ptr)
        csr, value = operator.csr, operator.csr.value.double().abs()
        row, col, none = csr.row, csr.col.long(), torch.zeros(csr.num_rows, dtype=torch.float64, device=ptr.device)
        by_rows: Product = lambda x: none.index_add(0, row, value * x[col])  # noqa: E731
        by_columns: Product = lambda x: none.index_add(0, col, value * x[row])  # noqa: E731
        return schur_bound(by_rows, by_columns, (csr.num_rows, csr.num_rows), ptr, ptr)
    return None


def _by_kernels(csr: CSR) -> bool:
    return csr.value.is_cuda and csr.num_rows > 0 and triton_available()


def schur_bound(
    by_rows: Product, by_columns: Product, shape: tuple[int, ...], ptr: Tensor, column_ptr: Tensor
) -> Tensor:
    r"""The norm of :math:`|S|` is bounded by Schur's test with the roots of its row sums r and column sums c,

    .. math:: \lVert S \rVert^2 \le \max_i \frac{(|S| \sqrt c)_i}{\sqrt{r_i}} \cdot
        \max_j \frac{(|S|^\top \sqrt r)_j}{\sqrt{c_j}},

    which is exact for a star and for a matrix of equal sums.

    Args:
        by_rows: :math:`x \mapsto |S| x`.
        by_columns: :math:`x \mapsto |S|^\top x`.
        shape: Rows and columns of S.
        ptr: ``[G + 1]``, the rows of each graph.
        column_ptr: ``[G + 1]``, its columns.

    Returns:
        ``[G]`` float64.
    """
    in_rows, in_columns = (torch.ones(size, dtype=torch.float64, device=ptr.device) for size in shape)
    r, c = by_rows(in_columns).sqrt(), by_columns(in_rows).sqrt()
    rows, columns = (by_rows(c) / r).nan_to_num(nan=0.0), (by_columns(r) / c).nan_to_num(nan=0.0)  # 0 / 0: empty ones
    # Roots first: float64 may not hold the product of two norms.
    return (_largest(rows[:, None], ptr).sqrt() * _largest(columns[:, None], column_ptr).sqrt())[:, 0]


def _largest(values: Tensor, ptr: Tensor) -> Tensor:  # [n, c] -> [G, c]
    """The largest of each graph's, none of which is negative; 0 for a graph without nodes."""
    if len(ptr) == 2:
        return values.amax(0, keepdim=True) if len(values) else values.new_zeros(1, values.size(1))
    return torch.segment_reduce(values, "max", lengths=ptr.diff(), axis=0, unsafe=ptr.is_cuda, initial=0.0)


def rounding_norm(operator: Operator, ptr: Tensor, largest: int | None = None) -> Tensor | None:
    r"""The norm of :math:`|S|`, its long rows counted more: what rounding of ``S a`` scales with.

    With :math:`g_i = \max(1, d_i / 64)` for a row of :math:`d_i` entries (:data:`rfp.rounding.LONG_ROW`), the smaller
    of two bounds on the norm of :math:`\mathrm{diag}(g) |S|`:

    .. math:: \max_i g_i \, \lVert S \rVert \quad\text{and}\quad
        \lVert S \rVert + \lVert \mathrm{diag}(g - 1) \, S \rVert_F.

    Args:
        operator: S.
        ptr: ``[G + 1]``.
        largest: Nodes of the largest graph, if that is known: rows of small ones are not looked at.

    Returns:
        ``[G]`` float64; ``None`` where :func:`norm_of` is. O(m).
    """
    if isinstance(operator, MatrixOperator) and operator.rounding_norm is not None:
        return operator.rounding_norm
    norm = norm_of(operator, ptr)
    if norm is None or (largest is not None and largest <= LONG_ROW):
        return norm
    if isinstance(operator, DenseOperator):
        matrix = operator.matrix.detach().double()
        return with_long_rows(norm, (matrix != 0).sum(1), matrix.square().sum(1), ptr)
    if isinstance(operator, MatrixOperator):
        csr = operator.csr
        if len(ptr) == 2 and _by_kernels(csr):
            from rfp.triton_norms import norm_with_long_rows

            return norm_with_long_rows(norm, csr)
        return with_long_rows(norm, csr.row_lengths, csr.row_sums(csr.value.double().square()), ptr)
    return norm


def check_range(norm: Tensor, start: float, products: int, dtype: torch.dtype) -> None:
    """Raise where S is so small that columns vanish before they are normalised; overflows show by themselves.

    Args:
        norm: That of ``|S|``, ``[G]``, on the host; 0 for a graph whose columns are zero on paper.
        start: Length of the longest column of the features.
        products: With S, between two normalisations.
        dtype: Type of the states. Squares of their lengths are summed in float64.
    """
    least = max(math.log2(torch.finfo(dtype).tiny), math.log2(torch.finfo(torch.float64).tiny) / 2)
    exponent = products * norm.log2() + min(math.log2(start) if start > 0 else 0.0, 0.0)
    vanishing = ((norm > 0) & (exponent < least)).nonzero()
    if len(vanishing):
        graph = int(vanishing[0])
        of = f" on graph {graph}" if len(norm) > 1 else ""
        raise NumericalError(
            f"the operator{of} has a norm of about {float(norm[graph]):.2g}: {products} products with it before a "
            f"normalisation are less than {dtype} holds; multiply the weights by about {1 / float(norm[graph]):.2g}, "
            "which changes no normalised state, or normalise more often, or use dtype=float64"
        )


def with_long_rows(norm: Tensor, entries: Tensor, squares: Tensor, ptr: Tensor) -> Tensor:
    """:func:`rounding_norm` of matrices of this norm ``[G]``, from the number of entries of each row and their sum of
    squares, ``[n]``.
    """
    times = (entries.double() / LONG_ROW).clamp_min(1.0)
    each = (times - 1).square() * squares
    if len(ptr) == 2:
        beyond = each.sum(0, keepdim=True)
    else:
        beyond = torch.zeros_like(norm).index_add(0, owners(ptr.diff(), len(times)), each)
    return torch.minimum(norm * _largest(times[:, None], ptr)[:, 0].clamp_min(1.0), norm + beyond.sqrt())


def norms_of_entries(
    row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, ...], ptr: Tensor, column_ptr: Tensor
) -> tuple[Tensor, Tensor]:
    """:func:`norm_of` and :func:`rounding_norm` of a matrix of any shape, from its entries: ``[G]`` each."""
    value = value.double().abs()
    rows, columns = (torch.zeros(size, dtype=torch.float64, device=value.device) for size in shape)
    by_rows: Product = lambda x: rows.index_add(0, row, value * x[col])  # noqa: E731
    by_columns: Product = lambda x: columns.index_add(0, col, value * x[row])  # noqa: E731
    norm = schur_bound(by_rows, by_columns, shape, ptr, column_ptr)
    entries, squares = torch.bincount(row, minlength=shape[0]), rows.index_add(0, row, value.square())
    return norm, with_long_rows(norm, entries, squares, ptr)
