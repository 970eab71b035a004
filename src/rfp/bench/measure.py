"""Timing and peak memory of one callable."""

from __future__ import annotations

import gc
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Timing:
    """Median and spread of the repeats, in seconds; peak memory above the start, in bytes (0 if unknown).

    ``noisy``: the repeats did not agree, see :func:`spread`.
    """

    seconds: float
    fastest: float
    slowest: float
    repeats: int
    peak_bytes: int
    noisy: bool = False

    @classmethod
    def of(cls, times: Sequence[float], peak_bytes: int = 0) -> Timing:
        """Of these repeats."""
        return cls(statistics.median(times), min(times), max(times), len(times), peak_bytes, spread(times) > AGREED)


# Repeats agree when the middle half of them lies within this part of the median; until then, and up to so many times
# the repeats that were asked for or these seconds, more are made.
AGREED = 0.05
_MORE = 4
_SECONDS = 60.0
# The first of many short calls are slower than those that follow: they are repeated until they have taken so long, and
# no more often than this.
_LEAST_SECONDS = 0.2
_MOST_SHORT = 50


def spread(times: Sequence[float]) -> float:
    """Distance of the quartiles over the median; 0 for a single time, which says nothing about its spread."""
    if len(times) < 2:
        return 0.0
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return (high - low) / middle if middle else 0.0


def children_seconds() -> float:
    """Processor time of the child processes that have ended: what a start costs, whatever else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(
    function: Callable[[], object],
    *,
    device: str = "cpu",
    repeats: int = 5,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Warm up, then time calls, synchronised, with the result of each call dropped before the next.

    ``repeats`` calls where they agree, up to four times as many, or a minute of them, where they do not. Short ones are
    made more often, up to fifty times in a fifth of a second, unless one alone is asked for.
    """
    for _ in range(warm_up):
        function()
    gc.collect()
    reset_peak(device)
    before = _current_bytes(device)
    times: list[float] = []
    while _goes_on(times, repeats):
        _synchronize(device)
        start = clock()
        result = function()
        _synchronize(device)
        times.append(clock() - start)
        del result
    peak = max(current_peak(device) - before, 0)
    return Timing.of(times, peak)


def _goes_on(times: Sequence[float], repeats: int) -> bool:
    """Whether one more repeat is to be made after these."""
    made, spent = len(times), sum(times)
    if made < repeats or (repeats > 1 and spent < _LEAST_SECONDS and made < _MOST_SHORT):
        return True
    return spread(times) > AGREED and made < _MORE * repeats and spent < _SECONDS


def measure_kernels(function: Callable[[], object], *, repeats: int = 20, inside: int = 5) -> Timing:
    """What the GPU alone takes: ``inside`` calls are captured as a CUDA graph, which is replayed between two events."""
    function()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(inside):
            function()
    times = []
    for _ in range(repeats + 3):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        captured.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) / inside / 1e3)
    return Timing.of(times[3:])  # the first ones warm up


def interleaved(
    works: Mapping[str, Callable[[], object]],
    *,
    device: str = "cpu",
    rounds: int = 10,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of each work in every round, one after the other: for differences of a few percent between them.

    What slows the machine for a while slows all of them. Each round begins with another one, so that none always comes
    after the same.
    """
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(warm_up + rounds):
        first = turn % len(works)
        for name in [*works][first:] + [*works][:first]:
            _synchronize(device)
            start = clock()
            works[name]()
            _synchronize(device)
            if turn >= warm_up:
                times[name].append(clock() - start)
    return times


def copy_bandwidth(device: str = "cpu", num_bytes: int | None = None) -> float:
    """Bytes a second of a large copy, reads and writes both counted: the ceiling for memory-bound code.

    The copy is of half a gigabyte; of four on a GPU, where the waiting for it would else be a part of the time.
    """
    num_bytes = num_bytes or (1 << 32 if device == "cuda" else 1 << 29)
    source = torch.ones(num_bytes // 4, device=device)
    target = torch.empty_like(source)
    timing = measure(lambda: target.copy_(source), device=device, repeats=7, warm_up=2)
    return 2 * num_bytes / timing.seconds


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _proc_status(field: str) -> int:
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        return 0


def reset_peak(device: str) -> None:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return
    try:
        # 5 resets the high-water mark of resident memory (Linux).
        with open("/proc/self/clear_refs", "w") as control:
            control.write("5")
    except OSError:
        return


def _current_bytes(device: str) -> int:
    return torch.cuda.memory_allocated() if device == "cuda" else _proc_status("VmRSS")


def current_peak(device: str) -> int:
    return torch.cuda.max_memory_allocated() if device == "cuda" else _proc_status("VmHWM")
