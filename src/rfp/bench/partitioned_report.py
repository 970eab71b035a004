"""What the rows of ``rfp bench partitioned`` say: tables, the growth with its slope, and a forecast on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rfp.bench.partitioned import Measured
from rfp.durations import spoken

# Bytes a second of a network of 10 Gbit/s.
_NETWORK = 1.25e9


def growth_slope(rows: Sequence[Measured], phase: str = "all") -> float | None:
    """The log-log slope of time against non-zeros, from 10^6 on, where start-up no longer counts."""
    points = [(row.num_entries, row.seconds) for row in growth(rows, phase) if row.num_nodes > 20_000]
    if len(points) < 2:
        return None
    entries, seconds = np.log10(np.array(points)).T
    return float(np.polyfit(entries, seconds, 1)[0])


def growth(rows: Sequence[Measured], phase: str) -> list[Measured]:
    """The rows of the growing graphs, one phase of them, the last measurement of each, by size."""
    latest = {row.name: row for row in rows if row.case == "growth" and row.phase == phase}
    return sorted(latest.values(), key=lambda row: row.num_entries)


def plot_growth(rows: Sequence[Measured], path: Path) -> None:
    """Time against non-zeros, both logarithmic, of preparing, of the steps and of all."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
    for phase, mark in (("prepare", "o"), ("steps", "s"), ("all", "^")):
        points = [(row.num_entries, row.seconds) for row in growth(rows, phase)]
        found = growth_slope(rows, phase)
        label = phase if found is None else f"{phase}, slope {found:.2f}"
        axes.loglog(*zip(*points, strict=True), marker=mark, label=label)
    axes.set(xlabel="non-zeros", ylabel="seconds")
    axes.legend()
    axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=150)
    plt.close(figure)


@dataclass(frozen=True)
class Forecast:
    """A step on several machines, on paper.

    Args:
        work_seconds: What each machine's part of the products takes.
        network_seconds: To read the state over the network.
        machine_bytes: What each machine reads over the network in a step: the whole state.
        network_bytes: What all machines read.
    """

    work_seconds: float
    network_seconds: float
    machine_bytes: float
    network_bytes: float

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.work_seconds + self.network_seconds


def forecast(
    rows: Sequence[Measured], *, num_nodes: float, num_entries: float, channels: int, machines: int
) -> Forecast:
    r"""What a step would take on several such machines, on paper, from the largest graph that was measured.

    .. math:: T = \frac{T_1}{M} \cdot \frac{(m + n) k}{(m_1 + n_1) k_1} + \frac{V}{1.25 \cdot 10^9}, \qquad V = 4 n k,

    each machine reads all of the state once (V bytes over a network of 10 Gbit/s). That it writes its own rows and
    reads them again, 1/M of V a few times, is within :math:`T_1`, where a disk took the place of the network.
    """
    largest = growth(rows, "steps")[-1]
    one = largest.seconds / largest.steps / ((largest.num_entries + largest.num_nodes) * largest.channels)
    volume = 4.0 * num_nodes * channels
    work = one * (num_entries + num_nodes) * channels / machines
    return Forecast(work, volume / _NETWORK, volume, volume * machines)


# Name -> nodes and non-zeros: ogbn-papers100M made undirected, and a graph of so many edges with 20 a node.
FORECAST_GRAPHS = {"ogbn-papers100M": (111_059_956, 2 * 1_615_685_872), "10¹¹ edges": (5_000_000_000, 200_000_000_000)}


def forecast_table(rows: Sequence[Measured], channels: int = 64) -> str:
    """Markdown: a step of each graph of :data:`FORECAST_GRAPHS` on 10 and 100 machines; preparing on one."""
    lines = [
        f"| graph, k = {channels} | machines | work | network at 10 Gbit/s | a step | read by each | in all |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (nodes, entries) in FORECAST_GRAPHS.items():
        for machines in (10, 100):
            found = forecast(rows, num_nodes=nodes, num_entries=entries, channels=channels, machines=machines)
            times = " | ".join(spoken(t) for t in (found.work_seconds, found.network_seconds, found.seconds))
            volumes = f"{size(found.machine_bytes)} | {size(found.network_bytes)}"
            lines.append(f"| {name} | {machines} | {times} | {volumes} |")
    largest = growth(rows, "prepare")[-1]
    alone = [
        f"{spoken(largest.seconds / largest.num_entries * entries)} ({name})"
        for name, (_, entries) in FORECAST_GRAPHS.items()
    ]
    return "\n".join(
        [
            *lines,
            "",
            f"Preparing is the work of one machine. At the {largest.seconds / largest.num_entries * 1e9:.0f} ns a "
            f"non-zero of the largest measured graph it would take {' and '.join(alone)}, the disk allowing.",
        ]
    )


def growth_table(rows: Sequence[Measured]) -> str:
    """Markdown: the growing graphs, time and peak memory of each phase."""
    lines = [
        "| nodes | non-zeros | preparing | its peak memory | steps | their peak memory | in all |",
        "|---|---|---|---|---|---|---|",
    ]
    for prepare, steps, both in zip(*(growth(rows, phase) for phase in ("prepare", "steps", "all")), strict=True):
        lines.append(
            f"| {both.num_nodes:,} | {both.num_entries:,} | {spoken(prepare.seconds)} | {memory(prepare)} | "
            f"{spoken(steps.seconds)} | {memory(steps)} | {spoken(both.seconds)} |"
        )
    return "\n".join(lines)


def pair_table(rows: Sequence[Measured], case: str) -> str:
    """Markdown: the rows of ``"limit"`` or ``"workers"``, the steps alone, against the first of them."""
    latest = {row.name: row for row in rows if row.case == case and row.phase == "steps"}
    lines = [
        "| | steps | against the first | CPU time | against the first | peak memory |",
        "|---|---|---|---|---|---|",
    ]
    first = next(iter(latest.values()))
    for row in latest.values():
        lines.append(
            f"| {row.name}{f' ({row.limit})' if row.limit else ''} | {spoken(row.seconds)} | "
            f"{row.seconds / first.seconds:.2f}× | {spoken(row.cpu_seconds)} | "
            f"{row.cpu_seconds / first.cpu_seconds:.2f}× | {memory(row)} |"
        )
    return "\n".join(lines)


def size(num_bytes: float) -> str:
    """For people.

    >>> size(28.4e9), size(128e12)
    ('28 GB', '128 TB')
    """
    return f"{num_bytes / 1e12:.3g} TB" if num_bytes >= 1e12 else f"{num_bytes / 1e9:.0f} GB"


def memory(row: Measured) -> str:
    """Peak memory of a row."""
    return f"{row.peak_mib / 1024:.1f} GiB" if row.peak_mib >= 1000 else f"{row.peak_mib:.0f} MiB"
