"""Products of blocks: the compiled ones, and those of PyTorch that a GPU takes, are the plain ones."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from rfp.partitioned import block_products

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_the_sparse_product(dtype: type) -> None:
    rng = np.random.default_rng(0)
    matrix = sp.random_array((40, 40), density=0.2, rng=rng, format="csr").astype(dtype)[7:29]
    a = rng.standard_normal((40, 12)).astype(dtype)
    parts = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
    expected = matrix.toarray().astype(np.float64) @ a
    for found in (
        block_products.sparse_rows(*parts, torch.from_numpy(a)),
        block_products.sparse_rows_by_library(*map(torch.from_numpy, parts), torch.from_numpy(a)),
    ):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_matrices_and_factors(dtype: type) -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((20_000, 2, 6)).astype(dtype)  # more rows than one piece
    upper = np.triu(rng.standard_normal((2, 6, 6)))
    gram = np.einsum("nbi,nbj->bij", a.astype(np.float64), a.astype(np.float64))
    for found in (block_products.block_gram(a), block_products.gram_by_library(torch.from_numpy(a), CPU)):
        np.testing.assert_allclose(found, gram, rtol=1e-12, atol=1e-9)
    product = np.einsum("nbi,bij->nbj", a, upper)
    by_library = block_products.times_by_library(torch.from_numpy(a), torch.from_numpy(upper.astype(dtype)), CPU)
    for found in (block_products.times(a, upper), by_library):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, product, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(block_products.times(a, upper[:, 0]), a * upper[:, 0], rtol=1e-6)
    for factor in (upper, upper[:, 0]):  # in the place of a, the same bits
        in_place = a.copy()
        apart = block_products.times(a, factor)
        np.testing.assert_array_equal(block_products.times(in_place, factor, out=in_place), apart)


def test_a_gpu_is_used_only_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert block_products.device_here("cuda").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert block_products.device_here("cuda").type == "cuda"
    assert block_products.device_here("cpu").type == "cpu"
