"""The order in which a GPU takes the rows of a large sparse matrix, so that no row holds up others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.csr import CSR
from rfp.ragged import owners

# A row of more entries than this is summed in pieces of so many, and the pieces are added up after.
HEAVY_ROW = 256
PIECE = 128
# Rows are sorted by their length within windows of so many: those taken together are of similar length, while nodes
# that are numbered closely, and often share neighbours, stay close.
WINDOW = 1 << 14


@dataclass(frozen=True)
class RowPlan:
    """Sums to be made, in their order: first the pieces of heavy rows, then the light rows.

    Args:
        begin, end: ``[sums]`` entries of each sum.
        row: ``[sums]`` int32; row of the matrix, or number of the piece for the first ``num_pieces``.
        num_pieces: How many pieces there are.
        heavy: ``[heavy rows]`` int32.
        heavy_begin, heavy_end: ``[heavy rows]`` pieces of each.
    """

    begin: Tensor
    end: Tensor
    row: Tensor
    num_pieces: int
    heavy: Tensor
    heavy_begin: Tensor
    heavy_end: Tensor


def row_plan(csr: CSR) -> RowPlan:
    """The plan of a pattern: computed once and kept with it. O(n log n), one synchronisation."""
    by_kernels = csr.crow.is_cuda and csr.crow.dtype == torch.int32
    return csr.memo.of(plan_by_kernels if by_kernels else plain_plan, csr.crow)


def plan_by_kernels(crow: Tensor) -> RowPlan:
    """:func:`plain_plan`, its pieces in another order."""
    from rfp.backends.cuda_sparse.triton_row_plan import launch_plan

    (begin, end, row), (heavy, heavy_begin, heavy_end), num_pieces = launch_plan(crow, HEAVY_ROW, PIECE, WINDOW)
    return RowPlan(begin, end, row, num_pieces, heavy, heavy_begin, heavy_end)


def plain_plan(crow: Tensor) -> RowPlan:
    """The plan by operations of PyTorch, on any device."""
    degree = crow.diff()
    is_heavy = degree > HEAVY_ROW
    pieces = torch.where(is_heavy, (degree + (PIECE - 1)) // PIECE, 0)
    # The one look at a GPU: how many there are of both.
    num_heavy, num_pieces = torch.stack([is_heavy.sum(), pieces.sum()]).tolist()
    row = torch.arange(len(degree), device=crow.device)
    key = torch.where(is_heavy, -1, row // WINDOW * (HEAVY_ROW + 1) + (HEAVY_ROW - degree))
    order = torch.sort(key, stable=True).indices
    heavy, light = order[:num_heavy], order[num_heavy:]

    begin, end = crow[heavy], crow[heavy + 1]
    last_piece = pieces[heavy].cumsum(0)
    first_piece = last_piece - pieces[heavy]
    number = torch.arange(num_pieces, device=crow.device)
    owner = owners(pieces[heavy], num_pieces)
    piece_begin = begin[owner] + (number - first_piece[owner]) * PIECE
    piece_end = torch.minimum(piece_begin + PIECE, end[owner])
    return RowPlan(
        begin=torch.cat([piece_begin, crow[light]]),
        end=torch.cat([piece_end, crow[light + 1]]),
        row=torch.cat([number, light]).int(),
        num_pieces=num_pieces,
        heavy=heavy.int(),
        heavy_begin=first_piece,
        heavy_end=last_piece,
    )
