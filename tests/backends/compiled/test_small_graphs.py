"""The compiled kernel for small graphs against NumPy: plain loops in float64, written here."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.backends.compiled.random_states import normal

pytest.importorskip("numba")
from rfp.backends.compiled.dense_products import gram_matrix
from rfp.backends.compiled.small_graphs import small_graphs

QR, L2, NONE = 2, 1, 0


def gram_schmidt(a, tolerance):
    """Columns left to right, each projected twice; a residual at the tolerance or below gives a zero column."""
    q = np.zeros_like(a)
    scale = np.linalg.norm(a, axis=0).max() if a.size else 0.0
    for j in range(a.shape[1]):
        v = a[:, j].copy()
        for _ in range(2):
            v -= q @ (q.T @ v)
        if np.linalg.norm(v) > tolerance * scale:
            q[:, j] = v / np.linalg.norm(v)
    return q


def expected_trajectories(blocks, features, num_steps, every, normalization, tolerance):
    """``[n, B, O, P + 1, k]`` and the zero columns of each operator, from dense blocks ``[graph][operator]``."""
    parts, zeros, first = [], np.zeros(len(blocks[0]), int), 0
    for operators in blocks:
        n = len(operators[0])
        part = np.zeros((n, features.shape[1], len(operators), num_steps + 1, features.shape[2]))
        for o, matrix in enumerate(operators):
            for b in range(features.shape[1]):
                a = features[first : first + n, b].astype(float)
                part[:, b, o, 0] = a
                for p in range(1, num_steps + 1):
                    a = matrix @ a
                    if p % every == 0 and normalization == L2:
                        norm = np.linalg.norm(a, axis=0)
                        a = a / np.where(norm > 0, norm, 1)
                    if p % every == 0 and normalization == QR:
                        a = gram_schmidt(a, tolerance)
                    if p % every == 0 and normalization != NONE:
                        zeros[o] += (a == 0).all(0).sum()
                    part[:, b, o, p] = a
        parts.append(part)
        first += n
    return np.concatenate(parts), zeros


def batch(sizes, num_operators=2, seed=0, rank=None):
    """Random symmetric operators on one full pattern: the blocks, and the arguments of the kernel."""
    rng = np.random.default_rng(seed)
    blocks = []
    for n in sizes:
        halves = rng.standard_normal((num_operators, n, n if rank is None else min(rank, n)))
        blocks.append([half @ half.T / max(n, 1) for half in halves])
    values = np.stack([np.concatenate([ops[o].ravel() for ops in blocks]) for o in range(num_operators)])
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    crow = np.concatenate([[0], np.cumsum(np.repeat(sizes, sizes))]).astype(np.int32)
    col = np.concatenate([np.tile(np.arange(n) + start, n) for n, start in zip(sizes, ptr, strict=False)]).astype(
        np.int32
    )
    return blocks, [torch.from_numpy(x) for x in (crow, col, values, ptr)]


def sparse_batch(patterns, num_operators=2, seed=0):
    """Random operators on sparse patterns, given as lists of neighbours: as :func:`batch`."""
    rng = np.random.default_rng(seed)
    sizes = [len(pattern) for pattern in patterns]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    blocks, values, crow, col = [], [], [0], []
    for pattern, start in zip(patterns, ptr, strict=False):
        weights = rng.standard_normal((num_operators, sum(map(len, pattern))))
        row = np.repeat(np.arange(len(pattern)), [len(neighbours) for neighbours in pattern])
        column = np.array([j for neighbours in pattern for j in neighbours], int)
        matrices = np.zeros((num_operators, len(pattern), len(pattern)))
        matrices[:, row, column] = weights
        blocks.append(list(matrices))
        values.append(weights)
        crow += (crow[-1] + np.cumsum([len(neighbours) for neighbours in pattern])).tolist()
        col += (column + start).tolist()
    arrays = np.array(crow, np.int32), np.array(col, np.int32), np.concatenate(values, 1), ptr
    return blocks, [torch.from_numpy(x) for x in arrays]


def path(n):
    return [[j for j in (i - 1, i, i + 1) if 0 <= j < n] for i in range(n)]


def star(n):
    return [list(range(n)), *([0] for _ in range(n - 1))]


def exact(arguments):
    """As if products had no rounding."""
    return torch.zeros(len(arguments[2]), len(arguments[3]) - 1, dtype=torch.float64)


def run(arguments, features, num_steps, every, normalization, tolerance, units=None):
    out = torch.full(
        (features.size(0), features.size(1), len(arguments[2]), num_steps + 1, features.size(2)), torch.nan
    )
    out = out.to(features.dtype)
    units = exact(arguments) if units is None else units
    zeros = small_graphs(*arguments, features, num_steps, every, normalization, tolerance, units, out)
    return out.double().numpy(), zeros.numpy()


class TestSmallGraphs:
    @pytest.mark.parametrize("normalization", [NONE, L2, QR])
    @pytest.mark.parametrize("k", [1, 5, 16, 19])
    @pytest.mark.parametrize("every", [1, 3])
    def test_equals_dense_loops(self, k, every, normalization):
        sizes = [30, 1, 0, 7, 25, 16, 40]
        blocks, arguments = batch(sizes)
        features = normal(sum(sizes), 2, k, dtype=torch.float64)
        got, zeros = run(arguments, features, 4, every, normalization, 1e-9)
        expected, expected_zeros = expected_trajectories(blocks, features.numpy(), 4, every, normalization, 1e-9)
        np.testing.assert_allclose(got, expected, atol=1e-7 * max(1, np.abs(expected).max()))
        np.testing.assert_array_equal(zeros, expected_zeros)

    @pytest.mark.parametrize("normalization", [NONE, L2, QR])
    @pytest.mark.parametrize("k", [3, 16, 20])
    def test_rows_of_all_lengths(self, k, normalization):
        """Nearly equal ones, those of a star, empty ones."""
        halves = [[], [0, 3], [], [1, 2, 3], [4]]
        blocks, arguments = sparse_batch([path(23), star(40), halves, [[]], path(1), path(18), [[]] * 3])
        features = normal(sum(len(operators[0]) for operators in blocks), 2, k, dtype=torch.float64)
        got, zeros = run(arguments, features, 3, 1, normalization, 1e-9)
        expected, expected_zeros = expected_trajectories(blocks, features.numpy(), 3, 1, normalization, 1e-9)
        np.testing.assert_allclose(got, expected, atol=1e-7 * max(1, np.abs(expected).max()))
        np.testing.assert_array_equal(zeros, expected_zeros)

    def test_values_of_either_type(self):
        _, arguments = sparse_batch([path(23), star(9)])
        arguments[2] = arguments[2].float()
        features = normal(32, 1, 16)
        narrow, _ = run(arguments, features, 4, 1, QR, 2e-6)
        arguments[2] = arguments[2].double()
        np.testing.assert_array_equal(narrow, run(arguments, features, 4, 1, QR, 2e-6)[0])

    def test_float32_and_no_steps(self):
        blocks, arguments = batch([12, 20])
        features = normal(32, 1, 6)
        got, _ = run(arguments, features, 3, 1, QR, 2e-6)
        expected, _ = expected_trajectories(blocks, features.numpy(), 3, 1, QR, 2e-6)
        np.testing.assert_allclose(got, expected, atol=1e-6)
        np.testing.assert_array_equal(
            run(arguments, features, 0, 1, QR, 2e-6)[0][..., 0, :], features[:, :, None].expand(-1, -1, 2, -1).numpy()
        )

    def test_dependent_columns_become_zero(self):
        blocks, arguments = batch([20, 5, 30], rank=4)
        features = normal(55, 1, 9, dtype=torch.float64)
        features[:, :, 1] = 2 * features[:, :, 0]  # and nothing after it may be projected on it
        got, zeros = run(arguments, features, 3, 1, QR, 1e-10)
        expected, expected_zeros = expected_trajectories(blocks, features.numpy(), 3, 1, QR, 1e-10)
        np.testing.assert_allclose(got, expected, atol=1e-7)
        np.testing.assert_array_equal(zeros, expected_zeros)
        assert zeros.tolist() == [3 * 3 * 5] * 2  # 3 graphs, 3 steps, rank 4 of 9
        assert not got[:, 0, :, 1:, 1].any()

    @pytest.mark.parametrize("condition", [1e1, 1e3, 1e5, 1e7, 1e9, 1e12])
    @pytest.mark.parametrize("k", [8, 16])
    def test_orthogonal_at_any_condition_number(self, condition, k):
        n = 24
        rng = np.random.default_rng(0)
        left, right = np.linalg.qr(rng.standard_normal((n, k)))[0], np.linalg.qr(rng.standard_normal((k, k)))[0]
        a = left * np.geomspace(1, 1 / condition, k) @ right.T
        self.check_orthogonal(a)

    @pytest.mark.parametrize("angle", [0.3, 0.6, 1.0, 1.4])
    def test_orthogonal_where_pivots_hide_the_condition_number(self, angle):
        """Kahan's matrix: pivots of harmless size, the smallest singular value far below them."""
        k = 24
        cosine, sine = np.cos(angle), np.sin(angle)
        kahan = np.diag(sine ** np.arange(k)) @ (np.eye(k) - cosine * np.triu(np.ones((k, k)), 1))
        q = np.linalg.qr(np.random.default_rng(0).standard_normal((40, k)))[0]
        self.check_orthogonal(q @ kahan)

    def check_orthogonal(self, a):
        n = len(a)
        identity = [torch.arange(n + 1, dtype=torch.int32), torch.arange(n, dtype=torch.int32)]
        arguments = [*identity, torch.ones(1, n, dtype=torch.float64), torch.tensor([0, n])]
        got, _ = run(arguments, torch.from_numpy(a)[:, None], 1, 1, QR, 1e-14)
        q = got[:, 0, 0, 1]
        kept = q.any(0)
        np.testing.assert_allclose(q.T @ q, np.diag(kept.astype(float)), atol=1e-13)
        assert ((q.T @ a).diagonal() >= 0).all()
        np.testing.assert_allclose(q @ (q.T @ a), a, atol=1e-12)

    def test_not_finite_is_not_hidden(self):
        _, arguments = batch([6, 6])
        features = normal(12, 1, 4)
        features[0, 0, 0] = torch.inf
        got, _ = run(arguments, features, 1, 1, QR, 2e-6)
        assert not np.isfinite(got[:6, ..., 1, :]).all()
        assert np.isfinite(got[6:]).all()

    def test_strided_out(self):
        _, arguments = batch([9, 14], num_operators=1)
        features = normal(23, 2, 5)
        whole = torch.zeros(23, 2, 3, 4, 5)
        small_graphs(*arguments, features, 3, 1, QR, 2e-6, exact(arguments), whole[:, :, 1:2])
        np.testing.assert_array_equal(whole[:, :, 1:2].numpy(), run(arguments, features, 3, 1, QR, 2e-6)[0])
        assert not whole[:, :, [0, 2]].any()


class TestThreads:
    def test_same_bits_on_any_number(self):
        a = normal(20_000, 24)
        _, arguments = batch([20] * 200)
        features = normal(4000, 1, 8)
        before = torch.get_num_threads()
        results = []
        try:
            for num_threads in (1, 2, 3):
                torch.set_num_threads(num_threads)
                results.append((gram_matrix(a).numpy(), run(arguments, features, 2, 1, QR, 2e-6)[0]))
        finally:
            torch.set_num_threads(before)
        for gram, trajectory in results[1:]:
            np.testing.assert_array_equal(gram, results[0][0])
            np.testing.assert_array_equal(trajectory, results[0][1])
