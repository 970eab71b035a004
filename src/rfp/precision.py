"""In what precision a block computes: how exactly float32 matrices are multiplied on a GPU, and without autocast.

And that elementwise functions on a CPU have theirs from the first call on. PyTorch hands ``log``, ``sqrt``, ``cos`` and
others to Intel's MKL, on each thread a part of the numbers, and MKL looks for the kernel of a function when it is first
called. In its versions 2024.2 a thread that comes while another one is looking may be given a kernel of low accuracy:
of the first large call of a process, one thread's part then has half the digits, and no later call has [1]_. That is
rare, but whoever promises the same bits must not be the first to call on several threads; so importing this module, as
graphs and normalisations do, calls each function on one number.

References:
    .. [1] https://github.com/pytorch/pytorch/issues/188792
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def matmul_precision(kind: str) -> Iterator[None]:
    """Within the block ``"highest"`` multiplies in float32, ``"high"`` may use TF32, whose mantissa has ten bits.

    The setting is the process's own (``torch.set_float32_matmul_precision``) and is put back at the end; a backward
    pass runs under what holds when it runs.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(kind)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def without_autocast(device_type: str) -> AbstractContextManager[object]:
    """A block in the types that its tensors have. Autocast is left only where it is on, for leaving it takes time."""
    return torch.autocast(device_type, enabled=False) if torch.is_autocast_enabled(device_type) else nullcontext()


def full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """A function that computes in the types that its tensors have, called within autocast too."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        with without_autocast("cpu"), without_autocast("cuda"):
            return function(*args, **kwargs)

    return called


def each_in_full_precision(items: Iterator[R]) -> Iterator[R]:
    """The items of an iterator, each made without autocast, which whoever takes them keeps."""
    nothing = object()
    while True:
        with without_autocast("cpu"), without_autocast("cuda"):
            item = next(items, nothing)
        if item is nothing:
            return
        yield item  # type: ignore[misc]


def _call_vector_functions() -> None:
    """Call once, on one thread, what PyTorch computes by MKL."""
    names = "acos asin atan cos erf erfc erfinv exp log log10 log2 sin sqrt tan tanh trunc"
    for dtype in (torch.float32, torch.float64):
        number = torch.full((1,), 0.5, dtype=dtype, device="cpu")  # whatever device is the default one
        for name in names.split():
            getattr(torch, name)(number)


if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
    _call_vector_functions()  # once: an import makes other threads wait
