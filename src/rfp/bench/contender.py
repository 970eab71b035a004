"""What is timed: a named case and those who do its work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    Args:
        name: As the table prints it.
        run: The work.
        repeats: Timed calls; slow peers get one.
        skip: Why it cannot run here; empty if it can.
        num_edges: Size, for the scaling plot.
        result_bytes: Size of the result and the graph, to hold the peak memory against.
        moved_bytes: The fewest bytes the work must move, to hold the time against a copy of as many.
        share: Part of the work that ``run`` does, where all of it would take too long, or how often it does it; times
            are divided by it.
        kernels: Time what the GPU does alone: ``run`` is captured as a CUDA graph and replayed.
        processes: Time the processor seconds of the processes that ``run`` starts, not the clock on the wall.
        own_times: ``run`` measures by itself: it returns the seconds of each repeat.
    """

    name: str
    run: Callable[[], object] | None
    repeats: int = 5
    skip: str = ""
    num_edges: int = 0
    result_bytes: int = 0
    moved_bytes: float = 0.0
    share: float = 1.0
    kernels: bool = False
    processes: bool = False
    own_times: bool = False


Build = Callable[[str, Path | None], Iterator[Contender]]


@dataclass(frozen=True)
class Case:
    """A named problem; ``build(device, data_root)`` makes its contenders after a correctness gate.

    The first is ours, against which the others are held.
    """

    name: str
    title: str
    build: Build
    needs_gpu: bool = False


def missing(package: str) -> str:
    """Why a peer cannot run here; empty if it is installed."""
    return "" if find_spec(package) else f"{package} is not installed"
