"""The angles and Ritz values of :func:`rfp.theory.convergence`, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from rfp.errors import MissingExtraError
from rfp.theory import Convergence

# Below this an angle computed in float64 is rounding.
_FLOOR = 1e-16
_MEASURED, _PREDICTED = "#1b6ca8", "#d1495b"


def plot_convergence(result: Convergence, picture: str | Path | IO[bytes], *, title: str = "") -> None:
    """Write a picture with two panels: principal angles with the predicted rate, and Ritz values with the eigenvalues.

    Args:
        result: What :func:`rfp.theory.convergence` returned.
        picture: File name (.png, .svg, .pdf) or open binary file, which gets a PNG.
        title: Above both panels.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli", "drawing convergence") from error
    figure = Figure(figsize=(9.6, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_angle_curves(left, result)
    draw_ritz_curves(right, result)
    if title:
        figure.suptitle(title, fontsize=11)
    figure.savefig(picture, dpi=150, format=None if isinstance(picture, str | Path) else "png")


plot = plot_convergence  # its earlier name


def draw_angle_curves(axes: Any, result: Convergence) -> None:
    """Each principal angle against the step on a logarithmic scale; dashed, the rate of Proposition 4.2."""
    steps = range(len(result.angles))
    k = result.num_channels
    for j in range(k):
        label = None if j not in (0, k - 1) else ("largest angle" if j == k - 1 else "the others")
        strong = j == k - 1
        style = {"color": _MEASURED, "lw": 2.0 if strong else 1.0, "alpha": 1.0 if strong else 0.45}
        axes.semilogy(steps, result.angles[:, j].clamp_min(_FLOOR), label=label, **style)
    line = predicted_angles(result)
    if line is not None:
        space = f"K+1}} / \\lambda_k|^p, K = {result.dominant_dimension}" if result.tie else "k+1} / \\lambda_k|^p"
        label = f"slope $|\\lambda_{{{space}$ = {result.rate:.3f}$^p$"
        axes.semilogy(line[0], line[1], "--", color=_PREDICTED, lw=1.6, label=label)
    axes.set(xlabel="step p", ylabel="principal angle (radians)", ylim=(_FLOOR / 2, 6))
    _finish(axes)


def predicted_angles(result: Convergence) -> tuple[list[int], list[float]] | None:
    """A line of the predicted slope beside the largest angle, from where that has settled; ``None`` if never."""
    largest = result.angles[:, -1]
    settled = (largest < 0.1).nonzero()
    if not len(settled) or result.rate <= 0:
        return None
    first = int(settled[0])
    # Twice the angle, so that the line stands beside the curve and not on it.
    values = 2 * float(largest[first]) * result.rate ** torch.arange(len(largest) - first, dtype=torch.float64)
    shown = values > _FLOOR
    return [first + p for p in range(int(shown.sum()))], values[shown].tolist()


def draw_ritz_curves(axes: Any, result: Convergence) -> None:
    """The Ritz values of each step; grey, the eigenvalues they approach."""
    shown = _steps_that_move(result.ritz_values)
    for value in result.eigenvalues[: result.dominant_dimension].tolist():
        axes.axhline(value, color="0.75", lw=1.0)
    for j in range(result.num_channels):
        label = "Ritz values" if j == 0 else None
        axes.plot(range(shown), result.ritz_values[:shown, j], "o-", ms=2.5, lw=1.0, color=_MEASURED, label=label)
    axes.plot([], [], color="0.75", label="dominant eigenvalues")
    axes.set(xlabel="step p", ylabel="Ritz values")
    _finish(axes)


def _steps_that_move(values: Tensor) -> int:
    """How many steps to draw: until all values are within a thousandth of their last, and a few more."""
    moving = ((values - values[-1]).abs().max(dim=1).values > 1e-3 * values[-1].abs().max()).nonzero()
    last = int(moving[-1]) if len(moving) else 0
    return min(len(values), last + 8)


def _finish(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, which="major", color="0.93")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8)
