"""A sparse matrix in compressed rows: building it from edges, and its plain product."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rfp.memo import Memo

if TYPE_CHECKING:
    import scipy.sparse as sp

_INT32_MAX = 2**31 - 1
# Entries up to which a sort is done before SciPy, which takes time in proportion to them, would be loaded.
_FEW_ENTRIES = 1 << 12


@dataclass(frozen=True, eq=False)
class CSR:
    """A square matrix: the entries of row ``i`` are ``value[crow[i]:crow[i + 1]]`` in columns ``col[...]``, ascending.

    Indices are ``int32`` while they fit, which halves the traffic of the product.
    """

    crow: Tensor  # [n + 1]
    col: Tensor  # [nnz]
    value: Tensor  # [nnz]
    # What is derived from the pattern alone, shared by all matrices that have it.
    memo: Memo = field(default_factory=Memo, repr=False)
    # How many entries of each row are zeros beside another at the same place, [n], where there are such.
    holes: Tensor | None = None

    @property
    def num_rows(self) -> int:
        return len(self.crow) - 1

    @property
    def nnz(self) -> int:
        return len(self.col)

    @property
    def row(self) -> Tensor:
        """Row number of each entry, ``[nnz]``."""
        return self.memo.of(_row, self.crow, self.nnz)

    def row_sums(self, values: Tensor) -> Tensor:
        """Sums over the entries of each row, ``[nnz] -> [n]``."""
        if values.device.type == "cpu" and self.num_rows and bool((self.crow[1:] > self.crow[:-1]).all()):
            # Without the number of the row of each entry; an empty row it would not sum to zero.
            return torch.from_numpy(np.add.reduceat(values.numpy(), self.crow[:-1].numpy()))
        none = torch.zeros(self.num_rows, dtype=values.dtype, device=values.device)
        return none.index_add_(0, self.row, values)

    def column_sums(self, values: Tensor) -> Tensor:
        """Sums over the entries of each column, ``[nnz] -> [n]``."""
        if values.device.type == "cpu":
            sums = np.bincount(self.col.numpy(), weights=values.numpy(), minlength=self.num_rows)
            return torch.from_numpy(sums).to(values.dtype)
        none = torch.zeros(self.num_rows, dtype=values.dtype, device=values.device)
        return none.index_add_(0, self.col.long(), values)

    @property
    def row_lengths(self) -> Tensor:
        """Places of each row that have an entry, ``[n]``."""
        lengths = self.crow.diff()
        return lengths if self.holes is None else lengths - self.holes

    def with_value(self, value: Tensor) -> CSR:
        """The same pattern with other values; the index tensors are shared."""
        return CSR(self.crow, self.col, value, self.memo, self.holes)

    def to(self, dtype: torch.dtype) -> CSR:
        return self if self.value.dtype == dtype else self.with_value(self.value.to(dtype))

    def to_scipy(self) -> sp.csr_array:
        import scipy.sparse as sp

        shape = (self.num_rows, self.num_rows)
        parts = (self.value.cpu().numpy(), self.col.cpu().numpy(), self.crow.cpu().numpy())
        matrix = sp.csr_array(parts, shape=shape, copy=self.holes is not None)  # what follows is done in place
        if self.holes is not None:
            matrix.sum_duplicates()
        return matrix

    def transpose(self) -> CSR:
        return from_entries(self.col.long(), self.row, self.value, self.num_rows)

    @cached_property
    def torch_csr(self) -> Tensor:
        """The same matrix as a ``torch.sparse_csr`` tensor."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            # torch 2.11 warns though the choice is made below: entries are trusted, as the class says.
            warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
            shape = (self.num_rows, self.num_rows)
            return torch.sparse_csr_tensor(self.crow, self.col, self.value, size=shape, check_invariants=False)

    def __matmul__(self, a: Tensor) -> Tensor:  # [n, c] -> [n, c]
        if self.nnz == 0:
            return torch.zeros_like(a)
        if a.device.type == "cpu":
            # `reduce="sum"` takes torch's multi-threaded kernel; `csr @ a` took 1.7 times as long (benchmarks/).
            product: Tensor = torch.sparse.mm(self.torch_csr, a, reduce="sum")
            return product
        return self.torch_csr @ a


def _row(crow: Tensor, nnz: int) -> Tensor:
    rows = torch.arange(len(crow) - 1, device=crow.device)
    return torch.repeat_interleave(rows, crow.diff(), output_size=nnz)


def places(csr: CSR) -> Tensor:
    """``row * n + col`` of each entry, ``[nnz]``, for :attr:`CSR.memo`."""
    return csr.row * csr.num_rows + csr.col


def from_entries(row: Tensor, col: Tensor, value: Tensor, num_rows: int) -> CSR:
    """Sort entries into rows; entries at the same place are added. O(nnz) where many are on a CPU, else a sort."""
    index_dtype = torch.int32 if max(num_rows, len(row)) < _INT32_MAX else torch.int64
    if row.device.type == "cpu" and len(row) > _FEW_ENTRIES:
        import scipy.sparse as sp

        numpy_index = np.int32 if index_dtype == torch.int32 else np.int64
        entries = (value.numpy(), (row.numpy().astype(numpy_index), col.numpy().astype(numpy_index)))
        matrix = sp.coo_array(entries, shape=(num_rows, num_rows)).tocsr()
        matrix.sum_duplicates()
        crow, columns = matrix.indptr.astype(numpy_index), matrix.indices.astype(numpy_index)
        return CSR(torch.from_numpy(crow), torch.from_numpy(columns), torch.from_numpy(matrix.data))
    return sorted_entries(row, col, value, num_rows, index_dtype)


def sorted_entries(row: Tensor, col: Tensor, value: Tensor, num_rows: int, index_dtype: torch.dtype) -> CSR:
    """:func:`from_entries` by one sort of places: in few operations, one of which waits for a GPU (how many differ)."""
    # A sort by radix takes half the passes over words of half the length: batches of small graphs have such.
    key_dtype = torch.int32 if num_rows * (num_rows + 1) <= _INT32_MAX else torch.int64
    place, order = torch.sort((row.long() * num_rows + col).to(key_dtype), stable=True)
    place, index = torch.unique_consecutive(place, return_inverse=True)
    merged = torch.zeros(len(place), dtype=value.dtype, device=value.device).index_add_(0, index, value[order])
    starts = torch.arange(num_rows + 1, dtype=key_dtype, device=row.device) * num_rows
    crow = torch.searchsorted(place, starts, out_int32=index_dtype == torch.int32)
    return CSR(crow, (place % max(num_rows, 1)).to(index_dtype), merged)
