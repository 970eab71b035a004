"""Memory for one array after the other: of block after block, none larger than the largest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = NDArray[Any]


class ReusedMemory:
    """Room for one array at a time; each takes the place of the one before.

    What is allocated anew for each block costs a fault for every page of it, as soon as the C library gives freed
    memory back to the system: more than computing what is written there.

    Example:
        >>> memory = ReusedMemory()
        >>> first = memory.array((2, 3), np.float32)
        >>> second = memory.array((4,), np.float32)
        >>> np.shares_memory(first, second)
        True
    """

    def __init__(self) -> None:
        self._bytes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """An array with anything in it, good until the next one."""
        num_bytes = math.prod(shape) * np.dtype(dtype).itemsize
        if num_bytes > len(self._bytes):
            self._bytes = np.empty(0, np.uint8)  # the old room goes before the new one comes
            self._bytes = np.empty(num_bytes, np.uint8)
        return self._bytes[:num_bytes].view(dtype).reshape(shape)
