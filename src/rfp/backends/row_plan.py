"""The order in which a GPU takes the rows of a large sparse matrix, so that no row holds up others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from rfp.csr import CSR

# A row of more entries than this is summed in pieces of so many, and the pieces are added up after.
HEAVY_ROW = 256
PIECE = 128
# Rows are sorted by their length within windows of so many: those taken together are of similar length, while nodes that
# are numbered closely, and often share neighbours, stay close.
WINDOW = 1 << 14


@dataclass(frozen=True)
class RowPlan:
    """Light rows in the order they are taken; heavy rows with the entries of their pieces."""

    light: Tensor  # [rows] int32
    heavy: Tensor  # [heavy rows] int32
    piece_begin: Tensor  # [pieces] first entry of each piece
    piece_end: Tensor  # [pieces]
    heavy_begin: Tensor  # [heavy rows] first piece of each heavy row
    heavy_end: Tensor  # [heavy rows]


_PLANS: WeakIdKeyDictionary = WeakIdKeyDictionary()  # type: ignore[no-untyped-call]


def row_plan(csr: CSR) -> RowPlan:
    """The plan of a pattern: computed once, kept as long as its index tensor lives. O(n log n), and one synchronisation."""
    plan: RowPlan | None = _PLANS.get(csr.col)
    if plan is None:
        plan = _plan(csr.crow)
        _PLANS[csr.col] = plan
    return plan


def _plan(crow: Tensor) -> RowPlan:
    degree = crow.diff()
    is_heavy = degree > HEAVY_ROW
    heavy = is_heavy.nonzero()[:, 0]
    light = (~is_heavy).nonzero()[:, 0] if len(heavy) else torch.arange(len(degree), device=crow.device)
    key = light // WINDOW * (HEAVY_ROW + 1) + (HEAVY_ROW - degree[light])
    light = light[torch.sort(key).indices]

    begin, end = crow[heavy], crow[heavy + 1]
    pieces = (end - begin + (PIECE - 1)) // PIECE
    last_piece = pieces.cumsum(0)
    first_piece = last_piece - pieces
    number = torch.arange(int(last_piece[-1]) if len(heavy) else 0, device=crow.device)
    owner = torch.repeat_interleave(torch.arange(len(heavy), device=crow.device), pieces)
    piece_begin = begin[owner] + (number - first_piece[owner]) * PIECE
    piece_end = torch.minimum(piece_begin + PIECE, end[owner])
    return RowPlan(light.int(), heavy.int(), piece_begin, piece_end, first_piece, last_piece)
