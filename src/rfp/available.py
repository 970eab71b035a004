"""Which optional packages are installed."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec


@cache
def compiled_available() -> bool:
    """Whether Numba is installed (``pip install 'torch-rfp[fast]'``)."""
    return find_spec("numba") is not None


@cache
def triton_available() -> bool:
    """Whether Triton is installed; PyTorch brings it where it has CUDA."""
    return find_spec("triton") is not None
