"""States that leave the range of their type are an error, the same in every backend; nothing is kept of them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from rfp.backends.problem import Problem, Step
from rfp.errors import NumericalError


class NotFiniteError(NumericalError):
    """States that left the range of their type.

    Args:
        dtype: That type.
        step: The first such step, where it is known.
        operator: The number of its operator, where there are several.
    """

    def __init__(self, dtype: torch.dtype, step: int | None = None, operator: int | None = None) -> None:
        of = "" if operator is None else f" of operator {operator}"
        what = "the states are" if step is None else f"the state of step {step}{of} is"
        super().__init__(
            f"{what} not finite: {dtype} holds numbers up to {torch.finfo(dtype).max:.3g}; normalise more often "
            '(normalization="qr" or "l2", a smaller normalize_every), take fewer steps or an operator of norm at most '
            "1 such as normalized_adjacency, or a wider type (dtype, storage_dtype)"
        )
        self.dtype = dtype


def all_finite(states: Tensor) -> bool:
    """Whether all numbers are finite: one pass without a copy; waits for a GPU."""
    # A finite sum has finite terms; the rare sum that overflows by itself is looked at closely.
    return bool(states.detach().sum().isfinite()) or bool(states.detach().isfinite().all())


def numbered(steps: Iterator[Step], operator: int | None = None) -> Iterator[Step]:
    """The same steps; an overflow that a backend finds on its way is told with the number of its step."""
    step = 0
    while True:
        try:
            yield next(steps)
        except StopIteration:
            return
        except NotFiniteError as error:
            raise NotFiniteError(error.dtype, step, operator) from None
        step += 1


class FiniteWatch:
    """Looks at every state that is kept; raises at the first that is not finite.

    On a CPU at once. On a GPU, where looking would wait for the device, when :meth:`close` is called. Learned operators
    are not watched: their rows sum to 1, and a training step must not wait.

    Args:
        problem: What is computed.
    """

    def __init__(self, problem: Problem) -> None:
        self.several = len(problem.operators) > 1
        self.watches = not problem.differentiable
        # Each step has unit columns, and a product of these overflows at the last step if it does at all.
        bounded = problem.normalization in ("l2", "qr") and problem.normalize_every == 1
        self.last_alone = bounded and problem.kept_dtype == problem.features.dtype
        self.pending: list[tuple[int, int, torch.dtype, Tensor]] = []

    def see(self, operator: int, step: int, state: Tensor) -> None:
        """A state as it is kept, of any shape."""
        if not self.watches:
            return
        if state.device.type != "cpu":
            self.pending.append((operator, step, state.dtype, state.sum(dtype=torch.float64).isfinite()))
        elif not all_finite(state):
            raise self._error(state.dtype, operator, step)

    def see_all(self, storage: Tensor) -> None:
        """A whole result, ``[n, B, O, P + 1, k]``."""
        on_cpu = storage.device.type == "cpu"
        if not self.watches or (self.last_alone and not on_cpu):
            return
        if self.last_alone and all_finite(storage[..., -1, :]):
            return
        sums = storage.sum((0, 1, 4), dtype=None if on_cpu else torch.float64).isfinite()  # [O, P + 1]
        if bool(sums.all()):
            return
        for step in range(storage.size(3)):
            for operator in range(storage.size(2)):
                if not all_finite(storage[:, :, operator, step]):
                    raise self._error(storage.dtype, operator, step)

    def close(self) -> None:
        """Ask a GPU about what it has seen; waits for it if there is something to ask."""
        if not self.pending:
            return
        fine = torch.stack([flag for *_, flag in self.pending]).tolist()
        for (operator, step, dtype, _), good in zip(self.pending, fine, strict=True):
            if not good:
                raise self._error(dtype, operator, step)

    def _error(self, dtype: torch.dtype, operator: int, step: int) -> NotFiniteError:
        return NotFiniteError(dtype, step, operator if self.several else None)
