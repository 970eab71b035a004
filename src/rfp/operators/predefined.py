r"""The predefined operators: their names, and their values on the entries of :math:`A`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import torch
from torch import Tensor

from rfp.csr import CSR
from rfp.errors import ArgumentError, GraphError, unknown_choice
from rfp.memo import Memo


class Degrees:
    """Sums of absolute weights over rows and columns, and inverse powers of them; each is computed once.

    Args:
        sums: ``(axis, looped) -> [n]``; see :class:`EntryTable`.
        symmetric: Whether the sums over columns are those over rows.
    """

    def __init__(self, sums: Callable[[str, bool], Tensor], *, symmetric: bool = False) -> None:
        self._sums, self._symmetric = cache(sums), symmetric
        self._inverse: dict[tuple[str, bool, float], Tensor] = {}

    def __call__(self, axis: str, looped: bool) -> Tensor:
        return self._sums("row" if self._symmetric else axis, looped)

    def inverse(self, axis: str, looped: bool, exponent: float) -> Tensor:
        """The degrees to the power ``-exponent``; zero where they are."""
        key = ("row" if self._symmetric else axis, looped, exponent)
        if key not in self._inverse:
            degree = self(axis, looped)
            powers = degree.clamp_min(torch.finfo(degree.dtype).tiny).pow(-exponent)
            self._inverse[key] = torch.where(degree > 0, powers, 0.0)
        return self._inverse[key]


@dataclass(frozen=True)
class EntryTable:
    r"""Entries of :math:`A`, all or those of some rows, every diagonal one among them (zero without a self-loop).

    Args:
        row: ``[m]``.
        col: ``[m]``.
        value: ``[m]`` float64.
        degree: ``(axis, looped) -> [n]``: sums of absolute weights over each ``"row"`` or ``"col"`` of :math:`A`, or of
            :math:`\tilde A` if looped.
    """

    row: Tensor
    col: Tensor
    value: Tensor
    degree: Degrees
    # What several operators are computed from, so that each is computed once.
    memo: Memo = field(default_factory=Memo, repr=False)

    @classmethod
    def of(cls, pattern: CSR) -> EntryTable:
        """All entries of a graph (:attr:`rfp.Graph.pattern`)."""

        def degree(axis: str, looped: bool) -> Tensor:
            value = (table.memo.of(_looped, table) if looped else pattern.value).abs()
            with np.errstate(over="ignore"):
                sums = pattern.row_sums(value) if axis == "row" else pattern.column_sums(value)
            # Nobody waits for a GPU to tell; there such a degree makes zeros.
            if sums.device.type == "cpu" and not bool(sums.isfinite().all()):
                node = int((~sums.isfinite()).nonzero()[0])
                raise GraphError(f"the weights at node {node} add up to more than float64 holds; divide all of them")
            return sums

        table = cls(pattern.row, pattern.col, pattern.value, Degrees(degree))
        return table


def _looped(entries: EntryTable) -> Tensor:
    r"""The entries of :math:`\tilde A`: a self-loop of weight 1 on every node that has none."""
    return torch.where((entries.row == entries.col) & (entries.value == 0), 1.0, entries.value)


def _adjacency(entries: EntryTable) -> Tensor:
    return entries.value


def _normalized_adjacency(entries: EntryTable) -> Tensor:
    left = entries.degree.inverse("row", True, 0.5)
    right = entries.degree.inverse("col", True, 0.5)
    return left[entries.row] * entries.memo.of(_looped, entries) * right[entries.col.long()]


def _normalized_laplacian(entries: EntryTable) -> Tensor:
    return (entries.row == entries.col).to(torch.float64) - entries.memo.of(_normalized_adjacency, entries)


def _random_walk(entries: EntryTable) -> Tensor:
    return entries.degree.inverse("row", False, 1.0)[entries.row] * entries.value


# Name -> its values on the entries of A. A new predefined operator is one function and one line here.
OPERATORS: dict[str, Callable[[EntryTable], Tensor]] = {
    "adjacency": _adjacency,
    "normalized_adjacency": _normalized_adjacency,
    "normalized_laplacian": _normalized_laplacian,
    "random_walk": _random_walk,
}

# What is known of |S|: Schur's test with the roots of the degrees gives 1 for any weights and directions.
NORMS = {"normalized_adjacency": 1.0, "normalized_laplacian": 2.0}
# One word for a directed graph.
BOTH_DIRECTIONS = "both_directions"

_NAME = re.compile(r"(?P<base>[a-z_]+)(?P<sym>\.sym)?(?P<transposed>\.T)?(\^(?P<power>\d+))?")


def parse_name(name: str, others: Sequence[str] = ()) -> re.Match[str]:
    """The parts of an operator's name: ``base``, ``sym``, ``transposed``, ``power``; raises if there is no such name.

    Args:
        name: Such as ``"adjacency.sym.T^2"``.
        others: Further names to list in the error.
    """
    parts = _NAME.fullmatch(name)
    if parts is None or parts["base"] not in OPERATORS:
        known = (*OPERATORS, BOTH_DIRECTIONS, *others)
        raise unknown_choice("operator (without the suffixes .sym .T .both ^p)", name, known)
    if parts["power"] is not None and int(parts["power"]) < 1:
        raise ArgumentError(f"the power of an operator must be at least 1, got {name!r}")
    return parts


_BOTH = re.compile(r"(?P<base>[a-z_]+)\.both(?P<power>\^\d+)?")


def expanded(name: str) -> tuple[str, ...]:
    """The operators that a name stands for: two for ``NAME.both`` and ``"both_directions"``, else the one.

    Example:
        >>> expanded("both_directions"), expanded("adjacency.both^2"), expanded("adjacency")
        (('normalized_adjacency', 'normalized_adjacency.T'), ('adjacency^2', 'adjacency.T^2'), ('adjacency',))
    """
    parts = _BOTH.fullmatch("normalized_adjacency.both" if name == BOTH_DIRECTIONS else name)
    if parts is None:
        return (name,)
    power = parts["power"] or ""
    return (parts["base"] + power, parts["base"] + ".T" + power)
