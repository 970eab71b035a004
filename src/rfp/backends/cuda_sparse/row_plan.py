"""The order in which a GPU takes the rows of a large sparse matrix, so that no row holds up others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.csr import CSR
from rfp.ragged import owners

# A row of more entries than this is summed in pieces of so many.
HEAVY_ROW = 64
PIECE = 64
# Rows are sorted by their length within windows of so many: those taken together are of similar length, while nodes
# that are numbered closely, and often share neighbours, stay close.
WINDOW = 1 << 14
# Of up to so many entries a matrix is given as much room for pieces as they can take: nobody waits to be told how many
# there are.
FEW_ENTRIES = 1 << 22


@dataclass(frozen=True)
class RowPlan:
    """Sums to be made, in their order: first the pieces of heavy rows, then the light rows.

    Args:
        begin, end: ``[places]`` entries of each sum.
        row: ``[places]`` int32; row of the matrix, or of a piece the first one of its row. -1 where there is no sum.
        room: Places for pieces, the first ones; not all of them need be taken.
        num_pieces: ``[1]`` int32, how many are.
        heavy: ``[room]`` int32; the row of the matrix, at the place of its first piece.
        heavy_end: ``[room]`` int32; the place after its last piece, there too.
    """

    begin: Tensor
    end: Tensor
    row: Tensor
    room: int
    num_pieces: Tensor
    heavy: Tensor
    heavy_end: Tensor


def row_plan(csr: CSR) -> RowPlan:
    """The plan of a pattern: computed once and kept with it. O(n); of many entries it waits for a GPU once."""
    if csr.crow.is_cuda and csr.crow.dtype == torch.int32:
        return csr.memo.of(plan_by_kernels, csr.crow, csr.nnz)
    return csr.memo.of(plain_plan, csr.crow)


def plan_by_kernels(crow: Tensor, num_entries: int) -> RowPlan:
    """:func:`plain_plan`, its pieces, and rows of about the same length, in another order."""
    from rfp.backends.cuda_sparse.triton_row_plan import launch_plan

    room = num_entries // PIECE + num_entries // (HEAVY_ROW + 1) if num_entries <= FEW_ENTRIES else None
    return RowPlan(*launch_plan(crow, room, HEAVY_ROW, PIECE, WINDOW))


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
        row=torch.cat([first_piece[owner], light]).int(),
        room=num_pieces,
        num_pieces=torch.tensor([num_pieces], dtype=torch.int32, device=crow.device),
        heavy=heavy[owner].int(),
        heavy_end=last_piece[owner].int(),
    )
