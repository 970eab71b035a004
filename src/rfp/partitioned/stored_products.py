"""States in files, for the ladder of :mod:`rfp.backends.sparse.orthonormal`: Gram matrices and products of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.partitioned.rounds_of_tasks import Rounds
from rfp.partitioned.step_plan import StepPlan

Array = NDArray[Any]


@dataclass(frozen=True)
class StoredState:
    """A state in files, as the ladder sees it: it asks for Gram matrices and products, never for numbers."""

    name: str
    dtype: torch.dtype


class StoredProducts:
    """What computes Gram matrices of a stored state and applies factors to it, for the ladder; keeps the factors.

    Args:
        rounds: Run the tasks.
        step: The step that is made.
        known: Gram matrices that are there already, by the name of their state.
    """

    def __init__(self, rounds: Rounds, step: StepPlan, known: dict[str, Array]) -> None:
        self.rounds, self.step, self.known = rounds, step, known
        self.factors: list[Array] = []
        self.vectors: Array | None = None

    def gram(self, a: StoredState) -> Tensor:
        found = self.known.get(a.name)
        return torch.from_numpy(self.rounds.gram(self.step, a.name) if found is None else found)[None]

    def apply(self, a: StoredState, weight: Tensor) -> StoredState:
        target = f"{self.step.target}/pass-{len(self.factors)}"
        self.factors.append(weight[0].numpy())
        self.rounds.apply(self.step, a.name, target, self.factors[-1], self.rounds.plan.blocks)
        return StoredState(target, a.dtype)

    def by_vectors(
        self,
        a: StoredState,
        q: StoredState,
        chosen: list[tuple[int, int]],
        exact: Callable[[Tensor, int, int], Tensor],
    ) -> StoredState:
        r"""The last rung from a QR of each block: :math:`a_i = Q_i R_i`, the R_i under one another :math:`= Q' R`.

        R has the lengths and angles of a's columns to rounding, whatever their condition, so the rule for dependent
        columns is applied to R; the rows of the result are :math:`Q_i Q'_i` times what comes out. Two passes over the
        state, k x k matrices through the scheduler.
        """
        trajectories = [b for _, b in chosen]
        parts = self.rounds.triangles(self.step, a.name, trajectories)  # [blocks, chosen, k, k]
        num_blocks, _, k, _ = parts.shape
        self.vectors = np.full((num_blocks, self.rounds.plan.num_trajectories, k, k), np.nan)
        for i, b in enumerate(trajectories):
            basis, r = np.linalg.qr(parts[:, i].reshape(-1, k))
            self.vectors[:, b] = (basis @ exact(torch.from_numpy(r), 0, b).numpy()).reshape(num_blocks, k, k)
        target = f"{self.step.target}/vectors"
        self.rounds.apply_to_basis(self.step, a.name, q.name, target, self.vectors, self.rounds.plan.blocks)
        return StoredState(target, a.dtype)
