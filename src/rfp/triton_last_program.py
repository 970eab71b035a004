# mypy: ignore-errors
"""Triton: a kernel whose last program goes on with what all of them have written, in the place of another launch."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def comes_last(arrived):
    """Whether all other programs of the first axis have come here before: what they have written can be read.

    Args:
        arrived: A place in memory that is zero before the kernel, and after it; one for each program of other axes.
    """
    tl.debug_barrier()  # all threads have written before one of them says so
    last = tl.atomic_add(arrived, 1, sem="acq_rel", scope="gpu") == tl.num_programs(0) - 1
    tl.store(arrived, 0, mask=last)
    return last


@triton.jit
def all_arrived(arrived, expected, mask):
    """Which of some groups are complete with this program: what all of their members have written can be read.

    Args:
        arrived: Places in memory that are zero before the kernel, and after it: one for each group, and of one group
            several times if several of its members are here.
        expected: Members of each group.
        mask: Which of these are members.
    """
    tl.debug_barrier()  # as above
    last = mask & (tl.atomic_add(arrived, 1, mask=mask, sem="acq_rel", scope="gpu") == expected - 1)
    tl.debug_barrier()  # the thread that was told so is not the one that reads
    tl.store(arrived, 0, mask=last)
    return last
