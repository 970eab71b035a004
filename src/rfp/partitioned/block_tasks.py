r"""The pieces of work of a partitioned encoding: each reads files of finished states and writes files of the next.

A task is a plain function of a :class:`Plan` and a few numbers. It may be run twice, or die half-way and be run
again, by another process or on another machine that sees the same folder: files appear whole or not at all, and the
same task writes the same bytes. Only k x k matrices are returned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.features import random_features
from rfp.graph import Graph
from rfp.operators import OPERATORS, EntryTable, parse_name
from rfp.pages import empty
from rfp.partitioned.block_products import block_gram, device_here, sparse_rows, times
from rfp.partitioned.checked_files import DamagedFileError, is_whole, load_array, load_into, save_array
from rfp.partitioned.layout import Layout, StoredGraph, panels

Array = NDArray[Any]

# Numbers that are squared at a time: their float64 copies fill half of a second-level cache.
_NUMBERS_IN_CACHE = 1 << 16


@dataclass(frozen=True)
class StoredOperator:
    """An operator as the tasks build it.

    Args:
        base: A key of :data:`rfp.operators.OPERATORS`.
        side: The matrix whose entries it has, of :data:`rfp.partitioned.layout.SIDES`.
        transposed: Whether those are the entries of its transpose.
    """

    base: str
    side: str = ""
    transposed: bool = False


def stored_operator(name: str, symmetric: bool) -> StoredOperator:
    """The operator of a name, of a graph that is symmetric or not.

    >>> stored_operator("random_walk.T^2", symmetric=True)
    StoredOperator(base='random_walk', side='', transposed=True)
    >>> stored_operator("adjacency.T", symmetric=False)
    StoredOperator(base='adjacency', side='T', transposed=True)
    """
    parts = parse_name(name)
    transposed = parts["transposed"] is not None
    side = "" if symmetric else "sym" if parts["sym"] else "T" if transposed else ""
    return StoredOperator(str(parts["base"]), side, transposed)


@dataclass(frozen=True)
class Plan:
    """What every task needs to know; small, and the same for the whole encoding.

    Args:
        folder: Folder of the encoding, as the workers see it.
        graph: From the manifest.
        num_channels: k.
        num_trajectories: B.
        panel: Channels of a panel.
        distribution: Distribution of the features.
        seed: Seed of the features.
        dtype: Name of the type of the states.
        operators: Without their powers.
        device: ``"cuda"`` for workers that have a GPU to multiply on it.
    """

    folder: str
    graph: StoredGraph
    num_channels: int
    num_trajectories: int
    panel: int
    distribution: str
    seed: int
    dtype: str
    operators: tuple[StoredOperator, ...]
    device: str = "cpu"

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
    layout, rows, wanted = plan.layout, plan.graph.rows(block), plan.operators[operator]
    crow, col, value = (
        load_array(layout.graph_file(block, part, wanted.side), mapped=True) for part in ("crow", "col", "value")
    )
    row = np.repeat(np.arange(rows.start, rows.stop), np.diff(crow))
    # A transpose has its sums from the matrix itself.
    side, symmetric = ("sym", True) if wanted.side == "sym" else ("", plan.graph.symmetric)

    def degree(axis: str, with_loops: bool) -> Tensor:
        sums = load_array(layout.sums_file("row" if symmetric else axis, side), mapped=True)
        return torch.from_numpy(sums + ~load_array(layout.loops_file(side), mapped=True) if with_loops else sums)

    first, second = (torch.from_numpy(end) for end in ((col, row) if wanted.transposed else (row, col)))
    entries = EntryTable(first, second, torch.from_numpy(value).double(), degree)
    save_array(path, OPERATORS[wanted.base](entries).to(plan.torch_dtype).numpy())


def draw_block(plan: Plan, name: str, block: int) -> Array:
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


def multiply_blocks(
    plan: Plan, operator: int, source: str, target: str, panel: int, blocks: Sequence[int], with_gram: bool
) -> tuple[Array, Array | None]:
    r"""Rows of :math:`S a`, for one panel of channels and several blocks of rows.

    The panel of a is read once and kept for the next call: O(n B width) memory, O(entries of the blocks B width) time.

    Args:
        plan: Plan of the encoding.
        operator: Number of the operator.
        source: The state that is multiplied.
        target: The state that it becomes.
        panel: Number of the panel.
        blocks: The blocks of rows.
        with_gram: Whether Gram matrices are wanted as well, of a panel that holds all channels: a product that is in
            memory need not be read again for them.

    Returns:
        The sum of squares of each column over each block, ``[len(blocks), B, width]`` in float64, and the Gram matrix
        of each block, ``[len(blocks), B, k, k]``.
    """
    squares, grams, side = [], [], plan.operators[operator].side
    for block in blocks:
        path = plan.layout.block_file(target, panel, block)
        if is_whole(path):
            product = load_array(path)
        else:
            crow, col = (load_array(plan.layout.graph_file(block, part, side), mapped=True) for part in ("crow", "col"))
            value = load_array(plan.layout.operator_file(operator, block))
            with _panels.used(plan, source, panel) as a:
                product = sparse_rows(crow, col, value, a).reshape(len(crow) - 1, plan.num_trajectories, -1)
            save_array(path, product)
        if with_gram:
            grams.append(block_gram(product, device_here(plan.device)))
            squares.append(np.diagonal(grams[-1], axis1=1, axis2=2))
        else:
            squares.append(_squares(product))
    return np.stack(squares), np.stack(grams) if with_gram else None


def _squares(a: Array) -> Array:
    """Sums of squares over the rows, ``[rows, B, c] -> [B, c]`` in float64; pieces of them stay in cache."""
    total = np.zeros(a.shape[1:])
    rows = max(1, _NUMBERS_IN_CACHE // total.size)
    for start in range(0, len(a), rows):
        total += np.square(a[start : start + rows], dtype=np.float64).sum(0)
    return total


@dataclass
class _Panel:
    """A panel of all nodes, ``[n, B width]``; ``key`` says of what, ``users`` how many threads multiply by it."""

    key: tuple[Plan, str, int]
    tensor: Tensor
    users: int = 0


class _Panels:
    """The panel that was read last. The one before is let go of first, or its memory is used again: one is there."""

    def __init__(self) -> None:
        self.guard = Lock()
        self.last: _Panel | None = None

    @contextmanager
    def used(self, plan: Plan, name: str, panel: int) -> Iterator[Tensor]:
        """``[n, B width]``, on the device of the plan; for the length of the block nothing else is read into it."""
        with self.guard:
            if self.last is None or self.last.key != (plan, name, panel):
                self.last = self._read(plan, name, panel)
            found = self.last
            found.users += 1
        try:
            yield found.tensor
        finally:
            with self.guard:
                found.users -= 1

    def _read(self, plan: Plan, name: str, panel: int) -> _Panel:
        width = plan.panels[panel].stop - plan.panels[panel].start
        shape = (plan.graph.num_nodes, plan.num_trajectories, width)
        old, self.last = self.last, None  # it will be overwritten: whatever stops this, it is no panel any more
        if old is not None and _may_hold(old, shape, plan.torch_dtype):
            numbers = old.tensor
        else:
            del old
            give_back_memory()
            numbers = empty(shape[0], shape[1] * shape[2], dtype=plan.torch_dtype)
        rows = numbers.numpy().reshape(shape)
        for block in range(plan.graph.num_blocks):
            load_into(plan.layout.block_file(name, panel, block), rows[plan.graph.rows(block)])
        return _Panel((plan, name, panel), numbers.to(device_here(plan.device)))

    def forget(self) -> None:
        with self.guard:
            self.last = None


def _may_hold(panel: _Panel, shape: tuple[int, int, int], dtype: torch.dtype) -> bool:
    same = panel.tensor.shape == (shape[0], shape[1] * shape[2]) and panel.tensor.dtype == dtype
    return same and panel.users == 0 and panel.tensor.is_cpu


_panels = _Panels()


def give_back_memory() -> None:
    """Hand what was freed back to the system: the C library keeps holes between what is still used (GNU only)."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def forget_panel() -> None:
    """Let go of the panel that :func:`multiply` keeps."""
    _panels.forget()


