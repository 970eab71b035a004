"""Which optional packages are installed, and which values are theirs: told without importing one."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

# Libraries whose frames are read.
_FRAMES = ("pandas", "polars", "pyarrow", "modin", "cudf", "narwhals")


@cache
def compiled_available() -> bool:
    """Whether Numba is installed (``pip install 'torch-rfp[fast]'``)."""
    return find_spec("numba") is not None


@cache
def triton_available() -> bool:
    """Whether Triton is installed; PyTorch brings it where it has CUDA."""
    return find_spec("triton") is not None


def is_frame(value: Any) -> bool:
    """Whether it is a data frame; imports nothing, for a frame can only be of a library that is loaded already.

    >>> is_frame({"source": [0], "target": [1]})
    False
    """
    library = type(value).__module__.partition(".")[0]
    return library in _FRAMES and library in sys.modules and type(value).__name__ in ("DataFrame", "LazyFrame", "Table")


def is_scipy_sparse(value: Any) -> bool:
    """Whether it is a sparse matrix of SciPy; imports nothing, for whoever has one has loaded SciPy.

    >>> is_scipy_sparse([[0, 1], [1, 0]])
    False
    """
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(value))
