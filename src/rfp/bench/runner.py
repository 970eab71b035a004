"""Run cases and say their ratios; rows and their file are in :mod:`rfp.bench.result_file`."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch

from rfp.bench.cases import CASES
from rfp.bench.contender import Contender
from rfp.bench.gate import GateError
from rfp.bench.measure import Timing, children_seconds, copy_bandwidth, measure, measure_kernels
from rfp.bench.peak import peak_bytes
from rfp.bench.result_file import STOPPED, BenchRow
from rfp.environment import environment
from rfp.errors import ArgumentError


def run_cases(
    names: list[str],
    device: str,
    data_root: Path | None,
    say: Callable[[str], None],
    keep: Callable[[list[BenchRow], dict[str, str]], object] | None = None,
    only: str = "",
    under_way: Callable[[list[BenchRow], dict[str, str]], object] = lambda rows, facts: None,
) -> tuple[list[BenchRow], dict[str, str]]:
    """Measure the named cases; ``say`` hears each line of progress, ``keep`` gets all rows after each case.

    ``under_way`` gets the rows of the case at hand after each of them, whatever ends it.

    A case whose gate finds an error, or that does not fit in memory, is stopped there and says so in a row. A peer that
    fails, whatever its reason, has a row that says so, and the others are measured.

    ``ratio`` is the contender's time over ours, ``times_copy`` its time over that of a copy which moves as many bytes
    as the work must, both from the same run. ``only`` takes ours and the contenders with that text in their name.
    """
    facts = environment(device)
    bandwidth = copy_bandwidth(device)
    facts["copy_gb_per_s"] = f"{bandwidth / 1e9:.1f}"
    rows: list[BenchRow] = []
    for name in names:
        say(f"{name}: {CASES[name].title}")
        num_before = len(rows)
        if CASES[name].needs_gpu and device != "cuda":
            rows.append(_skipped(name, Contender("rfp", None, skip="needs a GPU")))
            say("  skipped, it needs a GPU")
            continue
        try:
            for row in _rows_of(name, device, data_root, bandwidth, say, only):
                rows.append(row)
                under_way(rows[num_before:], facts)
        except (GateError, torch.OutOfMemoryError) as error:
            reason = str(error).splitlines()[0]
            say(f"  stopped: {reason}")
            rows.append(_skipped(name, Contender(STOPPED, None, skip=f"{type(error).__name__}: {reason}")))
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
        if keep is not None:
            keep(rows, facts)
    if only and not any(only.lower() in row.name.lower() for row in rows):
        raise ArgumentError(f"no contender of {', '.join(names)} has {only!r} in its name; leave --only out to see all")
    return rows, facts


def _rows_of(
    name: str, device: str, data_root: Path | None, bandwidth: float, say: Callable[[str], None], only: str
) -> Iterator[BenchRow]:
    """Measure the contenders of one case, one after the other."""
    ours: float | None = None
    for contender in CASES[name].build(device, data_root):
        if ours is not None and only.lower() not in contender.name.lower():
            continue
        if contender.run is None:
            say(f"  {contender.name}: skipped, {contender.skip}")
            yield _skipped(name, contender)
            continue
        try:
            timing = _timed(contender, device)
        except Exception as error:
            if contender.name.startswith("rfp"):  # ours must run
                raise
            reason = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            say(f"  {contender.name}: failed, {reason}")
            yield _skipped(name, replace(contender, skip=f"failed: {reason}"))
            continue
        ours = timing.seconds if ours is None else ours
        peak = _peak(name, contender, timing, device, data_root)
        row = _row(name, contender, timing, ours, peak, bandwidth)
        copies = "" if row.times_copy is None else f", {row.times_copy:.2f}x a copy of its bytes"
        doubt = f", noisy: {timing.fastest:.4g} to {timing.slowest:.4g} s" if timing.noisy else ""
        say(f"  {contender.name}: {timing.seconds:.4g} s, {timing.seconds / ours:.3g}x ours{copies}{doubt}")
        yield row


def _timed(contender: Contender, device: str) -> Timing:
    """Median and spread, of the whole work where a part was run."""
    if contender.run is None:
        raise ValueError(f"{contender.name} has nothing to run")
    if contender.kernels:
        return measure_kernels(contender.run)
    if contender.own_times:
        return Timing.of([seconds / contender.share for seconds in cast("list[float]", contender.run())])
    warm_up = int(contender.repeats > 1)  # what takes minutes is run once
    clock = children_seconds if contender.processes else time.perf_counter
    timing = measure(contender.run, device=device, repeats=contender.repeats, warm_up=warm_up, clock=clock)
    whole = (timing.seconds / contender.share, timing.fastest / contender.share, timing.slowest / contender.share)
    return Timing(*whole, timing.repeats, timing.peak_bytes, timing.noisy)


def _skipped(case: str, contender: Contender) -> BenchRow:
    return BenchRow(case, contender.name, None, None, None, 0, None, None, None, contender.num_edges, contender.skip)


def _peak(case: str, contender: Contender, timing: Timing, device: str, data_root: Path | None) -> int:
    """Bytes above the start: as the allocator counts them on a GPU; on a CPU of our own contender, in a new process.

    Contenders of growing size have theirs from the resident memory of this process, which the largest one decides.
    """
    if device == "cuda" or contender.num_edges:
        return timing.peak_bytes
    return peak_bytes(case, data_root) if contender.result_bytes else 0


def _row(case: str, contender: Contender, timing: Timing, ours: float, peak: int, bandwidth: float) -> BenchRow:
    over = peak / contender.result_bytes if contender.result_bytes and peak else None
    copy = contender.moved_bytes / bandwidth
    return BenchRow(
        case=case,
        name=contender.name,
        seconds=round(timing.seconds, 7),
        fastest=round(timing.fastest, 7),
        slowest=round(timing.slowest, 7),
        repeats=timing.repeats,
        ratio=None if contender.num_edges else round(timing.seconds / ours, 4),
        peak_mib=round(peak / 2**20, 1) if peak else None,
        peak_over_result=None if over is None else round(over, 3),
        num_edges=contender.num_edges,
        skipped="",
        moved_gb=round(contender.moved_bytes / 1e9, 4) if copy else None,
        times_copy=round(timing.seconds / copy, 3) if copy else None,
        noisy=timing.noisy,
    )
