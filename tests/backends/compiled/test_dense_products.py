"""The compiled products of tall matrices against NumPy's, on any number of threads and in a forked process."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from tests.backends.compiled.random_states import normal

pytest.importorskip("numba")
from rfp.backends.compiled.dense_products import gram_matrix, times_upper


class TestGramAndApply:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("k", [1, 5, 8, 16, 37, 64])
    @pytest.mark.parametrize("n", [0, 1, 3, 63, 64, 65, 5000])
    def test_gram(self, n, k, dtype):
        a = normal(n, k, dtype=dtype)
        got = gram_matrix(a)
        assert got.dtype == torch.float64
        np.testing.assert_allclose(got.numpy(), a.double().numpy().T @ a.double().numpy(), atol=1e-13 * max(n, 1))
        assert torch.equal(got, got.T)

    def test_gram_of_trajectories(self):
        a = normal(1000, 3, 12)
        exact = a.double().numpy()
        np.testing.assert_allclose(gram_matrix(a).numpy(), np.einsum("nbi,nbj->bij", exact, exact), atol=1e-10)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("k", [1, 5, 8, 37, 64])
    @pytest.mark.parametrize("n", [0, 1, 63, 66, 5000])
    def test_apply(self, n, k, dtype):
        a, weight = normal(n, k, dtype=dtype), normal(k, k, dtype=torch.float64, seed=1)
        expected = a.double().numpy() @ np.triu(weight.numpy())
        tolerance = 16 * k * torch.finfo(dtype).eps
        np.testing.assert_allclose(times_upper(a, weight).numpy(), expected, atol=tolerance)
        assert times_upper(a, weight, a) is a
        np.testing.assert_allclose(a.numpy(), expected, atol=tolerance)

    def test_apply_to_trajectories_into_one_step(self):
        a, weight = normal(200, 2, 12), normal(2, 12, 12, dtype=torch.float64, seed=1).triu()
        storage = torch.zeros(200, 2, 4, 12)
        times_upper(a, weight, storage[:, :, 2])
        expected = np.einsum("nbi,bij->nbj", a.double().numpy(), weight.numpy())
        np.testing.assert_allclose(storage[:, :, 2].numpy(), expected, atol=1e-5)
        assert not storage[:, :, [0, 1, 3]].any()

    @pytest.mark.parametrize("aligned", [True, False])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @pytest.mark.parametrize("k", [5, 16, 40, 64])
    @pytest.mark.parametrize("n", [0, 1, 63, 5000])
    def test_apply_to_two_places(self, n, k, dtype, aligned):
        a, weight = normal(n, 2, k, dtype=dtype), normal(2, k, k, dtype=torch.float64, seed=1).triu()
        memory = torch.zeros(n * 8 * k + 17, dtype=dtype)
        first = -memory.data_ptr() % 64 // memory.itemsize + (not aligned)  # at the start of a cache line, or after it
        storage = memory[first : first + n * 8 * k].view(n, 2, 4, k)
        once = times_upper(a, weight)
        assert torch.equal(times_upper(a, weight, a, storage[:, :, 2]), once)
        assert torch.equal(storage[:, :, 2], once)
        assert not storage[:, :, [0, 1, 3]].any()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_works_in_a_forked_process(self):
        a = normal(20_000, 8)
        gram_matrix(a)  # the parent's threads exist and do not survive the fork
        child = os.fork()
        if child == 0:
            os._exit(0 if np.isfinite(gram_matrix(a).numpy()).all() else 1)
        assert os.waitpid(child, 0)[1] == 0
