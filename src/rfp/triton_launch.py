"""Triton: where a launch goes, and launches that are repeated without looking for the compiled kernel each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

# From here on a compiled kernel is launched with all arguments of its source, compile-time constants among them.
_TAKES_ALL_ARGUMENTS = (3, 4)


class RepeatedLaunches:
    """Launches of a loop: under one name always the same kernel and arguments, but for where some tensors lie.

    To find the kernel that was compiled for given arguments is most of what a launch costs the host. It depends on
    their types, on which integers are 1 or multiples of 16, and on which tensors begin at multiples of 16 bytes. Here
    it is found at the first launch of a name, and again where a tensor lies otherwise.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Callable[..., None]] = {}

    def __call__(
        self,
        name: str,
        kernel: Any,
        grid: tuple[int, ...],
        moving: Sequence[Tensor],
        fixed: Sequence[Any],
        constants: Mapping[str, Any],
        **options: Any,
    ) -> None:
        """Launch.

        Args:
            name: Under which all but ``moving`` is the same whenever it is launched.
            kernel: A Triton function.
            grid: Its programs.
            moving: The first of its arguments, tensors at changing places.
            fixed: Those that follow; of ``moving`` they depend on the strides alone.
            constants: The last of its arguments, known at compilation, in their order.
            options: Of the compiler, ``num_warps`` for instance.
        """
        key = (name, *[(tensor.data_ptr() % 16 == 0, tensor.stride()) for tensor in moving])
        launch = self._found.get(key)
        if launch is not None:
            launch(*moving, *fixed, *constants.values())
            return
        compiled = kernel[grid](*moving, *fixed, **constants, **options)
        if compiled is not None and _numbers() >= _TAKES_ALL_ARGUMENTS:  # None: interpreted
            self._found[key] = compiled[(*grid, 1, 1)[:3]]


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """A block whose launches go to the GPU of a tensor, if it is on one."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def _numbers() -> tuple[int, ...]:
    return tuple(int(part) for part in version("triton").split(".")[:2])
