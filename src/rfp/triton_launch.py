"""Triton: where a launch goes, and launches that are repeated without looking for the compiled kernel each time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

# From here on a compiled kernel is launched with all arguments of its source, compile-time constants among them.
_TAKES_ALL_ARGUMENTS = (3, 4)


# What was compiled, by all that it depends on, and the constants among the arguments of its source.
_compiled: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


def launch_kernel(kernel: Any, grid: tuple[int, ...], arguments: Sequence[Any], **constants: Any) -> Any:
    """Launch on the current device: ``kernel[grid](*arguments, **constants)``, found by a short way.

    To find the kernel that was compiled for given arguments is most of what a launch costs the host. It depends on
    their types, on which integers are 1 or multiples of 16 (of those that a kernel specialises), and on which tensors
    begin at multiples of 16 bytes.

    Args:
        kernel: A Triton function.
        grid: Its programs.
        arguments: The first of its arguments, a tensor among them first.
        constants: The others, known at compilation, in their order, and what the compiler is told (``num_warps``).

    Returns:
        The compiled kernel; ``None`` in the interpreter.
    """
    device = arguments[0].get_device()
    kinds: list[Any] = [id(kernel), device]
    read = []
    for argument in arguments:
        if isinstance(argument, Tensor):
            address = argument.data_ptr()
            kinds += (argument.dtype, address % 16 == 0)
            read.append(address)
        else:
            kinds.append(_kind(argument))
            read.append(argument)
    kinds += constants.items()
    key = tuple(kinds)
    found = _compiled.get(key)
    if found is None:
        compiled = kernel[grid](*arguments, **constants)
        if _can_be_launched(compiled):
            _compiled[key] = compiled, tuple(constants[name] for name in kernel.arg_names[len(arguments) :])
        return compiled
    compiled, known = found
    _launch(compiled, (*grid, 1, 1)[:3], _current_stream()(device), (*read, *known))
    return compiled


def _launch(compiled: Any, grid: tuple[int, ...], stream: int, arguments: Sequence[Any]) -> None:
    """``compiled[grid](*arguments)`` on a stream, by what that calls in the end, with less for the host to do.

    Args:
        compiled: A kernel that was launched before.
        grid: Three numbers of programs.
        stream: Of the current device.
        arguments: All of its source, tensors by their address: a launch reads that as it is, and asks a tensor for it,
            and the driver whether it may. Whoever launches holds the tensors until then.
    """
    if _watched():
        compiled[grid](*arguments, stream=stream)
    else:
        compiled.run(*grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *arguments)


def _watched() -> bool:
    """Whether somebody wants to be told of each launch: profilers of Triton do."""
    runtime = _knobs().runtime
    begins, ends = runtime.launch_enter_hook, runtime.launch_exit_hook
    # A function or a list of them, by Triton's version.
    return bool(getattr(begins, "calls", begins) or getattr(ends, "calls", ends))


@cache
def _knobs() -> Any:
    from triton import knobs

    return knobs


@cache
def _current_stream() -> Callable[[int], int]:
    """What tells the current stream of a device, by its number."""
    stream: Callable[[int], int] = active_driver().get_current_stream
    return stream


def _address(argument: Any) -> Any:
    """A tensor as where it lies; all else as it is."""
    return argument.data_ptr() if isinstance(argument, Tensor) else argument


def _kind(argument: Any) -> Any:
    """What a compiled kernel depends on of an argument that is no tensor, or more."""
    if type(argument) is int:
        return (argument == 1) | (argument % 16 == 0) << 1 | argument.bit_length() // 32 << 2
    return argument


class Launch(NamedTuple):
    """A launch that will be repeated.

    Args:
        name: Two launches of one name have the same kernel, device, options, types of arguments and specialised
            integers.
        kernel: A Triton function.
        grid: Its programs.
        moving: The first of its arguments, tensors that may begin anywhere.
        fixed: Those that follow; tensors among them always begin at multiples of 16 bytes, or never do.
        constants: The last of its arguments, known at compilation, in their order.
        options: What the compiler is told, ``num_warps`` for instance.
    """

    name: Hashable
    kernel: Any
    grid: tuple[int, ...]
    moving: Sequence[Tensor]
    fixed: Sequence[Any]
    constants: Mapping[str, Any]
    options: Mapping[str, Any]

    @property
    def key(self) -> tuple[Any, ...]:
        """What decides which compiled kernel it is."""
        return (self.name, *self.constants.values(), *[tensor.data_ptr() % 16 == 0 for tensor in self.moving])


class RepeatedLaunches:
    """Launches of kernels with arguments of the same kinds again and again, as by :func:`launch_kernel`.

    Here a kernel is found by a name, in less time than by its arguments, and again where a tensor begins otherwise.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Any] = {}
        self._compiled: set[tuple[Any, ...]] = set()

    def __call__(self, launch: Launch) -> Any:
        """Launch on the current device.

        Returns:
            The compiled kernel; ``None`` in the interpreter.
        """
        key = launch.key
        _, kernel, grid, moving, fixed, constants, options = launch
        compiled = self._found.get(key)
        if compiled is not None:
            arguments = (*map(_address, moving), *map(_address, fixed), *constants.values())
            _launch(compiled, (*grid, 1, 1)[:3], _current_stream()(moving[0].get_device()), arguments)
            return compiled
        _check_order(kernel, moving, fixed, constants)
        compiled = kernel[grid](*moving, *fixed, **constants, **options)
        if _can_be_launched(compiled):
            self._found[key] = compiled
        return compiled

    def compile_together(self, launches: Sequence[Launch]) -> None:
        """Compile what several launches of a call need, all at the same time, unless it was before.

        The compiler lets other threads run: several variants of a kernel take hardly longer than the slowest of them.
        """
        if launches[0].key in self._compiled:  # asked at every call; whoever comes with it later is compiled by itself
            return
        with ThreadPoolExecutor(len(launches)) as threads:
            list(threads.map(_compile, launches))
        self._compiled.update(launch.key for launch in launches)


