"""In what precision a block computes: how exactly float32 matrices are multiplied on a GPU, and without autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


@contextmanager
def matmul_precision(kind: str) -> Iterator[None]:
    """Within the block ``"highest"`` multiplies in float32, ``"high"`` may use TF32, whose mantissa has ten bits.

    The setting is the process's own (``torch.set_float32_matmul_precision``) and is put back at the end; a backward
    pass runs under what holds when it runs.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(kind)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """A block in the types that its tensors have. Autocast is left only where it is on, for leaving it takes time."""
    return torch.autocast(device_type, enabled=False) if torch.is_autocast_enabled(device_type) else nullcontext()
