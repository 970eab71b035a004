"""Every piece of the work is done once, on any number of threads, and what fails says so."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from rfp.backends.compiled.pieces import equal_rows, equal_work, run_pieces


@pytest.fixture(params=[1, 2, 3])
def _threads(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("bounds", [[0, 4], [0, 1, 1, 5, 9]])
def test_every_piece_is_done_once(bounds: list[int]) -> None:
    done: list[tuple[object, ...]] = []
    run_pieces(lambda *given: done.append(given), bounds, "given")
    assert sorted(done) == [("given", i, bounds[i], bounds[i + 1]) for i in range(len(bounds) - 1)]


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("bounds", [[0, 4], [0, 1, 2, 3]])
def test_an_error_of_a_kernel_is_not_taken_for_the_end(bounds: list[int]) -> None:
    def fails(*given: object) -> None:
        raise IndexError("of the kernel")

    with pytest.raises(IndexError, match="of the kernel"):
        run_pieces(fails, bounds)


def test_nobody_works_any_more_when_an_error_is_told() -> None:
    """What a kernel writes to is the caller's again."""
    before, written = torch.get_num_threads(), []

    def fails_or_is_slow(piece: int, *bounds: int) -> None:
        if piece == 0:
            raise ValueError("at once")
        time.sleep(0.05)
        written.append(piece)

    torch.set_num_threads(2)
    try:
        with pytest.raises(ValueError, match="at once"):
            run_pieces(fails_or_is_slow, [0, 1, 2, 3, 4])
    finally:
        torch.set_num_threads(before)
    told = len(written)
    time.sleep(0.2)
    assert len(written) == told


def test_pieces_of_equal_work_cover_all_of_it() -> None:
    work = np.array([0, 10, 10, 11, 12, 40, 50])
    bounds = equal_work(work, 10)
    assert bounds[0] == 0
    assert bounds[-1] == 6
    assert bounds == sorted(bounds)
    assert len(bounds) - 1 == 5
    assert equal_work(work, 100) == [0, 6]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("num_rows", "least"), [(0, 4), (3, 4), (100, 7), (4_097, 1), (169_343, 1 << 11)])
def test_rows_of_the_same_work_are_cut_alike(num_rows: int, least: int, dtype: type) -> None:
    bounds = equal_rows(num_rows, least)
    assert bounds == equal_work(np.arange(num_rows + 1, dtype=dtype), least)
    assert [bounds[0], bounds[-1]] == [0, num_rows]
    sizes = np.diff(bounds)
    assert len(sizes) == max(1, min(32, num_rows // least))
    assert sizes.max() - sizes.min() <= 1
