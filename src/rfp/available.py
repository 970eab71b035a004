"""Which optional packages are installed, and which are loaded."""

from __future__ import annotations

import sys
from functools import cache
from importlib.util import find_spec
from typing import Any


@cache
def compiled_available() -> bool:
    """Whether Numba is installed (``pip install 'torch-rfp[fast]'``)."""
    return find_spec("numba") is not None


@cache
def triton_available() -> bool:
    """Whether Triton is installed; PyTorch brings it where it has CUDA."""
    return find_spec("triton") is not None


def is_scipy_sparse(value: Any) -> bool:
    """Whether it is a sparse matrix of SciPy; imports nothing, for whoever has one has loaded SciPy.

    >>> is_scipy_sparse([[0, 1], [1, 0]])
    False
    """
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and bool(scipy_sparse.issparse(value))