def gram_of_block(plan: Plan, name: str, block: int) -> Array:
    r""":math:`a^\top a` over the rows of a block, ``[B, k, k]`` in float64."""
    return block_gram(_block(plan, name, block), device_here(plan.device))


def apply_to_blocks(plan: Plan, source: str, target: str, factor: Array, blocks: Sequence[int]) -> None:
    """Blocks of a state times a k x k matrix for each trajectory, ``[B, k, k]``; a diagonal one as ``[B, k]``."""
    for block in blocks:
        files = plan.files(target, block)
        if not all(is_whole(path) for path in files):
            _save_panels(plan, files, times(_block(plan, source, block), factor, device_here(plan.device)))


def triangle_of_block(plan: Plan, name: str, trajectories: Sequence[int], block: int) -> Array:
    r"""R of :math:`a = Q R`, of a block's rows in float64: ``[trajectories, k, k]``, zero rows if it has fewer."""
    columns = _block(plan, name, block).astype(np.float64)
    out = np.zeros((len(trajectories), plan.num_channels, plan.num_channels))
    for i, b in enumerate(trajectories):
        r = np.linalg.qr(columns[:, b], mode="r")
        out[i, : len(r)] = r
    return out


def apply_to_basis(plan: Plan, source: str, other: str, target: str, factor: Array, block: int) -> None:
    """Q of the block's own :math:`a = Q R` times a k x k matrix, ``[B, k, k]``; where that is NaN, the other state."""
    files = plan.files(target, block)
    if all(is_whole(path) for path in files):
        return
    columns, out = _block(plan, source, block), _block(plan, other, block)
    for b in np.flatnonzero(~np.isnan(factor[:, 0, 0])):
        q, _ = np.linalg.qr(columns[:, b].astype(np.float64))
        out[:, b] = q @ factor[b, : q.shape[1]]
    _save_panels(plan, files, out)


def damage_of_block(plan: Plan, name: str, block: int) -> list[DamagedFileError]:
    """The files of a finished state's block that are not what was written."""
    found = []
    for path in plan.files(name, block):
        try:
            load_array(path)
        except DamagedFileError as damage:
            found.append(damage)
    return found


def _block(plan: Plan, name: str, block: int) -> Array:
    """A block of all channels, ``[rows, B, k]``."""
    parts = [load_array(path) for path in plan.files(name, block)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _save_panels(plan: Plan, files: Sequence[Path], values: Array) -> None:
    for path, channels in zip(files, plan.panels, strict=True):
        save_array(path, values[:, :, channels])


BlockTask = Callable[..., Any]
