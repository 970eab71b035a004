"""The bar chart of contenders and the scaling plot, from a result file."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from rfp.errors import MissingExtraError

_OURS, _PEER = "#1b6ca8", "#c9ced6"


def plot(results: Path, picture: Path) -> Path:
    """Draw every case of a result file: bars for contenders, a log-log line for scaling."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli", "drawing a benchmark") from error
    from rfp.bench.cases import CASES
    from rfp.bench.runner import read, slope

    rows = [row for row in read(results) if row.seconds is not None]
    cases: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        cases[row.case].append(row)
    figure = Figure(figsize=(5.2 * len(cases), 3.6), layout="constrained")
    for axes, (name, measured) in zip(figure.subplots(1, len(cases), squeeze=False)[0], cases.items(), strict=True):
        if measured[0].num_edges:
            _line(axes, measured, slope(measured))
        else:
            _bars(axes, measured)
        axes.set_title(CASES[name].title, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)
    return picture


def _bars(axes: Any, rows: list[Any]) -> None:
    names = [row.name for row in rows]
    seconds = [row.seconds for row in rows]
    axes.barh(names[::-1], seconds[::-1], color=[_PEER] * (len(rows) - 1) + [_OURS])
    for place, row in enumerate(rows[::-1]):
        times = "" if row.ratio == 1 else f"  ({row.ratio:.1f}×)"
        axes.text(row.seconds * 1.05, place, f"{row.seconds:.3g} s{times}", va="center", fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(min(seconds) / 2, max(seconds) * 12)
    axes.set_xlabel("seconds (log scale)")
    axes.tick_params(labelsize=8)


def _line(axes: Any, rows: list[Any], fitted: float | None) -> None:
    edges, seconds = [row.num_edges for row in rows], [row.seconds for row in rows]
    axes.loglog(edges, seconds, "o-", color=_OURS, label=f"measured, slope {fitted:.2f}" if fitted else "measured")
    axes.loglog(edges, [seconds[0] * e / edges[0] for e in edges], "--", color="0.6", label="linear")
    axes.set_xlabel("undirected edges")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False, fontsize=8)
