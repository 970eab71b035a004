r"""The pieces of work of a partitioned encoding: each reads files of finished states and writes files of the next.

A task is a plain function of a :class:`Plan` and a few numbers. It may be run twice, or die half-way and be run
again, by another process or on another machine that sees the same folder: files appear whole or not at all, and the
same task writes the same bytes. Only k x k matrices are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.features import random_features
from rfp.graph import Graph
from rfp.operators import OPERATORS, Degrees, EntryTable
from rfp.partitioned import kept_panel
from rfp.partitioned.block_products import block_gram, device_here, sparse_rows, times
from rfp.partitioned.checked_files import DamagedFileError, is_whole, load_array, load_into, save_array
from rfp.partitioned.plan import Plan
from rfp.partitioned.reused_memory import ReusedMemory
from rfp.partitioned.state_blocks import StateBlocks

Array = NDArray[Any]
# What is added up over the rows of a product while it is in memory.
Sums = Literal["squares", "gram", "none"]

# Numbers that are squared at a time, or entries whose values are computed: their float64 copies fill half of a
# second-level cache.
_NUMBERS_IN_CACHE = 1 << 16


def write_values(plan: Plan, operator: int, blocks: Sequence[int]) -> None:
    """The values of an operator on the entries of blocks, in the type of the states; O(n) once for all of them."""
    layout, wanted = plan.layout, plan.operators[operator]
    # A transpose has its sums from the matrix itself.
    side, symmetric = ("sym", True) if wanted.side == "sym" else ("", plan.graph.symmetric)

    def sums(axis: str, with_loops: bool) -> Tensor:
        found = load_array(layout.sums_file(axis, side), mapped=True)
        return torch.from_numpy(found + ~load_array(layout.loops_file(side), mapped=True) if with_loops else found)

    degree, values = Degrees(sums, symmetric=symmetric), ReusedMemory()
    for block in blocks:
        path = layout.operator_file(operator, block)
        if is_whole(path):
            continue
        crow, col, value = (
            load_array(layout.graph_file(block, part, wanted.side), mapped=True) for part in ("crow", "col", "value")
        )
        node, found = plan.graph.rows(block).start, values.array(col.shape, plan.dtype)
        for low, high in _pieces(crow):
            some = slice(crow[low], crow[high])
            row = np.repeat(np.arange(node + low, node + high), np.diff(crow[low : high + 1]))
            first, second = (col[some], row) if wanted.transposed else (row, col[some])
            weight = torch.from_numpy(value[some]).double()
            entries = EntryTable(torch.from_numpy(first), torch.from_numpy(second), weight, degree)
            found[some] = OPERATORS[wanted.base](entries).numpy()
        save_array(path, found)


def _pieces(crow: Array) -> Iterator[tuple[int, int]]:
    """Bounds of runs of rows with few entries each: what is computed of them stays in cache."""
    starts = np.searchsorted(crow, np.arange(0, crow[-1], _NUMBERS_IN_CACHE))
    return pairwise(np.unique([*starts.tolist(), len(crow) - 1]).tolist())


def draw_block(plan: Plan, name: str, block: int) -> Array:
    """Draw the features of a block's nodes; returns the sum of squares of each column, ``[B, k]`` in float64."""
    states = StateBlocks(plan)
    if not states.are_there(name, block):
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
        states.write(name, block, drawn.transpose(0, 1).numpy())
        del drawn  # before it is read again
    return _squares(states.read(name, block))


