# mypy: ignore-errors
"""Triton: the order of :mod:`rfp.backends.cuda_sparse.row_plan` by two kernels and a sort, not thirty operations."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp.triton_launch import launch_kernel, on_device

_BLOCK = 256


@triton.jit(do_not_specialize=["num_rows"])
def _keys_kernel(
    crow,  # [n + 1] int32
    key,  # [n] int32
    counts,  # [2] int32: heavy rows, their pieces
    num_rows,
    HEAVY_ROW: tl.constexpr,
    PIECE: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What rows are sorted by: heavy ones first, then by window and falling length."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = row < num_rows
    start = tl.load(crow + row, mask=live, other=0)
    degree = tl.load(crow + row + 1, mask=live, other=0) - start
    heavy = degree > HEAVY_ROW
    tl.store(key + row, tl.where(heavy, -1, row // WINDOW * (HEAVY_ROW + 1) + (HEAVY_ROW - degree)), mask=live)
    number = tl.sum(heavy.to(tl.int32), axis=0)
    if number > 0:
        tl.atomic_add(counts, number, sem="relaxed")
        pieces = tl.where(heavy, (degree + (PIECE - 1)) // PIECE, 0)
        tl.atomic_add(counts + 1, tl.sum(pieces, axis=0), sem="relaxed")


@triton.jit(do_not_specialize=["num_rows", "num_heavy", "num_pieces"])
def _sums_kernel(
    crow,  # [n + 1] int32
    order,  # [n] int64: rows in the order of their keys
    begin,  # [sums] int32
    end,  # [sums] int32
    row,  # [sums] int32
    heavy,  # [heavy rows] int32
    heavy_begin,  # [heavy rows] int32
    heavy_end,  # [heavy rows] int32
    taken,  # [1] int32: pieces that have a place
    num_rows,
    num_heavy,
    num_pieces,
    HEAVY_ROW: tl.constexpr,
    PIECE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Write the sums. Pieces of a row lie side by side; of which row they come first says nothing about any sum."""
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = number < num_rows
    node = tl.load(order + number, mask=live, other=0).to(tl.int32)
    start = tl.load(crow + node, mask=live, other=0)
    stop = tl.load(crow + node + 1, mask=live, other=0)
    is_heavy = live & (stop - start > HEAVY_ROW)
    is_light = live & (stop - start <= HEAVY_ROW)
    at = num_pieces + number - num_heavy
    tl.store(begin + at, start, mask=is_light)
    tl.store(end + at, stop, mask=is_light)
    tl.store(row + at, node, mask=is_light)
    pieces = tl.where(is_heavy, (stop - start + (PIECE - 1)) // PIECE, 0)
    most = tl.max(pieces, axis=0)
    if most > 0:
        at = tl.atomic_add(taken + number * 0, pieces, mask=is_heavy, sem="relaxed")
        tl.store(heavy + number, node, mask=is_heavy)
        tl.store(heavy_begin + number, at, mask=is_heavy)
        tl.store(heavy_end + number, at + pieces, mask=is_heavy)
        for i in range(most):
            there = is_heavy & (i < pieces)
            tl.store(begin + at + i, start + i * PIECE, mask=there)
            tl.store(end + at + i, tl.minimum(start + (i + 1) * PIECE, stop), mask=there)
            tl.store(row + at + i, at + i, mask=there)


def launch_plan(crow: Tensor, heavy_row: int, piece: int, window: int) -> tuple[list[Tensor], list[Tensor], int]:
    """Begin, end and row of all sums, those of heavy rows, all int32, and the number of pieces.

    Waits for the GPU once, to be told how many heavy rows and pieces there are.

    Args:
        crow: ``[n + 1]`` int32.
        heavy_row, piece, window: The constants of :mod:`rfp.backends.cuda_sparse.row_plan`.
    """
    num_rows, device = crow.size(0) - 1, crow.device
    counts = torch.zeros(3, dtype=torch.int32, device=device)
    key = torch.empty(num_rows, dtype=torch.int32, device=device)
    grid = (triton.cdiv(num_rows, _BLOCK),)
    limits = {"HEAVY_ROW": heavy_row, "PIECE": piece}
    with on_device(crow):
        if num_rows:
            launch_kernel(_keys_kernel, grid, (crow, key, counts, num_rows), **limits, WINDOW=window, BLOCK=_BLOCK)
        order = torch.sort(key, stable=True).indices
        num_heavy, num_pieces, _ = counts.tolist()
        sums = [torch.empty(num_pieces + num_rows - num_heavy, dtype=torch.int32, device=device) for _ in range(3)]
        heavy = [torch.empty(num_heavy, dtype=torch.int32, device=device) for _ in range(3)]
        if num_rows:
            sizes = (num_rows, num_heavy, num_pieces)
            launch_kernel(_sums_kernel, grid, (crow, order, *sums, *heavy, counts[2:], *sizes), **limits, BLOCK=_BLOCK)
    return sums, heavy, num_pieces
