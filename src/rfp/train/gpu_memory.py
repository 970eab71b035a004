"""The memory of a GPU that this process can take, and how what it does not use is given back."""

from __future__ import annotations

import gc

import torch


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that this process can still take: what is free, within its part."""
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    number = torch.cuda.current_device() if device.index is None else device.index  # "cuda" alone is refused here
    part = int(total * torch.cuda.get_per_process_memory_fraction(number))
    return min(free, part - torch.cuda.memory_reserved(device))


def give_back() -> None:
    """Give back what this process holds of its GPUs and does not use; nothing where it uses none.

    A program that failed leaves cycles. And cuBLAS keeps a workspace for every stream and thread that multiplied, made
    where there was room then: within the block of a matrix that had just been let go, which as a whole, of gigabytes,
    then cannot be given back.
    """
    gc.collect()
    forget_workspaces()
    torch.cuda.empty_cache()


def forget_workspaces() -> None:
    """Let go of cuBLAS's workspaces; the next products make new ones."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch._C._cuda_clearCublasWorkspaces()
