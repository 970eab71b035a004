"""Inputs of the kernels."""

from __future__ import annotations

import torch


def normal(*shape, dtype=torch.float32, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
