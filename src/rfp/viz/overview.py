"""One figure of everything: the graph at chosen steps, the scatter of two channels, the angles."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.errors import ArgumentError, GraphError, MissingExtraError
from rfp.trajectory import Trajectory
from rfp.viz.node_positions import positions as lay_out
from rfp.viz.trajectory_plots import draw_angles, draw_dependent, draw_graph, draw_ritz_values, draw_scatter, graph_of

_MOST_STEPS = 8


def chosen_steps(num_steps: int) -> list[int]:
    """The steps shown if none are named: the random start, the first, two between, the last.

    >>> chosen_steps(16), chosen_steps(1), chosen_steps(0)
    ([0, 1, 4, 16], [0, 1], [0])
    """
    middle = max(1, round(num_steps**0.5))
    return sorted({0, min(1, num_steps), min(middle, num_steps), num_steps})


def overview(
    trajectory: Trajectory,
    *,
    steps: Sequence[int] | None = None,
    channel: int = 0,
    second: int | None = None,
    operator: int = 0,
    index: int = 0,
    positions: NDArray[np.float32] | None = None,
    title: str = "",
) -> Any:
    """Draw a trajectory in one figure: coloured graphs above; scatter, angles, Ritz values or dependent columns below.

    Args:
        trajectory: What :func:`rfp.encode` returned.
        steps: Steps at which the graph is drawn, at most eight.
        channel: The channel that colours the nodes.
        second: The other channel of the scatter; the next one if not given.
        operator: From 0, if there are several.
        index: Which of the B trajectories, from 0.
        positions: ``[n, 2]``; laid out if not given.
        title: Above everything.

    Returns:
        The matplotlib ``Figure``. Where angles cannot be had (not symmetric, too large), dependent columns are drawn
        and the reason is written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli", "drawing") from error
    num_steps, k = trajectory.storage.size(3) - 1, trajectory.storage.size(4)
    shown = chosen_steps(num_steps) if steps is None else [_step(p, num_steps) for p in steps]
    if not 1 <= len(shown) <= _MOST_STEPS:
        raise ArgumentError(f"between 1 and {_MOST_STEPS} steps are drawn, got {len(shown)}")
    other = second if second is not None else (channel + 1) % k
    read = graph_of(trajectory)
    placed = lay_out(read) if positions is None else positions
    width = max(10.0, 3.2 * len(shown))
    extent = np.ptp(placed, axis=0) + 1e-6
    upper = float(np.clip(width / len(shown) * extent[1] / extent[0], 1.6, 4.2)) + 0.4
    figure = Figure(figsize=(width, upper + 3.4), layout="constrained", facecolor="white")
    rows: Any = figure.subfigures(2, 1, height_ratios=[upper, 3.4])
    above, below = rows
    for ax, step in zip(above.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        draw_graph(trajectory, step=step, channel=channel, operator=operator, index=index, positions=placed, ax=ax)
    left, middle, right = below.subplots(1, 3)
    draw_scatter(trajectory, step=shown[-1], channels=(channel, other), operator=operator, index=index, ax=left)
    try:
        draw_angles(trajectory, operator=operator, index=index, ax=middle)
        draw_ritz_values(trajectory, operator=operator, index=index, ax=right)
    except (ArgumentError, GraphError) as error:
        middle.clear()
        middle.axis("off")
        reason = textwrap.fill(str(error), 44)
        middle.text(0.5, 0.5, f"No angles here:\n{reason}", ha="center", va="center", fontsize=8, color="0.4")
        right.clear()
        draw_dependent(trajectory, operator=operator, ax=right)
    if title:
        figure.suptitle(title, fontsize=12, fontweight="bold")
    return figure


def _step(step: int, num_steps: int) -> int:
    if not -num_steps - 1 <= step <= num_steps:
        raise ArgumentError(f"a step must be from 0 to {num_steps}, or negative from the last, got {step}")
    return int(step) % (num_steps + 1)
