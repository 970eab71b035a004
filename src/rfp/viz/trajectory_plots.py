"""A trajectory as pictures: each function draws one and returns its matplotlib ``Axes``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.conversion import as_graph
from rfp.errors import ArgumentError, MissingExtraError
from rfp.graph import Graph
from rfp.operators import as_operator
from rfp.theory import Convergence, measure_states
from rfp.theory.bounds import dense_eigenpairs
from rfp.trajectory import Trajectory
from rfp.viz import convergence as curves
from rfp.viz.node_positions import positions as lay_out

# Blue through grey to orange, zero in the middle: told apart with every common kind of colour blindness.
_STOPS = ("#08306b", "#2171b5", "#79b4e3", "#e6e6e3", "#f6ad6a", "#d9651b", "#7f2704")
_EDGE_COLOR = "#39424c"
# Above this many edges an even sample is drawn, and said.
DRAWN_MAX_EDGES = 50_000


def new_axes(width: float = 4.8, height: float = 4.2) -> Any:
    """Axes on a figure of their own, without pyplot: no global state, no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli", "drawing") from error
    return Figure(figsize=(width, height), layout="constrained").subplots()


def diverging_map() -> Any:
    """The colour map of values around zero."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("rfp", _STOPS)


def channel_values(
    trajectory: Trajectory, *, step: int, channel: int = 0, operator: int = 0, index: int = 0
) -> NDArray[np.float64]:
    """The values of a channel at a step, ``[n]``; negative steps count from the last.

    Raises:
        ArgumentError: The trajectory has no such step, channel, operator or index.
    """
    storage = trajectory.storage
    _, b, o, p, k = storage.shape
    for name, value, size in (("index", index, b), ("operator", operator, o), ("channel", channel, k)):
        if not 0 <= value < size:
            raise ArgumentError(f"{name} must be from 0 to {size - 1}, got {value}")
    if not -p <= step < p:
        raise ArgumentError(f"step must be from 0 to {p - 1}, or negative from the last, got {step}")
    values: NDArray[np.float64] = storage[:, index, operator, step, channel].detach().cpu().double().numpy()
    return values


def draw_graph(
    trajectory: Trajectory,
    *,
    step: int = -1,
    channel: int = 0,
    operator: int = 0,
    index: int = 0,
    positions: NDArray[np.float32] | None = None,
    graph: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the graph, its nodes coloured by a channel at a step; the colours are symmetric around zero.

    Args:
        trajectory: What :func:`rfp.encode` returned.
        step: p; negative from the last.
        channel: From 0.
        operator: From 0, if there are several.
        index: Which of the B trajectories, from 0.
        positions: ``[n, 2]``; laid out anew if not given (:func:`rfp.viz.node_positions.positions`).
        graph: Another one than the trajectory's own, or that of a trajectory which does not know it.
        ax: Where to draw.

    Returns:
        The ``Axes``.

    Example:
        >>> import networkx as nx, rfp
        >>> club = nx.karate_club_graph()
        >>> t = rfp.encode(club, num_channels=4, num_steps=16, seed=0)
        >>> draw_graph(t, step=16, channel=1).get_title()
        'step 16, channel 1'
    """
    read = graph_of(trajectory, graph)
    values = channel_values(trajectory, step=step, channel=channel, operator=operator, index=index)
    ax = new_axes() if ax is None else ax
    placed = lay_out(read) if positions is None else np.asarray(positions)
    source, target = read.edge_index.numpy()
    pairs = np.unique(np.sort(np.stack([source, target], 1)[source != target], axis=1), axis=0)
    said = ""
    if len(pairs) > DRAWN_MAX_EDGES:
        said = f"\n{DRAWN_MAX_EDGES:,} of {len(pairs):,} edges drawn"
        pairs = pairs[np.random.default_rng(0).choice(len(pairs), DRAWN_MAX_EDGES, replace=False)]
    from matplotlib.collections import LineCollection

    alpha = float(np.clip(9 / np.sqrt(len(pairs) + 1), 0.03, 0.34))
    ax.add_collection(LineCollection(list(placed[pairs]), colors=_EDGE_COLOR, linewidths=0.7, alpha=alpha, zorder=1))
    finite = np.isfinite(values)
    limit = float(np.abs(values[finite]).max(initial=0)) or 1.0
    size = float(np.clip(6000 / max(1, len(values)), 2, 60))
    ax.scatter(
        placed[:, 0],
        placed[:, 1],
        c=np.where(finite, values, np.nan),
        cmap=diverging_map(),
        vmin=-limit,
        vmax=limit,
        s=size,
        edgecolors="#1b1f24" if size > 10 else "none",
        linewidths=0.5,
        plotnonfinite=True,
        zorder=2,
    )
    ax.set_title(f"step {step % trajectory.storage.size(3)}, channel {channel}{said}", fontsize=10)
    ax.set_aspect("equal")
    ax.margins(0.06)
    ax.axis("off")
    return ax


