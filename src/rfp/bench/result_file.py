"""Rows of a benchmark, the file that keeps them, and what became slower since another one."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rfp.atomic import atomic_files
from rfp.environment import slug
from rfp.errors import FileError

# Name of the row of a case that could not go on.
STOPPED = "stopped"


@dataclass(frozen=True)
class BenchRow:
    """One line of a result file; ``seconds`` is empty and ``skipped`` says why where nothing was measured.

    ``noisy``: its repeats did not agree (:func:`rfp.bench.measure.spread`).
    """

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
    noisy: bool = False


def is_detail(row: BenchRow) -> bool:
    """Whether a row measures a part of the work, or another work: for those who look for where the time goes."""
    return row.name.endswith((", l2", ", none")) or ", one product" in row.name or ", one normalisation" in row.name


def scaling_slope(rows: list[BenchRow]) -> float | None:
    """The log-log slope of time against edges over the scaling rows, from 10^6 on, where start-up no longer counts."""
    scaling = [row for row in rows if row.case == "scaling" and row.num_edges >= 10**6]
    points = [(row.num_edges, row.seconds) for row in scaling if row.seconds]
    if len(points) < 2:
        return None
    edges, seconds = np.log10(np.array(points, dtype=float)).T
    return float(np.polyfit(edges, seconds, 1)[0])


def write_rows(
    rows: list[BenchRow], facts: dict[str, str], folder: Path, device: str, *, keep_others: bool = False
) -> Path:
    """``<folder>/<machine>.csv``: the rows, each with the environment it was measured in.

    Rows of other cases stay; with ``keep_others`` also those of other contenders of the same case.
    """
    path = folder / f"{slug(device)}.csv"
    _replace(path, rows, facts, keep_others=keep_others)
    _replace(_under_way(path), [], facts, without={row.case for row in rows})
    return path


def write_under_way(rows: list[BenchRow], facts: dict[str, str], folder: Path, device: str) -> Path:
    """Rows of a case that is not complete: ``<machine>-cut.csv``, until :func:`write_rows` has all of them.

    Beside peers of another run they would say nothing.
    """
    path = _under_way(folder / f"{slug(device)}.csv")
    _replace(path, rows, facts)
    return path


def _under_way(path: Path) -> Path:
    return path.with_name(f"{path.stem}-cut.csv")


def _replace(
    path: Path,
    rows: list[BenchRow],
    facts: dict[str, str],
    *,
    without: Collection[str] = (),
    keep_others: bool = False,
) -> None:
    """Put rows in the place of those of their cases, or of their names alone; a file without rows is removed."""
    cases, names = {*without, *(row.case for row in rows)}, {(row.case, row.name) for row in rows}
    lines = [
        old
        for old in (_read(path) if path.exists() else ())
        if old["case"] not in cases or (keep_others and (old["case"], old["name"]) not in names)
    ]
    lines += [{**row.__dict__, **facts} for row in rows]
    if not lines:
        path.unlink(missing_ok=True)
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(lines[-1]), restval="", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_files([path]) as (file,):
        file.write(text.getvalue().encode())


def _read(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="") as file:
            lines = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path}: cannot be read as a result file of rfp bench: {error}") from error
    if not lines or not {"case", "name", "seconds", "device"} <= set(lines[0]):
        raise FileError(f"{path}: not a result file of rfp bench; its columns begin with case, name, seconds")
    return lines


def machine(path: Path) -> str:
    """The device on which a result file was made."""
    return _read(path)[0]["device"]


def read_rows(path: Path) -> list[BenchRow]:
    """The rows of a result file."""

    def number(text: str | None) -> float | None:
        try:
            return float(text) if text else None
        except ValueError as error:
            raise FileError(f"{path}: {text!r} stands where a number should; write it anew by rfp bench") from error

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
            noisy=line.get("noisy") == "True",
        )
        for line in _read(path)
    ]


def changes(old: list[BenchRow], new: list[BenchRow], *, same_machine: bool = True) -> tuple[list[str], list[str]]:
    """What became slower, and what faster: one line each, for the rows that both files have.

    On the same machine a row changed when the times of its repeats do not overlap. Times of different machines say
    nothing about the code: there ``ratio`` (the peer's time over ours in the same run) is compared, and a tenth counts.
    """
    before = {(row.case, row.name): row for row in old}
    slower, faster = [], []
    for row in new:
        past = before.get((row.case, row.name))
        if past is None or past.seconds is None or row.seconds is None:
            continue
        if same_machine:
            line = f"{row.case}, {row.name}: {past.seconds:.4g} s before, {row.seconds:.4g} s now"
            line += f" ({row.seconds / past.seconds:.2f}x)" + (", noisy" if row.noisy or past.noisy else "")
            is_slower = (row.fastest or row.seconds) > (past.slowest or past.seconds)
            is_faster = (row.slowest or row.seconds) < (past.fastest or past.seconds)
        elif past.ratio and row.ratio:
            line = f"{row.case}, {row.name}: {past.ratio:.3g}x ours before, {row.ratio:.3g}x now"
            is_slower, is_faster = row.ratio < 0.9 * past.ratio, row.ratio > 1.1 * past.ratio
        else:
            continue
        if is_slower:
            slower.append(line)
        elif is_faster:
            faster.append(line)
    return slower, faster
