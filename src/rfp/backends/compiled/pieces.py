"""Pieces of the work on threads.

A kernel is compiled for one thread and releases the interpreter lock; :func:`run_pieces` calls it on pieces of the work
from ``torch.get_num_threads()`` Python threads. Numba's ``parallel=True`` is not used: its OpenMP layer kills forked
data loaders, its own thread pool aborts when two threads call it, and it takes longer to compile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.errors import ArgumentError


@cache
def _pool(process: int, num_threads: int) -> ThreadPoolExecutor:
    """One pool for each process, because threads do not survive a fork."""
    return ThreadPoolExecutor(num_threads, thread_name_prefix="rfp")


def run_pieces(kernel: Callable[..., object], bounds: Any, *args: object) -> None:
    """Call ``kernel(*args, piece, *bounds[piece : piece + 2])`` for every piece, on as many threads as PyTorch uses."""
    pieces = deque(zip(range(len(bounds) - 1), bounds, bounds[1:], strict=False))

    def work() -> None:
        while True:
            try:
                piece = pieces.popleft()
            except IndexError:  # none is left
                return
            kernel(*args, *piece)  # whose own errors are told

    num_threads = torch.get_num_threads()
    if num_threads == 1 or len(pieces) == 1:
        return work()
    futures = [_pool(os.getpid(), num_threads).submit(work) for _ in range(min(num_threads, len(pieces)))]
    wait(futures)  # all of them, also where one fails: nobody writes any more when this returns
    for future in futures:
        future.result()
    return None


def equal_work(work: Any, least: int) -> list[int]:
    """Bounds of at most 32 pieces of equal work, each of at least ``least``, from its running total ``[n + 1]``.

    They do not depend on the number of threads; so neither does a sum over the pieces.
    """
    marks = _marks(int(work[-1]), least).astype(work.dtype)  # of one type: else NumPy makes another array of all work
    return [0, *np.searchsorted(work, marks).tolist(), len(work) - 1]


def equal_rows(num_rows: int, least: int) -> list[int]:
    """:func:`equal_work` of rows that are all the same work."""
    return [0, *_marks(num_rows, least).tolist(), num_rows]


def _marks(total: int, least: int) -> Any:
    """Where one piece ends and the next begins."""
    num_pieces = max(1, min(32, total // least))
    return np.ceil(np.linspace(0, total, num_pieces + 1)[1:-1]).astype(np.int64)


def as_array(name: str, tensor: Tensor, *shape: int) -> Any:
    """The tensor as an array, if it has this shape and its last axis is contiguous."""
    if tensor.shape != shape or (tensor.numel() and tensor.size(-1) > 1 and tensor.stride(-1) != 1):
        raise ArgumentError(
            f"{name} must have shape {list(shape)} and a contiguous last axis, "
            f"got {list(tensor.shape)} with strides {list(tensor.stride())}"
        )
    return tensor.numpy()
