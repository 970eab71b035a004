"""A sparse matrix in compressed rows: building it from edges, and its plain product."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rfp.memo import Memo

_INT32_MAX = 2**31 - 1


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

    @property
    def num_rows(self) -> int:
        return len(self.crow) - 1

    @property
    def nnz(self) -> int:
        return len(self.col)

    @cached_property
    def row(self) -> Tensor:
        """Row number of each entry, ``[nnz]``."""
        rows = torch.arange(self.num_rows, device=self.crow.device)
        return torch.repeat_interleave(rows, self.crow.diff(), output_size=self.nnz)

    def with_value(self, value: Tensor) -> CSR:
        """The same pattern with other values; the index tensors are shared."""
        return CSR(self.crow, self.col, value, self.memo)

    def to(self, dtype: torch.dtype) -> CSR:
        return self if self.value.dtype == dtype else self.with_value(self.value.to(dtype))

    def to_scipy(self) -> sp.csr_array:
        shape = (self.num_rows, self.num_rows)
        return sp.csr_array((self.value.cpu().numpy(), self.col.cpu().numpy(), self.crow.cpu().numpy()), shape=shape)

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


def from_entries(row: Tensor, col: Tensor, value: Tensor, num_rows: int) -> CSR:
    """Sort entries into rows; entries at the same place are added. O(nnz) on a CPU, a sort on a GPU."""
    index_dtype = torch.int32 if max(num_rows, len(row)) < _INT32_MAX else torch.int64
    if row.device.type == "cpu":
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
    place, order = torch.sort((row.long() * num_rows + col).to(key_dtype))
    place, index = torch.unique_consecutive(place, return_inverse=True)
    merged = torch.zeros(len(place), dtype=value.dtype, device=value.device).index_add_(0, index, value[order])
    starts = torch.arange(num_rows + 1, dtype=key_dtype, device=row.device) * num_rows
    crow = torch.searchsorted(place, starts, out_int32=index_dtype == torch.int32)
    return CSR(crow, (place % max(num_rows, 1)).to(index_dtype), merged)
