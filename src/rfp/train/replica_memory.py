r"""How many replicas fit in the memory of a CPU, known before they are made.

A GPU that is full says so. A CPU does not: the system promises more memory than it has, and ends a process (this one or
another) when the promise is called in. So a program of two replicas and one of three train for a moment, and the bytes
of their tensors are counted after every operation. The operations are the same for any number of replicas but one, and
what is alive after operation i grows with it by as much as from two to three:

.. math:: \mathrm{bytes}(R) = \max_i \, a_i + b_i R
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rfp.errors import RFPError
from rfp.estimate import available_memory
from rfp.nn import RFPModel
from rfp.pages import LEAST_BYTES, give_back_memory

# Of the memory that is free: the rest is for what operations need for themselves, for holes between tensors and for
# whoever else is at work.
_PART_OF_FREE = 0.6


class ReplicaMemoryError(RFPError, MemoryError):
    """Replicas need more memory than they may take."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The bytes of all tensors that were made within the block and are still alive, after each operation.

    What an operation needs for itself is not seen, nor are sparse tensors, which replicas share.

    Args:
        most: Raise :class:`ReplicaMemoryError` as soon as there are more.

    Example:
        >>> import torch
        >>> with LiveBytes(most=1 << 20) as counted:
        ...     kept = torch.zeros(10)
        ...     kept = (kept + 1) * 2
        >>> counted.after
        [40, 80, 120]
        >>> counted.now
        40
    """

    def __init__(self, most: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now, self.most = 0, most
        self.after: list[float] = []
        self._alive: dict[int, weakref.ref[UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in tree_leaves(out):
            if isinstance(one, Tensor) and one.layout == torch.strided:
                self._count(one.untyped_storage())
        self.after.append(self.now)
        if self.now > self.most:
            raise ReplicaMemoryError(f"more than {self.most:,.0f} bytes")
        return out

    def _count(self, storage: UntypedStorage) -> None:
        number, size = id(storage), storage.nbytes()
        if number in self._alive:
            return

        def gone(_: weakref.ref[UntypedStorage]) -> None:
            del self._alive[number]
            self.now -= size

        self._alive[number] = weakref.ref(storage, gone)
        self.now += size


class ReplicaRoom:
    """Room for replicas of one kind in the memory of a CPU.

    Args:
        train: Makes a program of so many replicas and trains it for two epochs: in the second all is in its place.
        share: Part of the free memory that they may take, where several processes divide it.
        guess: Bytes that each of them takes at most (:func:`generous_guess`); where so many fit, nothing is counted.
    """

    def __init__(self, train: Callable[[int], object], share: float = 1.0, guess: float = math.inf) -> None:
        give_back_memory()
        self._guess = guess
        self._train, self._free = train, available_memory()
        self._most = math.inf if self._free is None else _PART_OF_FREE * share * self._free
        self._counted: dict[int, list[float]] = {}

    def check(self, num_replicas: int, num_seeds: int = 1) -> None:
        """Raise unless so many may train together.

        Those of several seeds are taken for as many programs side by side, a little more than they are.

        Raises:
            ReplicaMemoryError: They, or even one of them, would take more memory than they may.
        """
        if self._most == math.inf or num_replicas * self._guess <= self._most:
            return
        if num_seeds * self.needed(num_replicas // num_seeds) <= self._most:
            return
        what = "a model alone needs" if num_replicas == 1 else f"{num_replicas} models together need"
        raise ReplicaMemoryError(
            f"out of memory: {what} more than {self._most / 1e9:.2g} GB to train, the part that it may take of "
            f"{(self._free or 0) / 1e9:.2g} GB; lower model.hidden_channels or the size of the encodings, or use "
            "fewer --jobs"
        )

    def needed(self, num_replicas: int) -> float:
        """Bytes that so many of one seed take while they train; infinite if two or three take more than they may."""
        if num_replicas == 1:
            return max(self._after(1))
        two, three = self._after(2), self._after(3)
        if len(two) != len(three):  # the first of them computed what the next programs find
            two = self._counted[2] = self._count(2)
        return max(two) if num_replicas == 2 else extrapolated(two, three, num_replicas)

    def _after(self, num_replicas: int) -> list[float]:
        if num_replicas not in self._counted:
            self._counted[num_replicas] = self._count(num_replicas)
        return self._counted[num_replicas]

    def _count(self, num_replicas: int) -> list[float]:
        counted = LiveBytes(self._most)
        try:
            with counted:
                self._train(num_replicas)
        except ReplicaMemoryError:
            return [math.inf]
        return counted.after


def extrapolated(two: Sequence[float], three: Sequence[float], num_replicas: int) -> float:
    """The most bytes that are alive at a time, from those after each operation with two replicas and with three.

    The moment at which most is alive is another for many replicas than for three, so every moment is taken by itself.

    Example:
        >>> extrapolated([100, 40], [101, 60], 3), extrapolated([100, 40], [101, 60], 10)
        (101, 200)
    """
    if len(two) != len(three) or max(two) == math.inf:  # not the same moments: as if replicas shared nothing
        return num_replicas * max(max(two) / 2, max(three) / 3)
    return max(first + (num_replicas - 2) * (second - first) for first, second in zip(two, three, strict=True))


def generous_guess(model: RFPModel, num_nodes: int) -> int:
    """Bytes of one replica of a model on one graph: some ten times too many, but to count would take longer.

    A hundred copies of weights, states of all layers, and a matrix of all pairs of nodes, which a learned operator has.
    """
    config = model.config
    states = config.hidden_channels * (config.num_layers + 1) * config.num_trajectories
    return 100 * 4 * (model.num_parameters + num_nodes * (num_nodes + states))


def quick_number(model: RFPModel, num_nodes: int) -> int:
    """How many replicas of a model on one graph a CPU trains together, where more would be slower, one by one.

    As many as have states of less than :data:`~rfp.pages.LEAST_BYTES` in a layer. Larger ones are memory that comes
    fresh from the system at every operation, page by page.
    """
    config = model.config
    return max(1, (LEAST_BYTES - 1) // (4 * num_nodes * config.hidden_channels * config.num_trajectories))
