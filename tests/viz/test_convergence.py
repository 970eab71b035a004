"""The picture of convergence: what is drawn is what was measured."""

from __future__ import annotations

import io
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure

from rfp.theory import convergence
from rfp.viz.convergence import draw_angle_curves, draw_ritz_curves, plot_convergence, predicted_angles


@pytest.fixture(scope="module")
def result():  # type: ignore[no-untyped-def]
    return convergence(nx.planted_partition_graph(3, 20, 0.6, 0.02, seed=0), num_channels=3, num_steps=30)


def test_angles_are_drawn_with_the_predicted_slope(result) -> None:  # type: ignore[no-untyped-def]
    axes = Figure().subplots()
    draw_angle_curves(axes, result)
    *measured, predicted = axes.get_lines()
    assert len(measured) == 3
    np.testing.assert_allclose(measured[-1].get_ydata(), result.angles[:, -1].clamp_min(1e-16))
    steps, values = predicted.get_data()
    np.testing.assert_allclose(np.diff(np.log(values)) / np.diff(steps), np.log(result.rate))
    assert axes.get_yscale() == "log"


def test_no_line_where_nothing_settles() -> None:
    stalled = convergence(nx.path_graph(6), num_channels=2, num_steps=1)
    assert predicted_angles(stalled) is None
    at_once = convergence(nx.complete_graph(5), operator="adjacency", num_channels=1, num_steps=30)
    assert predicted_angles(at_once) is not None
    tied = convergence(nx.complete_graph(5), operator="adjacency", num_channels=2, num_steps=5)
    assert predicted_angles(tied) is None  # the dominant space is everything: there is no rate


def test_ritz_values_are_drawn_until_they_settle(result) -> None:  # type: ignore[no-untyped-def]
    axes = Figure().subplots()
    draw_ritz_curves(axes, result)
    curves = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert len(curves) == 3
    drawn = len(curves[0].get_xdata())
    assert 5 < drawn < 31
    np.testing.assert_allclose(curves[1].get_ydata(), result.ritz_values[:drawn, 1])
    assert abs(float(result.ritz_values[drawn - 1, 1] - result.eigenvalues[1])) < 1e-3


def test_files(result, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    plot_convergence(result, tmp_path / "angles.svg", title="three groups")
    assert (tmp_path / "angles.svg").read_text().lstrip().startswith("<?xml")
    buffer = io.BytesIO()
    plot_convergence(result, buffer)
    assert buffer.getvalue().startswith(b"\x89PNG")
    tied = convergence(nx.cycle_graph(9), operator="adjacency", num_channels=2, num_steps=40)
    plot_convergence(tied, tmp_path / "tie.png")
    assert (tmp_path / "tie.png").stat().st_size > 10_000
