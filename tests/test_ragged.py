"""Index arithmetic on groups of unequal size, against loops over the groups."""

from __future__ import annotations

import pytest
import torch

from rfp.ragged import Cuts, join, offsets, owners, pad, repeated, take

SIZES = [[3, 0, 1, 4], [0], [0, 0, 5], [2, 2], []]


def groups_of(sizes: list[int]) -> list[list[int]]:
    """The row numbers of each group, counted one by one."""
    rows, groups = iter(range(sum(sizes))), []
    for size in sizes:
        groups.append([next(rows) for _ in range(size)])
    return groups


@pytest.mark.parametrize("sizes", SIZES)
def test_offsets_and_owners(sizes: list[int]) -> None:
    given = torch.tensor(sizes, dtype=torch.long)
    assert offsets(given).tolist() == [sum(sizes[:g]) for g in range(len(sizes) + 1)]
    expected = [g for g, rows in enumerate(groups_of(sizes)) for _ in rows]
    assert owners(given).tolist() == owners(given, sum(sizes)).tolist() == expected


@pytest.mark.parametrize("sizes", [sizes for sizes in SIZES if sizes])
@pytest.mark.parametrize("padding", [0, 2])
def test_copies_of_all_groups_stand_one_after_the_other(sizes: list[int], padding: int) -> None:
    longer = [*sizes[:-1], sizes[-1] + padding]
    expected = offsets(torch.tensor(3 * longer)).tolist()
    assert repeated(offsets(torch.tensor(sizes)), sum(longer), 3).tolist() == expected


@pytest.mark.parametrize("chosen", [[3, 0, 3], [1], [], [0, 1, 2, 3], [2, 1, 1, 0]])
def test_take_is_the_concatenation_of_the_groups(chosen: list[int]) -> None:
    sizes = SIZES[0]
    groups = groups_of(sizes)
    expected = [row for g in chosen for row in groups[g]]
    for total in (None, len(expected)):
        taken = take(offsets(torch.tensor(sizes)), torch.tensor(chosen, dtype=torch.long), total)
        assert taken.rows.tolist() == expected
        assert taken.owner.tolist() == [number for number, g in enumerate(chosen) for _ in groups[g]]
        assert taken.ptr.tolist() == offsets(torch.tensor([sizes[g] for g in chosen], dtype=torch.long)).tolist()
        # Old numbers less the shift of their group are the new ones.
        assert (taken.rows - taken.shift[taken.owner]).tolist() == list(range(len(expected)))


def test_join_moves_every_graph_behind_the_last() -> None:
    graphs = [(2, [[0, 1], [1, 0]]), (3, []), (0, []), (4, [[3, 0]])]
    edges, joined, nodes = [], [], 0
    for size, pairs in graphs:
        edges += pairs
        joined += [[a + nodes, b + nodes] for a, b in pairs]
        nodes += size
    sizes, counts = torch.tensor([g[0] for g in graphs]), torch.tensor([len(g[1]) for g in graphs])
    edge_index, ptr = join(torch.tensor(edges).T, sizes, counts)
    assert edge_index.T.tolist() == joined
    assert ptr.tolist() == [0, 2, 5, 5, 9]


@pytest.mark.parametrize("counts", [[2, 1, 3], [1], [0, 2, 0]])
def test_cuts_of_graphs_into_batches(counts: list[int]) -> None:
    """Batches of ``counts`` graphs each: offsets of each batch start at 0 and are those of its graphs alone."""
    sizes = [3, 1, 0, 4, 2, 5][: sum(counts)]
    graphs = Cuts(counts, torch.device("cpu"))
    members = groups_of(counts)
    nodes = Cuts([sum(sizes[g] for g in batch) for batch in members], torch.device("cpu"))
    cut = graphs.cut_offsets(offsets(torch.tensor(sizes)), nodes.starts)
    for i, batch in enumerate(members):
        alone = offsets(torch.tensor([sizes[g] for g in batch], dtype=torch.long))
        assert cut[graphs.offsets_of(i)].tolist() == alone.tolist()
        assert list(range(sum(counts)))[graphs.of(i)] == batch
    assert graphs.spread(torch.tensor([10 * i for i in range(len(counts))])).tolist() == [
        10 * i for i, batch in enumerate(members) for _ in batch
    ]


def test_padding_holds_each_row_once_and_marks_the_rest() -> None:
    sizes = SIZES[0]
    groups = groups_of(sizes)
    for chosen in (None, [2, 0]):
        padded, there = pad(
            offsets(torch.tensor(sizes)), 4, groups=None if chosen is None else torch.tensor(chosen), fill=99
        )
        for row, real, g in zip(padded.tolist(), there.tolist(), chosen or range(4), strict=True):
            assert [number for number, own in zip(row, real, strict=True) if own] == groups[g]
            assert row[len(groups[g]) :] == [99] * (4 - len(groups[g]))
