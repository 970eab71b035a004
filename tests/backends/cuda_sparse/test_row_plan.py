"""Both ways to order the rows of a matrix, the one by kernels in Triton's interpreter, sum every row once."""

import pytest

from tests.interpreter import run_interpreted

SOUND = """
import torch
from rfp.backends.cuda_sparse import row_plan

row_plan.HEAVY_ROW, row_plan.PIECE, row_plan.WINDOW = 8, 4, 32
most_entries = row_plan.FEW_ENTRIES
generator = torch.Generator().manual_seed(0)
skewed = (torch.rand(600, generator=generator).pow(-1) - 0.5).clamp_max(40).int()


def check(plan, crow):
    degree, num_pieces = crow.diff().tolist(), int(plan.num_pieces)
    begin, end, row = (getattr(plan, name).tolist() for name in ("begin", "end", "row"))
    assert num_pieces <= plan.room == len(plan.heavy) == len(plan.heavy_end)
    found, pieces = {}, 0
    for first in sorted(set(row[:num_pieces])):  # of each heavy row
        last = int(plan.heavy_end[first])
        assert set(row[first:last]) == {first}
        node = int(plan.heavy[first])
        assert begin[first] == crow[node] and end[last - 1] == crow[node + 1]
        assert begin[first + 1 : last] == end[first : last - 1]
        assert all(0 < e - b <= row_plan.PIECE for b, e in zip(begin[first:last], end[first:last]))
        assert degree[node] > row_plan.HEAVY_ROW
        found[node], pieces = True, pieces + last - first
    assert pieces == num_pieces
    before = (-1, 0)
    for place in range(plan.room, len(row)):
        node = row[place]
        if node < 0:
            assert begin[place] == end[place]
            continue
        assert node not in found and [begin[place], end[place]] == crow[node : node + 2].tolist()
        assert degree[node] <= row_plan.HEAVY_ROW
        found[node] = True
        order = (node // row_plan.WINDOW, -degree[node])
        assert order >= before  # windows one after the other, in each the longest first
        before = order
    assert len(found) == len(degree)


# Rows of 9 entries have as many pieces as there may be.
for degrees in (skewed, skewed.clamp_max(8), torch.full((40,), 9), torch.zeros(5), torch.zeros(0)):
    crow = torch.cat([torch.zeros(1), degrees.cumsum(0)]).int()
    nnz = int(crow[-1])
    check(row_plan.plain_plan(crow), crow)
    for row_plan.FEW_ENTRIES in (most_entries, -1):  # room for all that there may be, and for those that there are
        check(row_plan.plan_by_kernels(crow, nnz), crow)
print("equal")
"""


@pytest.mark.slow
def test_every_row_is_summed_once_and_in_order() -> None:
    run_interpreted(SOUND)
