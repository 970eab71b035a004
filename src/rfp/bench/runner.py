"""Run cases, print ratios, write the result file."""

from __future__ import annotations

import csv
import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from rfp.bench.cases import CASES
from rfp.bench.contender import Contender
from rfp.bench.gate import GateError
from rfp.bench.measure import Timing, copy_bandwidth, measure, measure_kernels
from rfp.bench.peak import peak_bytes
from rfp.environment import environment, slug

# Name of the row of a case that could not go on.
STOPPED = "stopped"


@dataclass(frozen=True)
class BenchRow:
    """One line of a result file; ``seconds`` is empty and ``skipped`` says why where nothing was measured."""

    case: str
    name: str
    seconds: float | None
    fastest: float | None
    slowest: float | None
    repeats: int
    ratio: float | None
    peak_mib: float | None
    peak_over_result: float | None
    num_edges: int
    skipped: str
    moved_gb: float | None = None
    times_copy: float | None = None


def run_cases(
    names: list[str],
    device: str,
    data_root: Path | None,
    say: Callable[[str], None],
    keep: Callable[[list[BenchRow], dict[str, str]], object] | None = None,
) -> tuple[list[BenchRow], dict[str, str]]:
    """Measure the named cases; ``say`` hears each line of progress, ``keep`` gets all rows after each case.

    A case whose gate finds an error, or that does not fit in memory, is stopped there and says so in a row.

    ``ratio`` is the contender's time over ours, ``times_copy`` its time over that of a copy which moves as many bytes
    as the work must, both from the same run.
    """
    facts = environment(device)
    bandwidth = copy_bandwidth(device)
    facts["copy_gb_per_s"] = f"{bandwidth / 1e9:.1f}"
    rows: list[BenchRow] = []
    for name in names:
        say(f"{name}: {CASES[name].title}")
        if CASES[name].needs_gpu and device != "cuda":
            rows.append(_skipped(name, Contender("rfp", None, skip="needs a GPU")))
            say("  skipped, it needs a GPU")
            continue
        try:
            _run_case(name, device, data_root, bandwidth, say, rows)
        except (GateError, torch.OutOfMemoryError) as error:
            reason = str(error).splitlines()[0]
            say(f"  stopped: {reason}")
            rows.append(_skipped(name, Contender(STOPPED, None, skip=f"{type(error).__name__}: {reason}")))
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
        if keep is not None:
            keep(rows, facts)
    return rows, facts


def _run_case(
    name: str, device: str, data_root: Path | None, bandwidth: float, say: Callable[[str], None], rows: list[BenchRow]
) -> None:
    """Measure the contenders of one case; every row is kept as it comes."""
    ours: float | None = None
    for contender in CASES[name].build(device, data_root):
        if contender.run is None:
            say(f"  {contender.name}: skipped, {contender.skip}")
            rows.append(_skipped(name, contender))
            continue
        timing = _timed(contender, device)
        ours = timing.seconds if ours is None else ours
        peak = _peak(name, contender, timing, device, data_root)
        row = _row(name, contender, timing, ours, peak, bandwidth)
        rows.append(row)
        copies = "" if row.times_copy is None else f", {row.times_copy:.2f}x a copy of its bytes"
        say(f"  {contender.name}: {timing.seconds:.4g} s, {timing.seconds / ours:.3g}x ours{copies}")


def _timed(contender: Contender, device: str) -> Timing:
    """Median and spread, of the whole work where a part was run."""
    if contender.run is None:
        raise ValueError(f"{contender.name} has nothing to run")
    if contender.kernels:
        return measure_kernels(contender.run)
    warm_up = int(contender.repeats > 1)  # what takes minutes is run once
    timing = measure(contender.run, device=device, repeats=contender.repeats, warm_up=warm_up)
    whole = (timing.seconds / contender.share, timing.fastest / contender.share, timing.slowest / contender.share)
    return Timing(*whole, timing.repeats, timing.peak_bytes)


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
    )


def is_detail(row: BenchRow) -> bool:
    """Whether a row measures a part of the work, or another work: for those who look for where the time goes."""
    return row.name.endswith((", l2", ", none")) or ", one product" in row.name or ", one normalisation" in row.name


def slope(rows: list[BenchRow]) -> float | None:
    """The log-log slope of time against edges over the scaling rows; 1 is linear."""
    points = [(row.num_edges, row.seconds) for row in rows if row.case == "scaling" and row.num_edges and row.seconds]
    if len(points) < 2:
        return None
    edges, seconds = np.log10(np.array(points, dtype=float)).T
    return float(np.polyfit(edges, seconds, 1)[0])


def write(rows: list[BenchRow], facts: dict[str, str], folder: Path, device: str) -> Path:
    """``<folder>/<machine>.csv``: the rows, each with the environment it was measured in. Rows of other cases stay."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{slug(device)}.csv"
    fresh = [{**row.__dict__, **facts} for row in rows]
    measured = {row.case for row in rows}
    kept = [old for old in _read(path) if old["case"] not in measured] if path.exists() else []
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(fresh[0]), restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows([*kept, *fresh])
    return path


def _read(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


def machine(path: Path) -> str:
    """The device on which a result file was made."""
    return next((line["device"] for line in _read(path)), path.stem)


def read(path: Path) -> list[BenchRow]:
    """The rows of a result file."""

    def number(text: str | None) -> float | None:
        return float(text) if text else None

    return [
        BenchRow(
            case=line["case"],
            name=line["name"],
            seconds=number(line["seconds"]),
            fastest=number(line["fastest"]),
            slowest=number(line["slowest"]),
            repeats=int(line["repeats"]),
            ratio=number(line["ratio"]),
            peak_mib=number(line["peak_mib"]),
            peak_over_result=number(line["peak_over_result"]),
            num_edges=int(line["num_edges"]),
            skipped=line["skipped"],
            moved_gb=number(line.get("moved_gb")),
            times_copy=number(line.get("times_copy")),
        )
        for line in _read(path)
    ]
