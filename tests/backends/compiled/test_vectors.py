"""Tiles of dense products in every form, whatever the processor's registers: NumPy's sums."""

import numpy as np
import pytest
from numba import njit

from rfp.backends.compiled import vectors
from rfp.backends.compiled.dense_products import _tile_of_eight, _tile_of_four
from rfp.backends.compiled.vectors import vload_eight, vstore_eight


def _adding(form, transposed):  # type: ignore[no-untyped-def]
    @njit
    def add(g, x, i, y, j, first, last):  # type: ignore[no-untyped-def]
        vstore_eight(form(vload_eight(g, 0, 0, 8), x, i, y, j, first, last, 8, transposed), g, 0, 0)

    return add


FORMS = {
    f"{name}, {'transposed' if transposed else 'as it is'}": _adding(getattr(vectors, name), transposed)
    for name in ("_add_at_once", "_add_by_fours")
    for transposed in (True, False)
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("first", "last"), [(0, 0), (2, 3), (1, 16)])
def test_eight_rows_are_added(name: str, first: int, last: int) -> None:
    rng = np.random.default_rng(0)
    x, y, g = rng.normal(size=(16, 16)), rng.normal(size=(16, 24)), rng.normal(size=(8, 8))
    left = x[first:last, 8:].T if "transposed" in name else x[8:, first:last]
    expected = g + left @ y[first:last, 16:]
    FORMS[name](g, x, 8, y, 16, first, last)
    np.testing.assert_allclose(g, expected, rtol=1e-13)


@njit
def _four_by_sixteen(a, w, out):  # type: ignore[no-untyped-def]
    for j in range(0, 32, 16):
        _tile_of_four(a, 4, w, j, out, 16)


@njit
def _four_by_eight(a, w, out):  # type: ignore[no-untyped-def]
    for j in range(0, 32, 8):
        _tile_of_four(a, 4, w, j, out, 8)


@njit
def _eight_by_sixteen(a, w, out):  # type: ignore[no-untyped-def]
    for j in range(0, 32, 16):
        _tile_of_eight(a, 4, w, j, out, 16)


@pytest.mark.parametrize("tiles", [_four_by_sixteen, _four_by_eight, _eight_by_sixteen])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_times_an_upper_triangle(tiles, dtype) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(1)
    a, w = rng.normal(size=(12, 32)).astype(dtype), np.triu(rng.normal(size=(32, 32))).astype(dtype)
    out = np.zeros_like(a)
    tiles(a, w, out)
    rows = slice(4, 12 if tiles is _eight_by_sixteen else 8)
    np.testing.assert_allclose(out[rows], (a.astype(float) @ w)[rows], atol=500 * np.finfo(dtype).eps)
    out[rows] = 0
    assert not out.any()
