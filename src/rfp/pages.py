"""Large tensors on a CPU, in huge pages where the system grants them.

A result of hundreds of megabytes in pages of 4 KiB costs a page fault for each of them, and rows that are gathered from
a state of tens of megabytes miss the processor's table of pages at nearly every row. Linux hands out pages of 2 MiB to
those who ask (``madvise``), which PyTorch's allocator does not.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from contextlib import suppress

import torch
from torch import Tensor

# From here on the C library takes every allocation fresh from the system and gives it back at once (its largest
# threshold), so nothing that could be used again is lost.
LEAST_BYTES = 1 << 25


def empty(*shape: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """``torch.empty``, a large one on a CPU in huge pages.

    Example:
        >>> empty(3, 2, dtype=torch.float32).shape
        torch.Size([3, 2])
    """
    num_bytes = math.prod(shape) * dtype.itemsize
    if torch.device(device).type != "cpu" or num_bytes < LEAST_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(shape, dtype=dtype, device=device)
    memory = mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without them
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def give_back_memory() -> None:
    """Hand what was freed back to the system: the C library keeps holes between what is still used (GNU only)."""
    with suppress(AttributeError, OSError, TypeError):  # other C libraries, other systems
        ctypes.CDLL(None).malloc_trim(0)
