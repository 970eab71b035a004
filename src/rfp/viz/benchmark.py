"""The bar charts of contenders and the scaling plot, from result files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from rfp.errors import MissingExtraError

_OURS, _PEER = "#1b6ca8", "#c9ced6"
_LINES = ("#1b6ca8", "#c2571a", "#3d8b57", "#7a4fa3")


def plot_benchmark(results: Path | Sequence[Path], picture: Path) -> Path:
    """Draw every case of the result files: bars for contenders, a log-log line for each machine's scaling."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli", "drawing a benchmark") from error
    from rfp.bench.cases import CASES
    from rfp.bench.result_file import is_detail, machine, read_rows

    paths = [results] if isinstance(results, Path) else list(results)
    panels: dict[tuple[str, str], list[Any]] = defaultdict(list)
    lines: dict[str, list[Any]] = defaultdict(list)
    for path in paths:
        for row in read_rows(path):
            if row.seconds is None or row.case not in CASES or is_detail(row):
                continue
            if row.case == "scaling":
                lines[machine(path)].append(row)
            elif not row.num_edges:  # times of other sizes are no bars beside each other
                panels[row.case, machine(path)].append(row)
    bars = [(name, where, rows) for (name, where), rows in panels.items() if len(rows) > 1]
    count = len(bars) + bool(lines)
    columns = (2 if count in (2, 4) else min(count, 3)) or 1
    height = -(-count // columns) or 1
    figure = Figure(figsize=(5.6 * columns, 3.6 * height), layout="constrained")
    axes = list(figure.subplots(height, columns, squeeze=False).flat)
    for spot, (name, where, rows) in zip(axes, bars, strict=False):
        _bars(spot, rows)
        spot.set_title(fill(CASES[name].title, 54) + (f"\n{where}" if len(paths) > 1 else ""), fontsize=9)
    if lines:
        _lines(axes[len(bars)], lines, alone=len(paths) == 1)
    for spot in axes[:count]:
        spot.spines[["top", "right"]].set_visible(False)
    for spot in axes[count:]:
        spot.set_axis_off()
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=130)
    return picture


def _bars(axes: Any, rows: list[Any]) -> None:
    names = [fill(row.name, 34) for row in rows]
    seconds = [row.seconds for row in rows]
    colors = [_OURS if name.startswith("rfp") else _PEER for name in names]
    axes.barh(names[::-1], seconds[::-1], color=colors[::-1])
    for place, row in enumerate(rows[::-1]):
        times = (
            ""
            if row.name.startswith("rfp")
            else f"  ({row.ratio:,.0f}×)"
            if row.ratio >= 100
            else f"  ({row.ratio:.3g}×)"
        )
        axes.text(row.seconds * 1.05, place, f"{_short(row.seconds)}{times}", va="center", fontsize=7)
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 20)
    axes.xaxis.set_minor_formatter("")  # within a decade the labels of all of them would run into one another
    axes.set_xlabel("seconds (log scale)", fontsize=8)
    axes.tick_params(labelsize=7)


def _short(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _lines(axes: Any, machines: dict[str, list[Any]], alone: bool) -> None:
    from rfp.bench.cases import CASES
    from rfp.bench.result_file import scaling_slope

    for color, (where, rows) in zip(_LINES, machines.items(), strict=False):
        edges, seconds = [row.num_edges for row in rows], [row.seconds for row in rows]
        fitted = scaling_slope(rows)
        label = ("measured" if alone else where) + ("" if fitted is None else f", slope {fitted:.2f}")
        axes.loglog(edges, seconds, "o-", color=color, label=label)
        axes.loglog(edges, [seconds[-1] * e / edges[-1] for e in edges], "--", color="0.7")
    axes.set_title(CASES["scaling"].title if "scaling" in CASES else "scaling", fontsize=9)
    axes.set_xlabel("undirected edges (dashed: linear)", fontsize=8)
    axes.set_ylabel("seconds", fontsize=8)
    axes.legend(frameon=False, fontsize=8)
