"""The inverse of a Cholesky factor in both forms, whatever the processor's registers: the same as LAPACK's."""

import numpy as np
import pytest
from numba import njit

from rfp.backends.compiled.inverse_factor import _inverse_by_rows, _inverse_in_blocks
from rfp.backends.compiled.vectors import aligned_zeros


@njit
def _by_rows(like, g, k, least, noise):  # type: ignore[no-untyped-def]
    padded, w, alpha = aligned_zeros(like, *g.shape), aligned_zeros(like, *g.shape), aligned_zeros(like, 1, len(g))[0]
    padded[:] = g
    return _inverse_by_rows(padded, k, least, noise, alpha, w), w


@njit
def _in_blocks(like, g, k, least, noise):  # type: ignore[no-untyped-def]
    padded, w, alpha = aligned_zeros(like, *g.shape), aligned_zeros(like, *g.shape), aligned_zeros(like, 1, len(g))[0]
    padded[:] = g
    return _inverse_in_blocks(padded, k, least, noise, alpha, w), w


def inverse(form: str, a: np.ndarray, *, least: float = 0.0, noise: float = 0.0) -> tuple[float, np.ndarray]:
    """``(||w||_F², w)`` of aᵀ a, padded to whole vectors."""
    k = a.shape[1]
    width = (k + 7) // 8 * 8
    gram = np.zeros((width, width))
    gram[:k, :k] = a.T @ a
    total, w = (_by_rows if form == "rows" else _in_blocks)(np.zeros(1), gram, k, least, noise)
    assert not w[k:].any()
    assert not w[:, k:].any()
    return total, w[:k, :k]


FORMS = pytest.mark.parametrize("form", ["rows", "blocks"])


@FORMS
@pytest.mark.parametrize("k", [1, 3, 8, 9, 16, 24, 31, 40, 64, 128])
def test_inverse_of_lapacks_factor(form: str, k: int) -> None:
    a = np.random.default_rng(k).normal(size=(2 * k + 3, k)) * np.logspace(-2, 2, k)
    total, w = inverse(form, a)
    right = np.linalg.inv(np.linalg.cholesky(a.T @ a).T)
    assert np.abs(w - right).max() <= 1e-12 * np.abs(right).max()
    assert total == pytest.approx(float((right**2).sum()), rel=1e-12)
    assert np.abs((a @ w).T @ (a @ w) - np.eye(k)).max() < 1e-12


@FORMS
@pytest.mark.parametrize("zeros", [[0], [7], [8], [3, 4, 12], list(range(16))])
def test_zero_columns_stay_zero(form: str, zeros: list[int]) -> None:
    a = np.random.default_rng(1).normal(size=(20, 16))
    a[:, zeros] = 0.0
    total, w = inverse(form, a)
    kept = [c for c in range(16) if c not in zeros]
    assert np.isfinite(total)
    assert not w[:, zeros].any()
    right = np.linalg.inv(np.linalg.cholesky(a[:, kept].T @ a[:, kept]).T) if kept else np.zeros((0, 0))
    assert np.allclose(w[np.ix_(kept, kept)], right, rtol=0, atol=1e-13)


@FORMS
@pytest.mark.parametrize("column", [1, 7, 8, 15])
def test_a_pivot_in_doubt_ends_it(form: str, column: int) -> None:
    a = np.random.default_rng(2).normal(size=(30, 16))
    a[:, column] = a[:, : max(column, 1)].sum(1) + 1e-5 * a[:, column]
    assert inverse(form, a, least=1e-6)[0] == np.inf
    assert inverse(form, a, noise=1e-3)[0] == np.inf
    assert inverse(form, a, least=1e-12)[0] > 1e7
    bad = a.copy()
    bad[0, column] = np.nan
    assert inverse(form, bad)[0] == np.inf


@pytest.mark.parametrize("noise", [0.0, 0.1, 10.0])
def test_both_forms_doubt_the_same(noise: float) -> None:
    """Rounding is amplified by every column that a later one leans on, across the border of blocks too."""
    doubted = set()
    for seed in range(60):
        generator = np.random.default_rng(seed)
        a = generator.normal(size=(24, 16)) @ (np.eye(16) + 0.5 * np.triu(generator.normal(size=(16, 16)), 1))
        rows, blocks = (inverse(form, a, noise=noise)[0] for form in ("rows", "blocks"))
        assert np.isinf(rows) == np.isinf(blocks)
        doubted.add(bool(np.isinf(rows)))
    assert doubted == {0.0: {False}, 0.1: {False, True}, 10.0: {True}}[noise]
