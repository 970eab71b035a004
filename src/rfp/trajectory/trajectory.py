"""The result of an encoding, and what can be done with it later, which is loaded when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from rfp.trajectory.stored_states import StoredStates


@dataclass(frozen=True, eq=False)
class Trajectory(StoredStates):
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

    def extend(self, new_edges: Any, **arguments: Any) -> Trajectory:
        """Rows of nodes that arrive later, all others kept: :func:`rfp.new_nodes.extend`."""
        from rfp.trajectory.arrivals import extend

        return extend(self, new_edges, **arguments)

    def replay(self, graph: Any, **arguments: Any) -> Trajectory:
        """All rows of a larger graph with the factors of this one: :func:`rfp.new_nodes.replay`."""
        from rfp.trajectory.replay import replay

        return replay(self, graph, **arguments)

    def save(self, path: str | Path) -> None:
        """What :meth:`extend` and :meth:`replay` need, in a file: :func:`rfp.new_nodes.save`."""
        from rfp.trajectory.state_file import save_trajectory

        save_trajectory(self, path)

    @staticmethod
    def load(path: str | Path, device: torch.device | str = "cpu") -> Trajectory:
        """Read what :meth:`save` wrote: :func:`rfp.new_nodes.load`."""
        from rfp.trajectory.state_file import load_as

        return load_as(Trajectory, path, device)
