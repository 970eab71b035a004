"""What a value is, told without importing the library it would be of."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from rfp.available import is_frame, is_scipy_sparse

MAKERS = [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table]


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_a_frame(make: Any) -> None:
    assert is_frame(make({"source": [0], "target": [1]}))


@pytest.mark.parametrize("value", [None, [0, 1], {"source": [0]}, pd.Series([1]), pl.Series([1]), pa.array([1]), pd])
def test_what_is_none(value: Any) -> None:
    assert not is_frame(value)


@pytest.mark.parametrize("made", [sp.eye_array(2, format="csr"), sp.coo_matrix((2, 2)), sp.dok_array((2, 2))])
def test_what_is_a_sparse_matrix(made: Any) -> None:
    assert is_scipy_sparse(made)
    assert not is_scipy_sparse(made.toarray())
    assert not is_scipy_sparse(np.eye(2))
