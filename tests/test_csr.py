"""Building compressed rows: order, duplicates, transposition, empty matrices."""

import numpy as np
import torch

from rfp.csr import from_entries


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
