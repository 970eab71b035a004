r"""The pieces of work of a partitioned encoding: each reads files of finished states and writes files of the next.

A task is a plain function of a :class:`Plan` and a few numbers. It may be run twice, or die half-way and be run
again, by another process or on another machine that sees the same folder: files appear whole or not at all, and the
same task writes the same bytes. Only k x k matrices are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.features import random_features
from rfp.graph import Graph
from rfp.operators import OPERATORS, EntryTable
from rfp.partitioned.checked_files import is_whole, load, save
from rfp.partitioned.kernels import add_gram, sparse_rows, times
from rfp.partitioned.layout import Layout, StoredGraph, panels

Array = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """What every task needs to know; small, and the same for the whole encoding.

    Args:
        folder: Of the encoding, as the workers see it.
        graph: From the manifest.
        num_channels: k.
        num_trajectories: B.
        panel: Channels of a panel.
        distribution: Of the features.
        seed: Of the features.
        dtype: Name of the type of the states.
        operators: Names without powers.
    """

    folder: str
    graph: StoredGraph
    num_channels: int
    num_trajectories: int
    panel: int
    distribution: str
    seed: int
    dtype: str
    operators: tuple[str, ...]

    @property
    def layout(self) -> Layout:
        return Layout(Path(self.folder))

    @property
    def panels(self) -> list[slice]:
        return panels(self.num_channels, self.panel)

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    def files(self, name: str, block: int) -> list[Path]:
        """The files of a state's block, panel by panel."""
        return [self.layout.block_file(name, panel, block) for panel in range(len(self.panels))]


def write_values(plan: Plan, operator: int, block: int) -> None:
    """The values of an operator on the entries of a block, in the type of the states."""
    path = plan.layout.operator_file(operator, block)
    if is_whole(path):
        return
    layout, rows = plan.layout, plan.graph.rows(block)
    crow, col, value = (load(layout.graph_file(block, part)) for part in ("crow", "col", "value"))
    row = np.repeat(np.arange(rows.start, rows.stop), np.diff(crow))
    loops = load(layout.loops_file)

    def degree(axis: str, with_loops: bool) -> Tensor:
        sums = load(layout.sums_file("row" if plan.graph.symmetric else axis))
        return torch.from_numpy(sums + ~loops if with_loops else sums)

    entries = EntryTable(torch.from_numpy(row), torch.from_numpy(col), torch.from_numpy(value).double(), degree)
    values = OPERATORS[plan.operators[operator]](entries)
    save(path, values.to(plan.torch_dtype).numpy())


def draw(plan: Plan, name: str, block: int) -> Array:
    """Draw the features of a block's nodes; returns the sum of squares of each column, ``[B, k]`` in float64."""
    files = plan.files(name, block)
    if not all(is_whole(path) for path in files):
        drawn = random_features(
            Graph.unchecked(
                torch.zeros(2, 0, dtype=torch.long), plan.graph.num_nodes, known_keys=torch.tensor([plan.graph.key])
            ),
            rows=plan.graph.rows(block),
            num_channels=plan.num_channels,
            num_trajectories=plan.num_trajectories,
            distribution=plan.distribution,
            seed=plan.seed,
            dtype=plan.torch_dtype,
        )  # [B, rows, k]
        _save_panels(plan, files, drawn.transpose(0, 1).numpy())
    return _squares(_block(plan, name, block))


def multiply(plan: Plan, operator: int, source: str, target: str, panel: int, blocks: Sequence[int]) -> Array:
    r"""Rows of :math:`S a`, for one panel of channels and several blocks of rows.

    The panel of a is read once and kept for the next call: O(n B width) memory, O(entries of the blocks B width) time.

    Returns:
        The sum of squares of each column over each block, ``[len(blocks), B, width]`` in float64.
    """
    squares = []
    for block in blocks:
        path = plan.layout.block_file(target, panel, block)
        if is_whole(path):
            product = load(path)
        else:
            a = _whole_panel(plan, source, panel)
            crow, col = (load(plan.layout.graph_file(block, part)) for part in ("crow", "col"))
            value = load(plan.layout.operator_file(operator, block))
            product = sparse_rows(crow, col, value, a).reshape(len(crow) - 1, plan.num_trajectories, -1)
            save(path, product)
        squares.append(_squares(product))
    return np.stack(squares)


def _squares(a: Array) -> Array:
    """Sums of squares over the rows, ``[rows, B, c] -> [B, c]`` in float64."""
    return np.asarray(np.square(a, dtype=np.float64).sum(0))


@lru_cache(maxsize=1)
def _whole_panel(plan: Plan, name: str, panel: int) -> Array:
    """One panel of all nodes, ``[n, B width]``."""
    channels = plan.panels[panel]
    width = plan.num_trajectories * (channels.stop - channels.start)
    out = np.empty((plan.graph.num_nodes, width), dtype=plan.dtype)
    for block in range(plan.graph.num_blocks):
        out[plan.graph.rows(block)] = load(plan.layout.block_file(name, panel, block)).reshape(-1, width)
    return out


def forget_panel() -> None:
    """Let go of the panel that :func:`multiply` keeps."""
    _whole_panel.cache_clear()


def gram(plan: Plan, name: str, block: int) -> Array:
    r""":math:`a^\top a` over the rows of a block, ``[B, k, k]`` in float64."""
    return add_gram(_block(plan, name, block))


def apply(plan: Plan, source: str, target: str, factor: Array, block: int) -> None:
    """A block of a state times a k x k matrix for each trajectory, ``[B, k, k]``; a diagonal one as ``[B, k]``."""
    files = plan.files(target, block)
    if not all(is_whole(path) for path in files):
        _save_panels(plan, files, times(_block(plan, source, block), factor))


def _block(plan: Plan, name: str, block: int) -> Array:
    """A block of all channels, ``[rows, B, k]``."""
    return np.concatenate([load(path) for path in plan.files(name, block)], axis=2)


def _save_panels(plan: Plan, files: Sequence[Path], values: Array) -> None:
    for path, channels in zip(files, plan.panels, strict=True):
        save(path, values[:, :, channels])


Task = Callable[..., Any]
