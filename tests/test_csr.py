"""Building compressed rows: order, duplicates, transposition, empty matrices."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from rfp.csr import from_entries, sorted_entries


def test_entries_are_sorted_and_duplicates_added() -> None:
    row, col = torch.tensor([2, 0, 2, 0]), torch.tensor([1, 2, 1, 0])
    csr = from_entries(row, col, torch.tensor([1.0, 2.0, 3.0, 4.0]), 3)
    assert csr.crow.tolist() == [0, 2, 2, 3]
    assert csr.col.tolist() == [0, 2, 1]
    assert csr.value.tolist() == [4, 2, 4]
    assert csr.row.tolist() == [0, 0, 2]
    np.testing.assert_array_equal(csr.transpose().to_scipy().toarray(), csr.to_scipy().toarray().T)


def test_product_of_an_empty_matrix_is_zero() -> None:
    none = torch.zeros(0, dtype=torch.long)
    csr = from_entries(none, none, torch.zeros(0), 3)
    assert torch.equal(csr @ torch.ones(3, 2), torch.zeros(3, 2))


def test_values_share_what_is_derived_from_the_pattern() -> None:
    csr = from_entries(torch.tensor([0, 1]), torch.tensor([1, 0]), torch.ones(2), 2)
    other = csr.with_value(torch.zeros(2))
    assert other.memo is csr.memo
    assert other.crow is csr.crow


def test_indices_are_wide_where_entries_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1]), torch.ones(3)
    assert from_entries(*entries, 2).col.dtype == torch.int32
    monkeypatch.setattr("rfp.csr._INT32_MAX", 3)  # more than the nodes, no more than the entries
    assert from_entries(*entries, 2).col.dtype == torch.int64


@pytest.mark.parametrize("widest", [2**31 - 1, 60])  # places of 32 bits and of 64
def test_one_sort_of_places_equals_compressed_rows_by_scipy(monkeypatch: pytest.MonkeyPatch, widest: int) -> None:
    """What a GPU does: empty rows at both ends and inside, entries at the same place, entries in any order."""
    monkeypatch.setattr("rfp.csr._INT32_MAX", widest)
    generator = torch.Generator().manual_seed(0)
    row, col = torch.randint(1, 8, (50,), generator=generator), torch.randint(0, 9, (50,), generator=generator)
    row[row == 4] = 5
    value = torch.randint(-4, 5, (50,), generator=generator).double()
    expected = np.zeros((10, 10))
    np.add.at(expected, (row.numpy(), col.numpy()), value.numpy())
    for index in (torch.int32, torch.int64):
        csr = sorted_entries(row, col, value, 10, index)
        assert csr.crow.dtype == csr.col.dtype == index
        assert csr.nnz == len({*zip(row.tolist(), col.tolist(), strict=True)}) < 50
        np.testing.assert_array_equal(csr.to_scipy().toarray(), expected)
        assert all(a < b for i in range(10) for a, b in pairwise(csr.col[csr.crow[i] : csr.crow[i + 1]].tolist()))


def test_one_sort_of_no_entries() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert sorted_entries(none, none, torch.zeros(0), 3, torch.int32).crow.tolist() == [0, 0, 0, 0]
    assert sorted_entries(none, none, torch.zeros(0), 0, torch.int32).crow.tolist() == [0]
