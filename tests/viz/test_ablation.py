"""The picture of an ablation: what is drawn is what was given."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from rfp.errors import ArgumentError
from rfp.viz.ablation import Curve, draw_curve, plot_ablation

CURVE = Curve("Cora", True, ((4, 86.0, 1.0), (16, 87.5, math.nan), (64, 88.0, 0.5)), ((4, 86.93), (64, 87.99)))


def test_points_and_error_bars() -> None:
    axes = Figure().subplots()
    draw_curve(axes, CURVE, "k")
    paper, ours = axes.get_lines()[0], axes.get_lines()[1]
    assert list(paper.get_xdata()) == [4, 64]
    assert list(paper.get_ydata()) == [86.93, 87.99]
    assert list(ours.get_xdata()) == [4, 16, 64]
    assert list(ours.get_ydata()) == [86.0, 87.5, 88.0]
    (bars,) = axes.collections
    heights = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    assert heights == pytest.approx([2.0, 0.0, 1.0])  # one run has no deviation
    assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "16", "64"]
    assert axes.get_title() == "Cora ↑"
    assert axes.get_xlabel() == "k"


def test_words_are_places_without_a_line_between() -> None:
    figure = Figure()
    axes = figure.subplots()
    draw_curve(axes, Curve("ZINC", False, (("drawn", 0.2, 0.01), ("orthonormal", 0.1, math.nan))), "start")
    ours = axes.get_lines()[0]
    assert ours.get_linestyle() == "None"
    assert list(ours.get_ydata()) == [0.2, 0.1]
    figure.canvas.draw()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["drawn", "orthonormal"]


def test_files_and_empty_curves(tmp_path: Path) -> None:
    plot_ablation(
        [CURVE, Curve("empty", True), Curve("Star", False, ((4, 0.1, 0.01),))], tmp_path / "a.png", letter="k"
    )
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    buffer = io.BytesIO()
    plot_ablation([CURVE] * 4, buffer, letter="P", title="four panels in two rows")
    assert buffer.getvalue().startswith(b"\x89PNG")
    with pytest.raises(ArgumentError, match="nothing to draw"):
        plot_ablation([Curve("empty", True)], tmp_path / "b.png", letter="k")