def multiply_blocks(
    plan: Plan, operator: int, source: str, target: str, panel: int, blocks: Sequence[int], sums: Sums
) -> Array | None:
    r"""Rows of :math:`S a`, for one panel of channels and several blocks of rows.

    The panel of a is read once and kept for the next call: O(n B width) memory, O(entries of the blocks B width) time.

    Args:
        plan: Plan of the encoding.
        operator: Number of the operator.
        source: The state that is multiplied.
        target: The state that it becomes.
        panel: Number of the panel.
        blocks: The blocks of rows.
        sums: What is wanted beside the product, in float64: the sum of squares of each column over each block, or, of
            a panel that holds all channels, the Gram matrix of each; a product in memory need not be read again.

    Returns:
        ``[len(blocks), B, width]`` for squares, ``[len(blocks), B, k, k]`` for Gram matrices.
    """
    found, side, channels = [], plan.operators[operator].side, plan.panels[panel]
    values, products = ReusedMemory(), ReusedMemory()
    for block in blocks:
        path, rows = plan.layout.block_file(target, panel, block), plan.graph.rows(block)
        shape = (rows.stop - rows.start, plan.num_trajectories, channels.stop - channels.start)
        product = products.array(shape, plan.dtype)
        if not _read(path, product):
            crow, col = (load_array(plan.layout.graph_file(block, part, side), mapped=True) for part in ("crow", "col"))
            value = values.array(col.shape, plan.dtype)
            load_into(plan.layout.operator_file(operator, block), value)
            with kept_panel.KEPT.used(plan, source, panel) as a:
                product = sparse_rows(crow, col, value, a, product.reshape(shape[0], -1)).reshape(shape)
            save_array(path, product)
        if sums == "gram":
            found.append(block_gram(product, device_here(plan.device)))
        elif sums == "squares":
            found.append(_squares(product))
    return np.stack(found) if found else None


def _read(path: Path, out: Array) -> bool:
    """Read a file that is whole; whether it was there."""
    try:
        load_into(path, out)
    except DamagedFileError:
        return False
    return True


def _squares(a: Array) -> Array:
    """Sums of squares over the rows, ``[rows, B, c] -> [B, c]`` in float64; pieces of them stay in cache."""
    total = np.zeros(a.shape[1:])
    rows = max(1, _NUMBERS_IN_CACHE // total.size)
    for start in range(0, len(a), rows):
        total += np.square(a[start : start + rows], dtype=np.float64).sum(0)
    return total


def gram_of_blocks(plan: Plan, name: str, blocks: Sequence[int]) -> list[Array]:
    r""":math:`a^\top a` over the rows of each block, ``[B, k, k]`` in float64."""
    states, device = StateBlocks(plan), device_here(plan.device)
    return [block_gram(states.read(name, block), device) for block in blocks]


def apply_to_blocks(plan: Plan, source: str, target: str, factor: Array, blocks: Sequence[int]) -> None:
    """Blocks of a state times a k x k matrix for each trajectory, ``[B, k, k]``; a diagonal one as ``[B, k]``."""
    states, device = StateBlocks(plan), device_here(plan.device)
    for block in blocks:
        if not states.are_there(target, block):
            a = states.read(source, block)
            states.write(target, block, times(a, factor, device, out=a))


def triangle_of_block(plan: Plan, name: str, trajectories: Sequence[int], block: int) -> Array:
    r"""R of :math:`a = Q R`, of a block's rows in float64: ``[trajectories, k, k]``, zero rows if it has fewer."""
    columns = StateBlocks(plan).read(name, block).astype(np.float64)
    out = np.zeros((len(trajectories), plan.num_channels, plan.num_channels))
    for i, b in enumerate(trajectories):
        r = np.linalg.qr(columns[:, b], mode="r")
        out[i, : len(r)] = r
    return out


def apply_to_basis(plan: Plan, source: str, other: str, target: str, factor: Array, block: int) -> None:
    """Q of the block's own :math:`a = Q R` times a k x k matrix, ``[B, k, k]``; where that is NaN, the other state."""
    states = StateBlocks(plan)
    if states.are_there(target, block):
        return
    columns, out = StateBlocks(plan).read(source, block), states.read(other, block)
    for b in np.flatnonzero(~np.isnan(factor[:, 0, 0])):
        q, _ = np.linalg.qr(columns[:, b].astype(np.float64))
        out[:, b] = q @ factor[b, : q.shape[1]]
    states.write(target, block, out)


def damage_of_block(plan: Plan, name: str, block: int) -> list[DamagedFileError]:
    """The files of a finished state's block that are not what was written."""
    found = []
    for path in plan.files(name, block):
        try:
            load_array(path)
        except DamagedFileError as damage:
            found.append(damage)
    return found


BlockTask = Callable[..., Any]
