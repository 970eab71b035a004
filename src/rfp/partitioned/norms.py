r"""What rounding of products with a stored operator scales with (:func:`rfp.operator_norms.rounding_norm`), by blocks.

Two kinds of tasks: the long rows of a block, and, where the norm of :math:`|S|` is not known from the operator's name,
Schur's test over all blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rfp.partitioned.checked_files import load_array
from rfp.partitioned.plan import Plan
from rfp.rounding import LONG_ROW

Array = NDArray[Any]


@dataclass(frozen=True)
class _Rows:
    """Rows of S in absolute values: ``row`` counts from the first of them, ``nodes``."""

    nodes: slice
    row: Array
    col: Array
    value: Array

    def sums(self, weights: Array | float = 1.0) -> Array:
        """Of each row, entry by entry with these weights."""
        return np.bincount(self.row, self.value * weights, minlength=self.nodes.stop - self.nodes.start)


def _rows(plan: Plan, operator: int, block: int) -> _Rows:
    side, nodes = plan.operators[operator].side, plan.graph.rows(block)
    crow, col = (load_array(plan.layout.graph_file(block, part, side), mapped=True) for part in ("crow", "col"))
    value = load_array(plan.layout.operator_file(operator, block)).astype(np.float64)
    return _Rows(nodes, np.repeat(np.arange(len(crow) - 1), np.diff(crow)), col, np.abs(value, out=value))


def long_rows(plan: Plan, operator: int, block: int) -> tuple[float, float]:
    r"""The largest :math:`g_i = \max(1, d_i / 64)` of a block's rows, and :math:`\lVert (g - 1) S \rVert_F^2`."""
    rows = _rows(plan, operator, block)
    times = np.maximum(np.bincount(rows.row, minlength=rows.nodes.stop - rows.nodes.start) / LONG_ROW, 1.0)
    return float(times.max(initial=1.0)), float(((times - 1) ** 2 * rows.sums(rows.value)).sum())


def schur_norm(plan: Plan, operator: int) -> float:
    r"""That of :func:`rfp.operator_norms.norm_of`. Two passes over the blocks; four numbers of every node in memory."""

    def blocks() -> Iterator[_Rows]:
        return (_rows(plan, operator, block) for block in range(plan.graph.num_blocks))

    n = plan.graph.num_nodes
    r, c, by_columns = np.zeros(n), np.zeros(n), np.zeros(n)
    for rows in blocks():
        r[rows.nodes] = rows.sums()
        np.add.at(c, rows.col, rows.value)
    r, c = np.sqrt(r), np.sqrt(c)
    largest = 0.0
    for rows in blocks():
        own = r[rows.nodes]
        largest = max(largest, _largest_ratio(rows.sums(c[rows.col]), own))
        np.add.at(by_columns, rows.col, rows.value * own[rows.row])
    return float(np.sqrt(largest * _largest_ratio(by_columns, c)))


def _largest_ratio(x: Array, y: Array) -> float:
    """Where y is zero x is too: an empty row."""
    return float(np.divide(x, y, out=np.zeros_like(x), where=y > 0).max(initial=0.0))


def rounding_norm_of_rows(norm: float, rows: Sequence[tuple[float, float]]) -> float:
    """From the norm of S and the long rows of its blocks."""
    longest, beyond = max(times for times, _ in rows), sum(squares for _, squares in rows)
    return min(norm * longest, norm + math.sqrt(beyond))
