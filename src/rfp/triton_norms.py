# mypy: ignore-errors
"""Triton: the norms of :mod:`rfp.operator_norms` of a sparse matrix, in two or three kernels instead of forty."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from rfp.csr import CSR, places
from rfp.rounding import LONG_ROW
from rfp.triton_last_program import comes_last
from rfp.triton_launch import launch_kernel, num_blocks, on_device

_BLOCK = 256
_NODES = 128
_LONG_ROW = tl.constexpr(LONG_ROW)


@triton.jit(do_not_specialize=["num_entries", "num_nodes"])
def _sums_kernel(
    place,  # [num_entries]
    value,  # [num_entries]
    row_weight,  # [n] float64, read if ROOTS
    column_weight,  # [n] float64, read if ROOTS
    rows,  # [n] float64
    columns,  # [n] float64
    num_entries,
    num_nodes,
    ROOTS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Add up the absolute entries of each row and column, with ``ROOTS`` times roots of the other side's weights."""
    entry = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    live = entry < num_entries
    here = tl.load(place + entry, mask=live, other=0).to(tl.int64)
    row = here // num_nodes
    column = here - row * num_nodes
    size = tl.abs(tl.load(value + entry, mask=live, other=0.0).to(tl.float64))
    for_row = size
    for_column = size
    if ROOTS:
        for_row = size * tl.sqrt(tl.load(column_weight + column, mask=live, other=0.0))
        for_column = size * tl.sqrt(tl.load(row_weight + row, mask=live, other=0.0))
    there = live & (size != 0)  # NaN too
    tl.atomic_add(rows + row, for_row, mask=there, sem="relaxed")
    tl.atomic_add(columns + column, for_column, mask=there, sem="relaxed")


@triton.jit
def over_root(total, weight):
    """Total by root of weight; 0 / 0 of an empty row is 0."""
    return tl.where(total == 0, 0.0, total / tl.sqrt(tl.where(total == 0, 1.0, weight)))


@triton.jit
def _largest_kernel(rows, columns, row_weight, column_weight, ptr, out, NODES: tl.constexpr):
    """One graph: the root of its largest ratio of a row times that of a column."""
    graph = tl.program_id(0)
    stop = tl.load(ptr + graph + 1).to(tl.int64)
    start = tl.load(ptr + graph).to(tl.int64)
    of_rows = tl.zeros([NODES], tl.float64)
    of_columns = tl.zeros([NODES], tl.float64)
    for first in range(start, stop, NODES):
        node = first + tl.arange(0, NODES)
        live = node < stop
        row = over_root(tl.load(rows + node, mask=live, other=0.0), tl.load(row_weight + node, mask=live, other=1.0))
        column = tl.load(columns + node, mask=live, other=0.0)
        column = over_root(column, tl.load(column_weight + node, mask=live, other=1.0))
        of_rows = tl.maximum(of_rows, row)
        of_columns = tl.maximum(of_columns, column)
    tl.store(out + graph, tl.sqrt(tl.max(of_rows, axis=0) * tl.max(of_columns, axis=0)))


