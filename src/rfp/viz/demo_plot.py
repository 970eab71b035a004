"""The picture of ``rfp demo``: a channel on the nodes at several steps, and how the steps converge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

import torch
from torch import Tensor

from rfp.errors import MissingExtraError

_STEPS_SHOWN = (0, 1, 4, 16)
_COLOURS = ("#1b6ca8", "#d1495b", "#2a9d8f", "#8d6a9f")


@dataclass(frozen=True)
class DemoConvergence:
    """What the picture and the table show.

    Args:
        edges: ``[2, m]`` for drawing.
        positions: ``[n, 2]`` of the nodes in the plane.
        states: ``[P + 1, n, k]``, the trajectory.
        eigenvectors: ``[n, k]``, of the k eigenvalues largest in magnitude, in that order.
        eigenvalues: ``[k + 1]``.
        angles: ``[P + 1]``, largest principal angle between step p and the eigenspace, in radians.
        bound: ``[P + 1]``, what theory promises for its tangent.
        cosines: ``[P + 1, k]``, of channel j with eigenvector j, in magnitude.
    """

    edges: Tensor
    positions: Tensor
    states: Tensor
    eigenvectors: Tensor
    eigenvalues: Tensor
    angles: Tensor
    bound: Tensor
    cosines: Tensor


def draw_demo(data: DemoConvergence, file: IO[bytes], *, channel: int = 1) -> None:
    """Write the picture as PNG; ``channel`` (from 0) is the one shown on the nodes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli", "drawing") from error
    # A figure without pyplot: no global state, no window system.
    figure = Figure(figsize=(12, 6.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    rows: Any = figure.subfigures(2, 1, height_ratios=[1.0, 1.15])
    graphs, curves = rows
    truth = data.eigenvectors[:, channel]
    panels = graphs.subplots(1, len(_STEPS_SHOWN) + 1)
    for axis, step in zip(panels[:-1], _STEPS_SHOWN, strict=True):
        values = data.states[step, :, channel]
        values = values * torch.sign(values @ truth)
        title = "random features" if step == 0 else "1 step" if step == 1 else f"{step} steps"
        _draw_graph(axis, data, values, f"{title}  (p = {step})")
    _draw_graph(panels[-1], data, truth, f"eigenvector {channel + 1} of Â")
    graphs.suptitle(f"Channel {channel + 1} of the encoding on the karate club", fontsize=13, fontweight="bold")
    left, right = curves.subplots(1, 2, width_ratios=[1.25, 1])
    _draw_angles(left, data)
    _draw_cosines(right, data)
    figure.savefig(file, format="png", dpi=160)


def _draw_graph(axis: Any, data: DemoConvergence, values: Tensor, title: str) -> None:
    ends = data.positions[data.edges]  # [2, m, 2]
    x, y = ends[..., 0].numpy(), ends[..., 1].numpy()
    axis.plot(x, y, color="#b8b8b8", linewidth=0.6, zorder=1)
    limit = float(values.abs().max())
    axis.scatter(
        data.positions[:, 0].numpy(),
        data.positions[:, 1].numpy(),
        c=values.numpy(),
        cmap="RdBu_r",
        vmin=-limit,
        vmax=limit,
        s=62,
        edgecolors="#333333",
        linewidths=0.6,
        zorder=2,
    )
    axis.set_title(title, fontsize=10.5)
    axis.set_aspect("equal")
    axis.margins(0.08)
    axis.axis("off")


def _draw_angles(axis: Any, data: DemoConvergence) -> None:
    steps = range(len(data.angles))
    k = data.eigenvectors.size(1)
    axis.semilogy(steps, data.angles.tan().numpy(), "o-", color=_COLOURS[0], markersize=4, label="measured")
    rate = float((data.eigenvalues[k] / data.eigenvalues[k - 1]).abs())
    label = rf"bound: $|\lambda_{{{k + 1}}}/\lambda_{{{k}}}|^p = {rate:.2f}^p$"
    axis.semilogy(steps, data.bound.numpy(), "--", color=_COLOURS[1], label=label)
    axis.set_xlabel("step p")
    axis.set_ylabel(r"$\tan\theta$ to the eigenvectors")
    axis.set_title(f"The {k} channels together turn into the top {k} eigenvectors", fontsize=11)
    _finish(axis)


def _draw_cosines(axis: Any, data: DemoConvergence) -> None:
    for j, colour in enumerate(_COLOURS[: data.cosines.size(1)]):
        axis.plot(data.cosines[:, j].numpy(), ".-", color=colour, label=f"channel {j + 1}")
    axis.set_xlabel("step p")
    axis.set_ylabel("|cosine| to its own eigenvector")
    axis.set_ylim(-0.03, 1.03)
    axis.set_title("QR keeps them apart: each channel finds its own", fontsize=11)
    _finish(axis)


def _finish(axis: Any) -> None:
    axis.grid(True, color="#e4e4e4", linewidth=0.7)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9.5)
