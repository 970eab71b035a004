"""Blocks of a state's rows, in files of panels: read with all channels, written panel by panel."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from rfp.partitioned.checked_files import is_whole, load_into, save_array
from rfp.partitioned.plan import Plan
from rfp.partitioned.reused_memory import ReusedMemory

Array = NDArray[Any]


class StateBlocks:
    """Blocks with all of their channels, one after the other in the same memory: for the length of a task.

    Args:
        plan: Plan of the encoding.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._block, self._panel = ReusedMemory(), ReusedMemory()

    def read(self, name: str, block: int) -> Array:
        """A block of a state, ``[rows, B, k]``; good until the next one is read, and may be written to."""
        rows = self.plan.graph.rows(block)
        shape = (rows.stop - rows.start, self.plan.num_trajectories)
        out = self._block.array((*shape, self.plan.num_channels), self.plan.dtype)
        files = self.plan.files(name, block)
        if len(files) == 1:
            load_into(files[0], out)
            return out
        for path, channels in zip(files, self.plan.panels, strict=True):
            panel = self._panel.array((*shape, channels.stop - channels.start), self.plan.dtype)
            load_into(path, panel)
            out[:, :, channels] = panel
        return out

    def write(self, name: str, block: int, values: Array) -> None:
        """A block of a state, ``[rows, B, k]``."""
        for path, channels in zip(self.plan.files(name, block), self.plan.panels, strict=True):
            part = values[:, :, channels]
            if not part.flags.c_contiguous:
                panel = self._panel.array(part.shape, part.dtype)
                panel[...] = part
                part = panel
            save_array(path, part)

    def are_there(self, name: str, block: int) -> bool:
        """Whether all files of a block are there and what was written."""
        return all(is_whole(path) for path in self.plan.files(name, block))