def _compile(launch: Launch) -> None:
    """For the device of its tensors: another thread has a current device of its own."""
    with on_device(launch.moving[0]):
        launch.kernel.warmup(*launch.moving, *launch.fixed, grid=launch.grid, **launch.constants, **launch.options)


class LoopLaunches:
    """Launches of a loop: under one name always the same kernel, grid and arguments, but for where some tensors lie.

    As :class:`RepeatedLaunches`, which builds the arguments anew each time; of a hundred short kernels that is felt.

    Args:
        device: Where the loop runs, which is the current device whenever it launches.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._found: dict[tuple[Any, ...], tuple[Any, tuple[int, ...], tuple[Any, ...]]] = {}
        self._held: list[Sequence[Any]] = []  # tensors of which the launches know the places alone

    def again(self, name: Hashable, *moving: Tensor) -> bool:
        """Launch as under this name before, with these tensors; ``False`` if :meth:`first` must do it."""
        places = [tensor.data_ptr() for tensor in moving]
        found = self._found.get((name, *[place % 16 == 0 for place in places]))
        if found is None:
            return False
        compiled, grid, others = found
        _launch(compiled, grid, _current_stream()(self._device.index), (*places, *others))
        return True

    def first(
        self,
        name: Hashable,
        kernel: Any,
        grid: tuple[int, ...],
        moving: Sequence[Tensor],
        fixed: Sequence[Any],
        constants: Mapping[str, Any],
        **options: Any,
    ) -> None:
        """Launch, and keep all but ``moving`` under a name. The arguments are those of a :class:`Launch`."""
        _check_order(kernel, moving, fixed, constants)
        compiled = launch_kernel(kernel, grid, (*moving, *fixed), **constants, **options)
        if _can_be_launched(compiled):
            key = (name, *[tensor.data_ptr() % 16 == 0 for tensor in moving])
            self._found[key] = compiled, (*grid, 1, 1)[:3], (*map(_address, fixed), *constants.values())
            self._held.append(fixed)


def num_blocks(items: int, size: int) -> int:
    """Blocks of ``size`` items: ``triton.cdiv``, which takes the host several microseconds."""
    return -(-items // size)


def on_device(tensor: Tensor) -> AbstractContextManager[object]:
    """A block whose launches go to the GPU of a tensor, if it is on one."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def active_driver() -> Any:
    """What Triton talks to a GPU by."""
    from triton.runtime import driver

    return driver.active


def _check_order(kernel: Any, moving: Sequence[Tensor], fixed: Sequence[Any], constants: Mapping[str, Any]) -> None:
    assert kernel.arg_names[len(moving) + len(fixed) :] == list(constants)


def _can_be_launched(compiled: Any) -> bool:
    """Whether a launch returned a compiled kernel, and not ``None`` as the interpreter, that takes all arguments."""
    import triton

    numbers = tuple(int(part) for part in triton.__version__.split(".")[:2])
    return compiled is not None and numbers >= _TAKES_ALL_ARGUMENTS
