"""States that leave the range of their type are an error, the same in every backend; nothing is kept of them."""

from __future__ import annotations

import math
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
    """Looks at every state that is kept, learned operators' too; raises at the first that is not finite.

    On a CPU at once. A GPU is asked once a call, when its result is handed over: whole trajectories by :meth:`see_all`,
    single steps by :meth:`close`. While a CUDA graph is recorded it is not asked, since it cannot be waited for; nor is
    anything looked at where the caller looks at what becomes of the states (``looks=False``): in the forward pass of a
    training step, whose loss is NaN then. No backend makes finite numbers of states that are not.

    Args:
        problem: What is computed.
        looks: ``False`` to look at nothing.
        recorded: Whether what is kept is something that is made of the states.
        qr_tells: Whether each QR on a GPU looks at what it is given, and tells of it by itself: one question less.
    """

    def __init__(self, problem: Problem, looks: bool = True, *, recorded: bool = False, qr_tells: bool = False) -> None:
        self.several = len(problem.operators) > 1
        self.watches = looks and not (problem.device.type == "cuda" and torch.cuda.is_current_stream_capturing())
        # A QR of what is not finite is NaN throughout, and so is every QR after it: the last step tells of all.
        # (Under l2 a NaN that nobody is joined to is gone at the next step.)
        by_qr = problem.normalization == "qr" and problem.normalize_every == 1
        self.last_alone = by_qr and problem.kept_dtype == problem.dtype
        # Each QR on a CPU looks at what it is given and tells of it by itself (:class:`NotFiniteError`).
        self.ends = {0, problem.num_steps} if self.last_alone and not recorded else None
        self.was_told = qr_tells and self.last_alone and problem.num_steps > 0 and problem.device.type != "cpu"
        self.pending: list[tuple[int, int, torch.dtype, Tensor]] = []

    def see(self, operator: int, step: int, state: Tensor) -> None:
        """A state as it is kept, of any shape."""
        if not self.watches:
            return
        if state.device.type != "cpu":
            flag = state.detach().sum(dtype=torch.float64).isfinite()
            self.pending.append((operator, step, state.dtype, flag))
        elif (self.ends is None or step in self.ends) and not all_finite(state):
            raise self._error(state.dtype, operator, step)

    def see_all(self, storage: Tensor) -> None:
        """A whole result, ``[n, B, O, P + 1, k]``; waits for a GPU."""
        if not self.watches or self.was_told:
            return
        storage = storage.detach()
        looked_at = storage[..., -1:, :] if self.last_alone else storage
        # A finite sum has finite terms. In float64, which a CPU is slow at, no sum of others overflows. Over the nodes
        # alone a CPU adds rows of numbers to one row, in a third of the time or less; a GPU is asked for few numbers.
        on_cpu = storage.device.type == "cpu"
        if on_cpu:
            fine = bool(looked_at.sum(0).isfinite().all())
        else:  # each question to a GPU is a launch or more
            fine = all(map(math.isfinite, looked_at.sum((0, 1, 4), dtype=torch.float64).flatten().tolist()))
        if fine:
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
