"""Scores against k, P or another value, ours and the paper's, one panel a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rfp.errors import ArgumentError, MissingExtraError

_OURS, _PAPER = "#1b6ca8", "0.55"
_MAX_COLUMNS = 3


@dataclass(frozen=True)
class Curve:
    """One data set.

    Args:
        title: Its name.
        higher_is_better: Direction of the score.
        ours: (value, mean, deviation) points; the deviation may be NaN.
        paper: (value, mean) points.
    """

    title: str
    higher_is_better: bool
    ours: tuple[tuple[int | str, float, float], ...] = ()
    paper: tuple[tuple[int | str, float], ...] = ()


def plot_ablation(curves: Sequence[Curve], picture: str | Path | IO[bytes], *, letter: str, title: str = "") -> None:
    """Write a picture with one panel for each curve.

    Args:
        curves: At least one with a point.
        picture: File name (.png, .svg, .pdf) or open binary file, which gets a PNG.
        letter: What varies: ``"k"``, ``"P"``, ``"start"``.
        title: Above the panels.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli", "drawing an ablation") from error
    shown = [curve for curve in curves if curve.ours or curve.paper]
    if not shown:
        raise ArgumentError("there is nothing to draw: no curve has a point")
    columns = min(_MAX_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.6 * rows + 0.4), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes, curve in zip(panels, shown, strict=False):
        draw_curve(axes, curve, letter)
    for axes in list(panels)[len(shown) :]:
        axes.set_visible(False)
    if title:
        figure.suptitle(title, fontsize=10)
    figure.savefig(picture, dpi=150, format=None if isinstance(picture, str | Path) else "png")


def draw_curve(axes: Any, curve: Curve, letter: str) -> None:
    """Ours with error bars of one deviation, the paper's dashed; numbers are powers of two, words have no order."""
    values = {point[0] for point in (*curve.ours, *curve.paper)}
    named = any(isinstance(value, str) for value in values)
    if curve.paper:
        axes.plot(*zip(*curve.paper, strict=True), "s--", color=_PAPER, ms=3.5, lw=1.2, label="paper")
    if curve.ours:
        places, means, deviations = zip(*curve.ours, strict=True)
        errors = [0.0 if deviation != deviation else deviation for deviation in deviations]  # NaN: one run
        axes.errorbar(
            places, means, errors, fmt="o" if named else "o-", color=_OURS, ms=4, lw=1.5, capsize=2, label="ours"
        )
    if named:
        axes.margins(x=0.15)
    else:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted(values), [str(value) for value in sorted(values)])
        axes.minorticks_off()
    axes.set_xlabel(letter)
    axes.set_title(f"{curve.title} {'↑' if curve.higher_is_better else '↓'}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.93")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.legend(frameon=False, fontsize=8)
