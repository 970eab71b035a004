"""What an encoding is: the trajectories of every operator, and a report of what ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

import rfp  # the methods that compute are those of modules further up, found when they are called
from rfp.errors import ArgumentError, NumericalError
from rfp.graph import Graph
from rfp.normalization import Events, count_events
from rfp.settings import Settings

# Ways of orthonormalising that a plain full-rank QR never needs.
_FALLBACKS = ("cholesky_dropping", "gram_schmidt")


def kept_steps(keep: str | Sequence[int], num_steps: int) -> list[int]:
    """The steps that ``"last"``, ``"all"`` or a list of them means; negative ones count from the end.

    Example:
        >>> kept_steps("last", 4), kept_steps("all", 2), kept_steps([0, -1], 4)
        ([4], [0, 1, 2], [0, 4])
    """
    if isinstance(keep, str):
        known = {"last": [num_steps], "all": list(range(num_steps + 1))}
        if keep not in known:
            raise ArgumentError(f"the steps to keep must be 'last', 'all' or a list of them, got {keep!r}")
        return known[keep]
    steps = [int(step) + (num_steps + 1 if step < 0 else 0) for step in keep]
    if not steps or min(steps) < 0 or max(steps) > num_steps or len(set(steps)) < len(steps):
        raise ArgumentError(f"the steps to keep must be from 0 to {num_steps}, each once, got {list(keep)}")
    return steps


@dataclass(frozen=True)
class Report:
    """What ran: the backend and why, how often each method of orthonormalisation, how many columns were dependent.

    Args:
        backend: Its name.
        reason: Why it was chosen.
        steps: The events of each step; those that a GPU still counts are waited for when somebody asks.
    """

    backend: str
    reason: str
    steps: Sequence[Events] = ()

    @cached_property
    def events(self) -> Counter[str]:
        """The events of all steps, added up."""
        return count_events(self.steps)

    @property
    def dependent_columns(self) -> int:
        """Columns set to zero because they depend on earlier ones, over all steps, graphs and trajectories."""
        return self.events["dependent_columns"]

    def check_strict(self) -> None:
        """Raise if the result departs anywhere from a plain full-rank QR."""
        used = [name for name in _FALLBACKS if self.events[name]]
        if used or self.dependent_columns:
            raise NumericalError(
                f"strict=True: {self.dependent_columns} dependent columns were set to zero"
                f"{' and ' + ' and '.join(used) + ' was needed' if used else ''}; use fewer channels, "
                "normalise more often, or float64"
            )


@dataclass(frozen=True)
class Trajectory:
    r"""The trajectories :math:`t_1, \dots, t_B` of every operator.

    Args:
        storage: ``[n, B, O, P + 1, k]``, node-first, so that a node's whole encoding is contiguous.
        report: What ran.
        settings: The arguments, where :func:`rfp.encode` made it: what its products mean depends on them
            (:mod:`rfp.products`). Of given features the distribution is taken to be standard.
        graph: Where :func:`rfp.encode` made it; its keys are those the features were drawn with.
        drawn: Whether the features were drawn, not given.
        stored_factors: :attr:`factors`, where they are not those of the states: nodes were added.
    """

    storage: Tensor
    report: Report
    settings: Settings | None = field(default=None, repr=False)
    graph: Graph | None = field(default=None, repr=False)
    drawn: bool = field(default=True, repr=False)
    stored_factors: Tensor | None = field(default=None, repr=False)

    @property
    def states(self) -> Tensor:
        """``[B, n, P + 1, O k]``: step ``p`` of all operators side by side. A view for one operator."""
        n, b, o, p, k = self.storage.shape
        return self.storage.permute(1, 0, 3, 2, 4).reshape(b, n, p, o * k)

    def flat(self) -> Tensor:
        r"""``[B, n, C]``, C = O (P + 1) k. Always a view.

        :math:`r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}` (Eq. 2) of the first operator, then of the second.
        """
        return self.storage.flatten(2).transpose(0, 1)

    def node_first(self) -> Tensor:
        """``[n, C]``, or ``[n, B, C]`` for several trajectories: the form PyG batches correctly. Always a view."""
        flat = self.storage.flatten(2)
        return flat[:, 0] if flat.size(1) == 1 else flat

    def last(self) -> Tensor:
        """``[B, n, O k]``: the last step alone."""
        return self.states[:, :, -1]

    def select(self, keep: str | Sequence[int]) -> Tensor:
        """``[n, B, O K k]``: only the K steps that are kept (:func:`kept_steps`); a view for one step."""
        steps = kept_steps(keep, self.storage.size(3) - 1)
        chosen = self.storage[:, :, :, steps[0] : steps[0] + 1] if len(steps) == 1 else self.storage[:, :, :, steps]
        return chosen.flatten(2)

    @cached_property
    def factors(self) -> Tensor:
        r"""``[O, P + 1, B, k, k]`` float64: :math:`W_p` of every step (:func:`rfp.new_nodes.step_factors`)."""
        if self.stored_factors is not None:
            return self.stored_factors
        found: Tensor = rfp.new_nodes.step_factors(self)
        return found

    def extend(self, new_edges: Any, **arguments: Any) -> Trajectory:
        """Rows of nodes that arrive later, all others kept: :func:`rfp.new_nodes.extend`."""
        return cast(Trajectory, rfp.new_nodes.extend(self, new_edges, **arguments))

    def replay(self, graph: Any, **arguments: Any) -> Trajectory:
        """All rows of a larger graph with the factors of this one: :func:`rfp.new_nodes.replay`."""
        return cast(Trajectory, rfp.new_nodes.replay(self, graph, **arguments))

    def save(self, path: str | Path) -> None:
        """What :meth:`extend` and :meth:`replay` need, in a file: :func:`rfp.new_nodes.save`."""
        rfp.new_nodes.save(self, path)

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> Trajectory:
        """Read what :meth:`save` wrote: :func:`rfp.new_nodes.load`."""
        return cast(Trajectory, rfp.new_nodes.load(path, device))
