# mypy: ignore-errors
"""Triton: the order of :mod:`rfp.backends.cuda_sparse.row_plan` by two kernels, not thirty operations and a sort.

Rows of a window are counted by the class of their length, then each takes a place among those of its class. Which one,
and which pieces come first, is left to chance: it says nothing about any sum.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp.triton_launch import launch_kernel, num_blocks, on_device

_BLOCK = 256
# Classes of lengths, the longest first; the last are the heavy rows, whose places remain empty.
_CLASSES = 16


@triton.jit
def _classified(crow, num_rows, HEAVY_ROW: tl.constexpr, CLASSES: tl.constexpr, BLOCK: tl.constexpr):
    """The rows of a program: their numbers, where they begin and end, which is of which class ``[BLOCK, CLASSES]``."""
    WIDTH: tl.constexpr = HEAVY_ROW // (CLASSES - 1) + 1
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < num_rows
    start = tl.load(crow + row, mask=live, other=0)
    stop = tl.load(crow + row + 1, mask=live, other=0)
    length = stop - start
    number = tl.where(length > HEAVY_ROW, CLASSES - 1, (HEAVY_ROW - length) // WIDTH)
    of_class = (number[:, None] == tl.arange(0, CLASSES)[None, :]) & live[:, None]
    return row, start, stop, of_class.to(tl.int32)


@triton.jit(do_not_specialize=["num_rows"])
def _count_kernel(
    crow,  # [n + 1] int32
    counts,  # [windows, CLASSES] int32, zero
    num_pieces,  # [1] int32, zero
    num_rows,
    HEAVY_ROW: tl.constexpr,
    PIECE: tl.constexpr,
    WINDOW: tl.constexpr,
    CLASSES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """How many rows of each class a window has, and pieces there are. Grid: (rows / BLOCK,), BLOCK divides WINDOW."""
    _, start, stop, of_class = _classified(crow, num_rows, HEAVY_ROW, CLASSES, BLOCK)
    found = tl.sum(of_class, axis=0)
    window = tl.program_id(0) * BLOCK // WINDOW
    tl.atomic_add(counts + window * CLASSES + tl.arange(0, CLASSES), found, mask=found > 0, sem="relaxed")
    pieces = tl.sum(tl.where(stop - start > HEAVY_ROW, (stop - start + (PIECE - 1)) // PIECE, 0), axis=0)
    if pieces > 0:
        tl.atomic_add(num_pieces, pieces, sem="relaxed")


@triton.jit(do_not_specialize=["num_rows", "room"])
def _place_kernel(
    crow,  # [n + 1] int32
    counts,  # [windows, CLASSES] int32
    taken,  # [windows, CLASSES] int32, zero
    pieces_taken,  # [1] int32, zero
    begin,  # [room + n] int32
    end,  # [room + n] int32
    row_of,  # [room + n] int32
    heavy,  # [room] int32
    heavy_end,  # [room] int32
    num_rows,
    room,
    HEAVY_ROW: tl.constexpr,
    PIECE: tl.constexpr,
    WINDOW: tl.constexpr,
    CLASSES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the sums. Pieces of a row lie side by side. Grid: as of :func:`_count_kernel`."""
    row, start, stop, of_class = _classified(crow, num_rows, HEAVY_ROW, CLASSES, BLOCK)
    live = row < num_rows
    is_heavy = stop - start > HEAVY_ROW
    window = tl.program_id(0) * BLOCK // WINDOW
    at_class = window * CLASSES + tl.arange(0, CLASSES)
    found = tl.sum(of_class, axis=0)
    longer = tl.load(counts + at_class)
    longer = tl.cumsum(longer, axis=0) - longer
    first = longer + tl.atomic_add(taken + at_class, found, mask=found > 0, sem="relaxed")
    among = tl.cumsum(of_class, axis=0) - 1 + first[None, :]
    place = room + window * WINDOW + tl.sum(of_class * among, axis=1)
    tl.store(begin + place, start, mask=live)
    tl.store(end + place, tl.where(is_heavy, start, stop), mask=live)
    tl.store(row_of + place, tl.where(is_heavy, -1, row), mask=live)
    pieces = tl.where(is_heavy, (stop - start + (PIECE - 1)) // PIECE, 0)
    most = tl.max(pieces, axis=0)
    if most > 0:
        place = tl.atomic_add(pieces_taken + row * 0, pieces, mask=is_heavy, sem="relaxed")
        tl.store(heavy + place, row, mask=is_heavy)
        tl.store(heavy_end + place, place + pieces, mask=is_heavy)
        for i in range(most):
            there = is_heavy & (i < pieces)
            tl.store(begin + place + i, start + i * PIECE, mask=there)
            tl.store(end + place + i, tl.minimum(start + (i + 1) * PIECE, stop), mask=there)
            tl.store(row_of + place + i, place, mask=there)


def launch_plan(
    crow: Tensor, room: int | None, heavy_row: int, piece: int, window: int
) -> tuple[Tensor, Tensor, Tensor, int, Tensor, Tensor, Tensor]:
    """What a :class:`rfp.backends.cuda_sparse.row_plan.RowPlan` is made of, all int32.

    Args:
        crow: ``[n + 1]`` int32.
        room: For so many pieces at least as there are; ``None`` to wait for the GPU and be told how many.
        heavy_row, piece, window: The constants of :mod:`rfp.backends.cuda_sparse.row_plan`.
    """
    num_rows, device, block = crow.size(0) - 1, crow.device, min(_BLOCK, window)
    words = num_blocks(num_rows, window) * _CLASSES
    zeros = torch.zeros(2 * words + 2, dtype=torch.int32, device=device)
    counts, taken, num_pieces, pieces_taken = zeros.split([words, words, 1, 1])
    grid = (num_blocks(num_rows, block),)
    limits = {"HEAVY_ROW": heavy_row, "PIECE": piece, "WINDOW": window, "CLASSES": _CLASSES, "BLOCK": block}
    with on_device(crow):
        if num_rows:
            launch_kernel(_count_kernel, grid, (crow, counts, num_pieces, num_rows), **limits)
        if room is None:
            room = int(num_pieces)
        room += -(room + num_rows) % 4  # all begin at multiples of 16 bytes, for which kernels are compiled
        begin, end, row = torch.empty(3, room + num_rows, dtype=torch.int32, device=device).unbind()
        heavy, heavy_end = (torch.empty(room, dtype=torch.int32, device=device) for _ in range(2))
        if num_rows:
            written = (begin, end, row, heavy, heavy_end)
            launch_kernel(_place_kernel, grid, (crow, counts, taken, pieces_taken, *written, num_rows, room), **limits)
    return begin, end, row, room, pieces_taken, heavy, heavy_end