@triton.jit(do_not_specialize=["num_nodes"])
def _beyond_kernel(
    value,  # [nnz]
    crow,  # [n + 1]
    holes,  # [n], read if HOLES
    norm,  # [1] float64
    found,  # [3] int64, zero: the most entries of a row; the sum below, the bits of a float64; programs that are done
    out,  # [1] float64
    num_nodes,
    HOLES: tl.constexpr,
    NODES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    r"""Add up :math:`(g_i - 1)^2 S_{ij}^2` (:func:`rfp.operator_norms.rounding_norm`) over the long rows of a graph.

    The program that ends last writes the smaller of the two bounds.
    """
    first = tl.program_id(0).to(tl.int64) * NODES
    number = tl.arange(0, NODES)
    live = first + number < num_nodes
    start = tl.load(crow + first + number, mask=live, other=0)
    length = tl.load(crow + first + number + 1, mask=live, other=0) - start
    if HOLES:
        length -= tl.load(holes + first + number, mask=live, other=0).to(length.dtype)
    longest = tl.max(length, axis=0)
    if longest > _LONG_ROW:
        tl.atomic_max(found, longest.to(tl.int64), sem="relaxed")
        times = length.to(tl.float64) / _LONG_ROW - 1
        total = tl.zeros([BLOCK], tl.float64)
        at = tl.max(tl.where(length > _LONG_ROW, number, -1), axis=0)
        while at >= 0:  # one long row after the other
            stop = tl.load(crow + first + at + 1)
            weight = tl.sum(tl.where(number == at, times, 0.0), axis=0)
            for begin in range(tl.load(crow + first + at), stop, BLOCK):
                entry = begin + tl.arange(0, BLOCK)
                s = weight * tl.load(value + entry, mask=entry < stop, other=0.0).to(tl.float64)
                total += s * s
            at = tl.max(tl.where((length > _LONG_ROW) & (number < at), number, -1), axis=0)
        tl.atomic_add((found + 1).to(tl.pointer_type(tl.float64)), tl.sum(total, axis=0), sem="relaxed")
    if comes_last(found + 2):
        times = tl.maximum(tl.load(found).to(tl.float64) / _LONG_ROW, 1.0)
        beyond = tl.load(found + 1).to(tl.float64, bitcast=True)
        known = tl.load(norm)
        tl.store(out, tl.minimum(known * times, known + tl.sqrt(beyond)))


def norm_with_long_rows(norm: Tensor, csr: CSR) -> Tensor:
    """:func:`rfp.operator_norms.with_long_rows` of one graph, ``[1]`` float64; nothing is waited for.

    Args:
        norm: ``[1]`` float64.
        csr: The matrix, of finite entries.
    """
    if not csr.nnz:
        return norm
    found = torch.zeros(3, dtype=torch.int64, device=norm.device)
    out = torch.empty_like(norm)
    holes = csr.crow if csr.holes is None else csr.holes
    with on_device(norm):
        launch_kernel(
            _beyond_kernel,
            (num_blocks(csr.num_rows, _NODES),),
            (csr.value, csr.crow, holes, norm, found, out, csr.num_rows),
            HOLES=csr.holes is not None,
            NODES=_NODES,
            BLOCK=_BLOCK,
        )
    return out


def schur_bounds(csr: CSR, ptr: Tensor) -> Tensor:
    """The bound for each graph, ``[G]`` float64; nothing is waited for.

    Args:
        csr: The matrix, of finite entries.
        ptr: ``[G + 1]``, rows and columns of each graph.
    """
    n, num_graphs, place = csr.num_rows, len(ptr) - 1, csr.memo.of(places, csr)
    row_sums, column_sums, rows, columns = torch.zeros(4, n, dtype=torch.float64, device=ptr.device).unbind()
    with on_device(ptr):
        if csr.nnz:
            grid = (num_blocks(csr.nnz, _BLOCK),)
            entries, sizes = (place, csr.value), (csr.nnz, n)
            _sums_kernel[grid](*entries, rows, columns, row_sums, column_sums, *sizes, ROOTS=False, BLOCK=_BLOCK)
            _sums_kernel[grid](*entries, row_sums, column_sums, rows, columns, *sizes, ROOTS=True, BLOCK=_BLOCK)
        if num_graphs == 1:  # too long for one program
            of_rows, of_columns = (
                (x / w.sqrt()).nan_to_num(nan=0.0) for x, w in ((rows, row_sums), (columns, column_sums))
            )
            return (of_rows.amax(0, keepdim=True) * of_columns.amax(0, keepdim=True)).sqrt()
        out = torch.empty(num_graphs, dtype=torch.float64, device=ptr.device)
        if num_graphs:
            _largest_kernel[(num_graphs,)](rows, columns, row_sums, column_sums, ptr, out, NODES=_NODES)
    return out