def draw_scatter(
    trajectory: Trajectory,
    *,
    step: int = -1,
    channels: tuple[int, int] = (0, 1),
    operator: int = 0,
    index: int = 0,
    ax: Any = None,
) -> Any:
    """Draw two channels of a step against each other, coloured by the first; arguments as in :func:`draw_graph`.

    Example:
        >>> import networkx as nx, rfp
        >>> t = rfp.encode(nx.karate_club_graph(), num_channels=4, num_steps=16)
        >>> draw_scatter(t, channels=(1, 2)).get_xlabel()
        'channel 1'
    """
    x, y = (channel_values(trajectory, step=step, channel=c, operator=operator, index=index) for c in channels)
    ax = new_axes() if ax is None else ax
    finite = np.isfinite(x) & np.isfinite(y)
    limit = float(np.abs(x[finite]).max(initial=0)) or 1.0
    size = float(np.clip(4000 / max(1, len(x)), 1.5, 30))
    style = {"cmap": diverging_map(), "vmin": -limit, "vmax": limit, "s": size, "linewidths": 0.4}
    ax.scatter(x[finite], y[finite], c=x[finite], edgecolors="#1b1f24" if size > 6 else "none", **style)
    ax.set(xlabel=f"channel {channels[0]}", ylabel=f"channel {channels[1]}")
    ax.set_title(f"step {step % trajectory.storage.size(3)}", fontsize=10)
    ax.axhline(0, color="0.85", lw=0.8, zorder=0)
    ax.axvline(0, color="0.85", lw=0.8, zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def graph_of(trajectory: Trajectory, graph: Any = None) -> Graph:
    """The graph that is given, or the trajectory's own."""
    if graph is None and trajectory.graph is None:
        raise ArgumentError("this trajectory does not know its graph (rfp.propagate made it); give graph=")
    return as_graph(trajectory.graph if graph is None else graph).to("cpu")


def measured(trajectory: Trajectory, *, operator: int = 0, index: int = 0) -> Convergence:
    """How far each step of a trajectory is from the dominant eigenvectors of its operator.

    Raises:
        ArgumentError: There is more than one graph, one of more than 5000 nodes, or the operator is not symmetric.
    """
    if trajectory.settings is None:
        raise ArgumentError("this trajectory does not know its operators (rfp.propagate made it); use rfp.encode")
    read = graph_of(trajectory)
    if read.num_graphs != 1:
        raise ArgumentError(f"angles are measured on one graph, got a batch of {read.num_graphs}")
    channel_values(trajectory, step=0, operator=operator, index=index)  # checks the numbers
    S = trajectory.settings.operators[operator]
    values, vectors = dense_eigenpairs(read, S)
    order = values.abs().argsort(descending=True, stable=True)
    states: Tensor = trajectory.storage[:, index, operator].detach().cpu().transpose(0, 1)  # [P + 1, n, k]
    known = values[order], vectors[:, order]
    return measure_states(states[:, :, : read.num_nodes], as_operator(S, read, torch.float64), *known)


def draw_angles(trajectory: Trajectory, *, operator: int = 0, index: int = 0, ax: Any = None) -> Any:
    """Draw the principal angles of each step to the dominant eigenvectors, and the rate of Proposition 4.2.

    Args:
        trajectory: Trajectory of one graph of at most 5000 nodes and a symmetric operator.
        operator: From 0, if there are several.
        index: Which of the B trajectories, from 0.
        ax: Where to draw.

    Example:
        >>> import networkx as nx, rfp
        >>> t = rfp.encode(nx.karate_club_graph(), num_channels=4, num_steps=16)
        >>> draw_angles(t).get_yscale()
        'log'
    """
    ax = new_axes() if ax is None else ax
    curves.draw_angle_curves(ax, measured(trajectory, operator=operator, index=index))
    return ax


def draw_ritz_values(trajectory: Trajectory, *, operator: int = 0, index: int = 0, ax: Any = None) -> Any:
    """Draw the Ritz values of each step and the eigenvalues they approach; arguments as in :func:`draw_angles`."""
    ax = new_axes() if ax is None else ax
    curves.draw_ritz_curves(ax, measured(trajectory, operator=operator, index=index))
    return ax


def draw_dependent(trajectory: Trajectory, *, operator: int = 0, ax: Any = None) -> Any:
    """Draw which columns are zero on all nodes: a cell for each step (across) and channel (down).

    With QR a column that depends on earlier ones is set to zero.
    """
    ax = new_axes(4.8, 2.6) if ax is None else ax
    zero = (trajectory.storage[:, :, operator] == 0).all(dim=0).double().mean(dim=0).cpu()  # [P + 1, k]
    ax.imshow(zero.T.numpy(), cmap="Oranges", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    count = int((zero > 0).sum())
    ax.set(xlabel="step p", ylabel="channel")
    ax.set_title(f"dependent columns: {count} of {zero.numel()}", fontsize=10)
    return ax
