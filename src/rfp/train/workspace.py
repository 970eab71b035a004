"""Where the data, results and checkpoints of runs are, and what a run may use and tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from rfp.environment import find_device


class OutOfTime(Exception):  # noqa: N818 - not an error: what was done so far is kept, and goes on next time
    """The time that was given is used up (:attr:`Workspace.deadline`)."""


def _no_tick(what: str, done: int, total: int) -> None:
    """Tell nobody how far the work is."""


@dataclass(frozen=True)
class Workspace:
    """Where things are and where they go.

    Args:
        data_root: Folder of raw data; by default the environment variable ``RFP_DATA``.
        cache: See :func:`rfp.data.load`.
        results: Folder of result files; ``None`` writes none.
        checkpoints: Folder of checkpoints and logs; ``None`` keeps none.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        num_devices: GPUs for one run.
        say: Gets a line for each thing worth knowing.
        progress: Whether long training draws a progress bar on stderr.
        tick: Told ``(what, epochs done, epochs in all)`` while models train; not of one that has a progress bar of its
            own. The processes of a table's jobs get it too, so it must be one that can be pickled there.
        deadline: After this time (of ``time.time()``) nothing is begun and replicas stop: :class:`OutOfTime`.
        memory_share: Part of a CPU's free memory that replicas may take, where several processes divide it.
    """

    data_root: Path | None = None
    cache: Path | None = None
    results: Path | None = None
    checkpoints: Path | None = None
    device: str = "auto"
    num_devices: int = 1
    say: Callable[[str], None] = lambda line: None
    progress: bool = False
    tick: Callable[[str, int, int], None] = _no_tick
    deadline: float | None = None
    memory_share: float = 1.0

    def check_time(self) -> None:
        """Raise if the time is used up."""
        if self.deadline is not None and time.time() > self.deadline:
            raise OutOfTime("the time that was given is used up")

    def torch_device(self) -> torch.device:
        """The device asked for, or the best there is."""
        return find_device(self.device)
