"""Where a trajectory goes as it is computed: into memory, or into an ``.npy`` file that is never whole in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Protocol

import numpy as np
import torch
from torch import Tensor

from rfp.backends.problem import Problem
from rfp.errors import ArgumentError
from rfp.pages import empty

_NUMPY = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}


class Sink(Protocol):
    """What the runner hands states to: step by step, or all at once if the sink and the backend can."""

    @property
    def takes_whole(self) -> bool: ...

    def place(self, operator: int, step: int) -> Tensor | None:
        """Where the state of a step will be kept, ``[n, B, k]``, for a backend that writes it there itself.

        ``None`` where it is kept otherwise, or not at all. Who asks fills it before :meth:`step` is called.
        """
        ...

    def step(self, operator: int, step: int, state: Tensor) -> Tensor:
        """Keep the state ``[B, n, k]`` of a step, if it is not in its place already; returns it as it is kept."""
        ...

    def whole(self, storage: Tensor) -> None:
        """Keep the trajectories of all operators, ``[n, B, O, P + 1, k]`` of the type that is kept."""
        ...


class Memory:
    """The whole trajectory in one tensor, ``[n, B, O, P + 1, k]``.

    Args:
        problem: What is computed.
        num_kept: Steps that are kept, if not all (:class:`KeptSteps` hands them over).
    """

    takes_whole = True

    def __init__(self, problem: Problem, num_kept: int | None = None) -> None:
        self.dtype, self.differentiable = problem.kept_dtype, problem.differentiable
        b, n, k = problem.shape
        self._shape = (n, b, len(problem.operators), problem.num_steps + 1 if num_kept is None else num_kept, k)
        self._device = problem.device
        self._storage: Tensor | None = None
        self._parts: list[Tensor] = []
        self._has_places = not self.differentiable and self.dtype == problem.dtype
        self._filled: set[tuple[int, int]] = set()

    @property
    def storage(self) -> Tensor:
        """What was kept, when all of it is there."""
        if self._storage is None:  # autograd wants the steps as separate tensors, joined once
            n, b, o, p, k = self._shape
            self._storage = torch.stack(self._parts, dim=1).view(n, o, p, b, k).permute(0, 3, 1, 2, 4).to(self.dtype)
        return self._storage

    def place(self, operator: int, step: int) -> Tensor | None:
        if not self._has_places:
            return None
        self._filled.add((operator, step))
        return self._of_step(operator, step)

    def step(self, operator: int, step: int, state: Tensor) -> Tensor:
        if self.differentiable:
            self._parts.append(state.transpose(0, 1))
            return state
        kept = self._of_step(operator, step)
        return kept if (operator, step) in self._filled else kept.copy_(state.transpose(0, 1))

    def _of_step(self, operator: int, step: int) -> Tensor:
        if self._storage is None:
            self._storage = empty(*self._shape, dtype=self.dtype, device=self._device)
        return self._storage[:, :, operator, step]

    def whole(self, storage: Tensor) -> None:
        self._storage = storage


class KeptSteps:
    """Hands only some steps on to a sink; the others are computed and dropped.

    Args:
        sink: Where they go, as its steps 0, 1, ...
        steps: Their numbers, ascending.
    """

    takes_whole = False

    def __init__(self, sink: Sink, steps: Sequence[int]) -> None:
        self.sink, self._place = sink, {step: i for i, step in enumerate(steps)}

    def place(self, operator: int, step: int) -> Tensor | None:
        return self.sink.place(operator, self._place[step]) if step in self._place else None

    def step(self, operator: int, step: int, state: Tensor) -> Tensor:
        return self.sink.step(operator, self._place[step], state) if step in self._place else state

    def whole(self, storage: Tensor) -> None:
        raise NotImplementedError("steps are dropped one after the other")


class NpyFile:
    """An encoding appended to a file or a pipe: ``[n, C]``, or ``[n, B, C]`` for several trajectories.

    One large graph comes step by step. The file is then in Fortran order, in which the k columns of a step are
    contiguous and steps follow each other, so that nothing is sought back. Many small graphs come graph by graph, by
    :meth:`rows`, in C order. Plain writes are used, not a memory map: on a full disk a map kills the process, a write
    raises an error.

    Args:
        file: Anything with ``write``.
        shape: Shape of the whole array.
        dtype: Type of the file.
    """

    takes_whole = False

    def __init__(self, file: IO[bytes], shape: tuple[int, ...], dtype: torch.dtype) -> None:
        if dtype not in _NUMPY:
            raise ArgumentError(f"an .npy file holds {', '.join(map(str, _NUMPY))}, got storage_dtype={dtype}")
        self.file, self.dtype = file, dtype
        descr = np.lib.format.dtype_to_descr(np.dtype(_NUMPY[dtype]))
        self._header = {"descr": descr, "shape": shape}

    def place(self, operator: int, step: int) -> None:
        return None

    def step(self, operator: int, step: int, state: Tensor) -> Tensor:
        # [B, n, k] -> [k, B, n]: in Fortran order the nodes run fastest and the channels slowest.
        kept = state.detach().to(self.dtype).permute(2, 0, 1).cpu()
        self._append(kept, by_steps=True)
        return kept

    def whole(self, storage: Tensor) -> None:
        raise NotImplementedError("a file takes one step after the other")

    def rows(self, values: Tensor) -> None:
        """Append the rows of the next nodes."""
        self._append(values, by_steps=False)

    def _append(self, values: Tensor, *, by_steps: bool) -> None:
        """Values as they lie, after the header."""
        if self._header:
            np.lib.format.write_array_header_1_0(self.file, {**self._header, "fortran_order": by_steps})
            self._header = {}
        contiguous = values.cpu().contiguous().numpy()
        if contiguous.size:
            self.file.write(contiguous.reshape(-1).view(np.uint8).data)
