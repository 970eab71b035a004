"""Trajectories as they are stored, the views of them, and what they were computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from torch import Tensor

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.report import Report
from rfp.settings import Settings

# What reports call a trajectory that nodes were added to.
REPLAY = "replay"


def kept_steps(keep: str | Sequence[int], num_steps: int) -> list[int]:
    """The steps that ``"last"``, ``"all"`` or a list of them means; negative ones count from the end.

    Example:
        >>> kept_steps("last", 4), kept_steps("all", 2), kept_steps([0, -1], 4)
        ([4], [0, 1, 2], [0, 4])
    """
    if isinstance(keep, str):
        if keep not in ("last", "all"):
            raise ArgumentError(f"the steps to keep must be 'last', 'all' or a list of them, got {keep!r}")
        return [num_steps] if keep == "last" else list(range(num_steps + 1))
    steps = [int(step) + (num_steps + 1 if step < 0 else 0) for step in keep]
    if not steps or min(steps) < 0 or max(steps) > num_steps or len(set(steps)) < len(steps):
        raise ArgumentError(f"the steps to keep must be from 0 to {num_steps}, each once, got {list(keep)}")
    return steps


@dataclass(frozen=True, eq=False)
class StoredStates:
    """What a :class:`rfp.Trajectory` holds, which says what the fields are, and the views of it."""

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
        """``[n, B, O K k]``: the K steps kept (:func:`rfp.trajectory.kept_steps`).

        A view if they are all, or in a row and of one operator.
        """
        steps = kept_steps(keep, self.storage.size(3) - 1)
        following = slice(steps[0], steps[0] + len(steps))
        one_run = steps == list(range(following.start, following.stop))
        return self.storage[:, :, :, following if one_run else steps].flatten(2)

    @cached_property
    def factors(self) -> Tensor:
        r"""``[O, P + 1, B, k, k]`` float64: :math:`W_p` of every step (:func:`rfp.new_nodes.step_factors`)."""
        if self.stored_factors is not None:
            return self.stored_factors
        from rfp.trajectory.step_factors import find_factors

        settings, graph = self.origin()
        return find_factors(self.storage, settings, graph, drawn=self.drawn)

    @property
    def is_grown(self) -> bool:
        """Whether nodes were added (:mod:`rfp.new_nodes`): rows are then not what the loop makes of the graph."""
        return self.report.backend == REPLAY

    def origin(self) -> tuple[Settings, Graph]:
        """The settings and the graph, which must be one and known: :func:`rfp.encode` made the trajectory."""
        if self.settings is None or self.graph is None:
            raise ArgumentError(
                "the trajectory does not know its graph and arguments; make it with rfp.encode, or read one with "
                "rfp.Trajectory.load"
            )
        if self.graph.num_graphs != 1:
            raise ArgumentError(
                f"new nodes are added to one graph, but this is a batch of {self.graph.num_graphs}; encode the graph "
                "by itself (its rows are the same)"
            )
        return self.settings, self.graph


States = TypeVar("States", bound=StoredStates)
