"""Groups of unequal size one after the other (nodes of graphs, edges of rows): joined, taken, cut and padded.

Wherever graphs are put side by side the same few index computations come up. They are here once: none of them waits
for a GPU if it is told the number of rows that come out, and none loops over groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor


def offsets(sizes: Tensor) -> Tensor:  # [g] -> [g + 1]
    """Where each group starts, and where the last one ends: what PyG calls ``ptr`` and a sparse matrix ``crow``.

    Example:
        >>> offsets(torch.tensor([2, 0, 3]))
        tensor([0, 2, 2, 5])
    """
    ends = sizes.cumsum(0)
    return torch.cat([ends.new_zeros(1), ends])


def owners(sizes: Tensor, total: int | None = None) -> Tensor:  # [g] -> [total]
    """The number of the group that each row belongs to, PyG's ``batch``.

    Args:
        sizes: ``[g]``.
        total: Their sum, if it is known.

    Example:
        >>> owners(torch.tensor([2, 0, 3]))
        tensor([0, 0, 2, 2, 2])
    """
    return torch.repeat_interleave(torch.arange(len(sizes), device=sizes.device), sizes, output_size=total)


def repeated(ptr: Tensor, num_rows: int, number: int) -> Tensor:  # [g + 1] -> [number g + 1]
    """The offsets of so many copies of all groups, one after the other.

    Args:
        ptr: ``[g + 1]``.
        num_rows: Rows of one copy; those after the last group are padding, and belong to it in the copies.
        number: How many copies.

    Example:
        >>> repeated(torch.tensor([0, 2, 5]), 5, 2)
        tensor([ 0,  2,  5,  7, 10])
    """
    first = torch.arange(number, device=ptr.device)[:, None] * num_rows
    return torch.cat([(ptr[:-1] + first).flatten(), ptr.new_full((1,), number * num_rows)])


def join(edge_index: Tensor, num_nodes: Tensor, num_edges: Tensor) -> tuple[Tensor, Tensor]:
    """Graphs that each count their nodes from 0, put side by side: the edges with the nodes' new numbers, and ``ptr``.

    Args:
        edge_index: ``[2, sum(num_edges)]``, the edges of one graph after those of the other.
        num_nodes: ``[g]``.
        num_edges: ``[g]``.

    Example:
        >>> join(torch.tensor([[0, 0], [1, 2]]), torch.tensor([2, 3]), torch.tensor([1, 1]))
        (tensor([[0, 2],
                [1, 4]]), tensor([0, 2, 5]))
    """
    ptr = offsets(num_nodes.long())
    return edge_index + torch.repeat_interleave(ptr[:-1], num_edges, output_size=edge_index.size(1)), ptr


@dataclass(frozen=True)
class Taken:
    """Some groups of many, side by side in a new order.

    Args:
        rows: ``[total]``, the old number of each row.
        owner: ``[total]``, the new number of its group.
        ptr: ``[b + 1]``, the new offsets.
        shift: ``[b]``, what to take off the old numbers of a group's rows.
    """

    rows: Tensor
    owner: Tensor
    ptr: Tensor
    shift: Tensor


def take(ptr: Tensor, groups: Tensor, total: int | None = None) -> Taken:
    """The rows of the groups with these numbers, in this order; repetitions are allowed.

    Args:
        ptr: ``[g + 1]``.
        groups: ``[b]``.
        total: Number of rows that come out, if it is known.

    Example:
        >>> taken = take(torch.tensor([0, 2, 2, 5]), torch.tensor([2, 0]))
        >>> taken.rows.tolist(), taken.ptr.tolist()
        ([2, 3, 4, 0, 1], [0, 3, 5])
    """
    sizes = ptr[groups + 1] - ptr[groups]
    new = offsets(sizes)
    owner = owners(sizes, total)
    shift = ptr[groups] - new[:-1]
    return Taken(torch.arange(len(owner), device=ptr.device) + shift[owner], owner, new, shift)


class Cuts:
    """Consecutive ranges of given lengths, such as the batches of many steps: bounds on the host and on the device.

    Args:
        counts: Length of each range.
        device: Where :meth:`spread` and :meth:`cut_offsets` are computed.
    """

    def __init__(self, counts: list[int], device: torch.device) -> None:
        self.bounds = list(accumulate(counts, initial=0))
        self.starts, self.counts = torch.tensor([self.bounds[:-1], counts]).to(device, non_blocking=True)

    def of(self, i: int) -> slice:
        """Range number i."""
        return slice(self.bounds[i], self.bounds[i + 1])

    def spread(self, values: Tensor) -> Tensor:
        """A value of each range for everything in it."""
        return values.repeat_interleave(self.counts, output_size=self.bounds[-1])

    def cut_offsets(self, whole: Tensor, starts: Tensor) -> Tensor:
        """Offsets of everything, ``[total + 1]``, as those of each range one after the other, less its ``starts``.

        Those of a range have one entry more than it has members, so range i begins i entries later.
        """
        entries = self.bounds[-1] + len(self.counts)
        number = torch.arange(len(self.counts), device=starts.device)
        number = number.repeat_interleave(self.counts + 1, output_size=entries)
        return whole[torch.arange(entries, device=starts.device) - number] - starts[number]

    def offsets_of(self, i: int) -> slice:
        """Where the offsets of range i lie in what :meth:`cut_offsets` returns."""
        return slice(self.bounds[i] + i, self.bounds[i + 1] + i + 1)


def pad(ptr: Tensor, width: int, *, groups: Tensor | None = None, fill: int = 0) -> tuple[Tensor, Tensor]:
    """The rows of some groups, padded to one width.

    Args:
        ptr: ``[g + 1]``.
        width: At least the size of the largest of them.
        groups: ``[b]``; all of them by default.
        fill: Number at the padding.

    Returns:
        Numbers of the rows of each group ``[b, width]``, and where they are real: False at the padding.

    Example:
        >>> rows, real = pad(torch.tensor([0, 2, 5]), 3, fill=5)
        >>> rows.tolist(), real.tolist()
        ([[0, 1, 5], [2, 3, 4]], [[True, True, False], [True, True, True]])
    """
    first, sizes = ptr[:-1], ptr.diff()
    if groups is not None:
        first, sizes = first[groups], sizes[groups]
    place = torch.arange(width, device=ptr.device)
    real = place < sizes[:, None]
    return torch.where(real, first[:, None] + place, fill), real
