"""The order of rows by kernels, in Triton's interpreter, is the plain one, but for which pieces come first."""

import pytest

from tests.interpreter import run_interpreted

EQUAL = """
import torch
from rfp.backends.cuda_sparse import row_plan

row_plan.HEAVY_ROW, row_plan.PIECE, row_plan.WINDOW = 8, 4, 32
generator = torch.Generator().manual_seed(0)
skewed = (torch.rand(600, generator=generator).pow(-1) - 0.5).clamp_max(40).int()
for degrees in (skewed, skewed.clamp_max(8), torch.full((3,), 9), torch.zeros(5), torch.zeros(0)):
    crow = torch.cat([torch.zeros(1), degrees.cumsum(0)]).int()
    plain, found = row_plan.plain_plan(crow), row_plan.plan_by_kernels(crow)
    assert found.num_pieces == plain.num_pieces
    for name in ("begin", "end", "row"):  # light rows
        one, other = (getattr(plan, name)[plan.num_pieces :].long() for plan in (plain, found))
        assert torch.equal(one, other)
    assert torch.equal(found.heavy, plain.heavy)
    assert found.row[: found.num_pieces].tolist() == list(range(found.num_pieces))
    taken, listed = [], []
    for plan in (plain, found):
        pieces = []
        for first, last in zip(plan.heavy_begin.tolist(), plan.heavy_end.tolist(), strict=True):
            pieces.append([plan.begin[first:last].tolist(), plan.end[first:last].tolist()])
            taken += range(first, last)
        listed.append(pieces)
    assert listed[0] == listed[1]
    assert sorted(taken) == sorted([*range(plain.num_pieces)] * 2)  # each once in both
print("equal")
"""


@pytest.mark.slow
def test_rows_are_taken_in_the_plain_order() -> None:
    run_interpreted(EQUAL)
