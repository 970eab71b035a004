"""The compiled sparse product against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rfp.errors import ArgumentError
from tests.backends.compiled.random_states import normal

pytest.importorskip("numba")
from rfp.backends.compiled.sparse_product import sparse_product


def random_csr(n, density, seed=0, index=np.int32):
    matrix = sp.random_array((n, n), density=density, rng=np.random.default_rng(seed), format="csr")
    crow, col = matrix.indptr.astype(index), matrix.indices.astype(index)
    return matrix, torch.from_numpy(crow), torch.from_numpy(col), torch.from_numpy(matrix.data)


class TestSpmm:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("c", [1, 3, 16, 24, 64, 83, 128])
    def test_equals_scipy(self, c, dtype):
        matrix, crow, col, value = random_csr(300, 0.03)
        a = normal(300, c, dtype=dtype)
        expected = matrix @ a.double().numpy()
        got = sparse_product(crow, col, value.to(dtype), a)
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=64 * torch.finfo(dtype).eps)

    def test_many_pieces_hubs_and_empty_rows(self):
        n = 40_000
        rng = np.random.default_rng(0)
        row = np.concatenate(
            [np.zeros(n, int), rng.integers(0, n // 2, 4 * n)]
        )  # a hub; the second half has no entries
        matrix = sp.coo_array((np.ones(len(row)), (row, rng.integers(0, n, len(row)))), shape=(n, n)).tocsr()
        a = normal(n, 16, dtype=torch.float64)
        got = sparse_product(*(torch.from_numpy(x) for x in (matrix.indptr, matrix.indices, matrix.data)), a)
        np.testing.assert_allclose(got.numpy(), matrix @ a.numpy(), atol=1e-10)
        assert not got[n // 2 :].any()

    def test_int64_indices_strided_rows_and_out(self):
        matrix, crow, col, value = random_csr(100, 0.1, index=np.int64)
        steps = torch.zeros(100, 3, 64, dtype=torch.float64)
        steps[:, 0] = normal(100, 64, dtype=torch.float64)
        got = sparse_product(crow, col, value, steps[:, 0], steps[:, 2])
        assert got.data_ptr() == steps[:, 2].data_ptr()
        np.testing.assert_allclose(steps[:, 2].numpy(), matrix @ steps[:, 0].numpy(), atol=1e-13)
        assert not steps[:, 1].any()

    @pytest.mark.parametrize("n", [0, 1, 5])
    def test_no_entries(self, n):
        crow, empty = torch.zeros(n + 1, dtype=torch.int32), torch.zeros(0, dtype=torch.int32)
        assert not sparse_product(crow, empty, torch.zeros(0), torch.ones(n, 4), torch.ones(n, 4)).any()

    def test_wrong_shape_and_column_major_are_refused(self):
        _, crow, col, value = random_csr(10, 0.2)
        with pytest.raises(ArgumentError, match="a must have shape"):
            sparse_product(crow, col, value, torch.ones(11, 4, dtype=torch.float64))
        with pytest.raises(ArgumentError, match="contiguous"):
            sparse_product(crow, col, value, torch.ones(4, 10, dtype=torch.float64).T)
