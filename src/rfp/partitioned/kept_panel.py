"""The panel of a state that a process multiplies by: read once, kept while blocks of rows go through."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

import torch
from torch import Tensor

from rfp.pages import empty, give_back_memory
from rfp.partitioned.block_products import device_here
from rfp.partitioned.checked_files import load_into
from rfp.partitioned.plan import Plan


@dataclass
class _Panel:
    """A panel of all nodes, ``[n, B width]``; ``key`` says of what, ``users`` how many threads multiply by it."""

    key: tuple[Plan, str, int]
    tensor: Tensor
    users: int = 0


class KeptPanel:
    """The panel that was read last. The one before is let go of first, or its memory is used again: one is there."""

    def __init__(self) -> None:
        self.guard = Lock()
        self.last: _Panel | None = None

    @contextmanager
    def used(self, plan: Plan, name: str, panel: int) -> Iterator[Tensor]:
        """``[n, B width]``, on the device of the plan; for the length of the block nothing else is read into it."""
        with self.guard:
            if self.last is None or self.last.key != (plan, name, panel):
                self.last = self._read(plan, name, panel)
            found = self.last
            found.users += 1
        try:
            yield found.tensor
        finally:
            with self.guard:
                found.users -= 1

    def _read(self, plan: Plan, name: str, panel: int) -> _Panel:
        width = plan.panels[panel].stop - plan.panels[panel].start
        shape = (plan.graph.num_nodes, plan.num_trajectories, width)
        old, self.last = self.last, None  # it will be overwritten: whatever stops this, it is no panel any more
        if old is not None and _may_hold(old, shape, plan.torch_dtype):
            numbers = old.tensor
        else:
            del old
            give_back_memory()
            numbers = empty(shape[0], shape[1] * shape[2], dtype=plan.torch_dtype)
        rows = numbers.numpy().reshape(shape)
        for block in range(plan.graph.num_blocks):
            load_into(plan.layout.block_file(name, panel, block), rows[plan.graph.rows(block)])
        return _Panel((plan, name, panel), numbers.to(device_here(plan.device)))

    def forget(self) -> None:
        with self.guard:
            self.last = None


def _may_hold(panel: _Panel, shape: tuple[int, int, int], dtype: torch.dtype) -> bool:
    same = panel.tensor.shape == (shape[0], shape[1] * shape[2]) and panel.tensor.dtype == dtype
    return same and panel.users == 0 and panel.tensor.is_cpu


KEPT = KeptPanel()


def forget_panel() -> None:
    """Let go of the panel that is kept."""
    KEPT.forget()
