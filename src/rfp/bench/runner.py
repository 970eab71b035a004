"""Run cases, print ratios, write the result file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rfp.bench.cases import CASES, Contender
from rfp.bench.environment import environment, slug
from rfp.bench.measure import Timing, copy_bandwidth, measure
from rfp.bench.peak import peak_bytes


@dataclass(frozen=True)
class Row:
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


def run(
    names: list[str], device: str, data_root: Path | None, say: Callable[[str], None]
) -> tuple[list[Row], dict[str, str]]:
    """Measure the named cases on the device; ``say`` hears each line of progress.

    ``ratio`` is the contender's time over ours, from the same run.
    """
    facts = environment(device)
    facts["copy_gb_per_s"] = f"{copy_bandwidth(device) / 1e9:.1f}"
    rows: list[Row] = []
    for name in names:
        say(f"{name}: {CASES[name].title}")
        ours: float | None = None
        for contender in CASES[name].build(device, data_root):
            if contender.run is None:
                say(f"  {contender.name}: skipped, {contender.skip}")
                rows.append(_skipped(name, contender))
                continue
            warm_up = int(contender.repeats > 1)  # what takes minutes is run once
            timing = measure(contender.run, device=device, repeats=contender.repeats, warm_up=warm_up)
            ours = timing.seconds if ours is None else ours
            peak = _peak(name, contender, timing, device, data_root)
            rows.append(_row(name, contender, timing, ours, peak))
            say(f"  {contender.name}: {timing.seconds:.4g} s, {timing.seconds / ours:.2f}x ours")
    return rows, facts


def _skipped(case: str, contender: Contender) -> Row:
    return Row(case, contender.name, None, None, None, 0, None, None, None, contender.num_edges, contender.skip)


def _peak(case: str, contender: Contender, timing: Timing, device: str, data_root: Path | None) -> int:
    """Bytes above the start: as the allocator counts them on a GPU; on a CPU of our own contender, in a new process."""
    if device == "cuda":
        return timing.peak_bytes
    return peak_bytes(case, data_root) if contender.result_bytes else 0


def _row(case: str, contender: Contender, timing: Timing, ours: float, peak: int) -> Row:
    over = peak / contender.result_bytes if contender.result_bytes and peak else None
    return Row(
        case=case,
        name=contender.name,
        seconds=round(timing.seconds, 6),
        fastest=round(timing.fastest, 6),
        slowest=round(timing.slowest, 6),
        repeats=timing.repeats,
        ratio=None if contender.num_edges else round(timing.seconds / ours, 3),
        peak_mib=round(peak / 2**20, 1) if peak else None,
        peak_over_result=None if over is None else round(over, 3),
        num_edges=contender.num_edges,
        skipped="",
    )


def slope(rows: list[Row]) -> float | None:
    """The log-log slope of time against edges over the scaling rows; 1 is linear."""
    points = [(row.num_edges, row.seconds) for row in rows if row.num_edges and row.seconds]
    if len(points) < 2:
        return None
    edges, seconds = np.log10(np.array(points, dtype=float)).T
    return float(np.polyfit(edges, seconds, 1)[0])


def write(rows: list[Row], facts: dict[str, str], folder: Path, device: str) -> Path:
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


def read(path: Path) -> list[Row]:
    """The rows of a result file."""

    def number(text: str) -> float | None:
        return float(text) if text else None

    return [
        Row(
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
        )
        for line in _read(path)
    ]
