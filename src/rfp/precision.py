"""How exactly float32 matrices are multiplied on a GPU, within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
