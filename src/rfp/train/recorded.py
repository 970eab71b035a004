"""A function of fixed tensors, called again and again: recorded once as a CUDA graph where that is possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch

from rfp.train.gpu_memory import forget_workspaces, free_memory

# Calls before the recording: libraries allocate what they need in the first ones.
CALLS_BEFORE_RECORDING = 3
# Free memory that a recording wants, as a multiple of what a call was seen to take. A call hands back what does not fit
# its next tensor, a recording cannot; and one that runs full keeps for good what it had (PyTorch 2.11).
_ROOM = 1.5


class Recorded:
    """Calls a function that reads and writes the same tensors every time; on a GPU, launches it as one.

    Hundreds of small kernels cost the host more than the device: replayed, they cost one launch. What cannot be
    recorded (something waits for the device, or its tensors nearly fill the memory) is called as it is, and
    :attr:`refused` says why.

    Args:
        function: Without arguments or result; it may not look at what is computed.
        device: Where it runs; on a CPU it is just called.
        allowed: ``False`` to never record it.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, *, allowed: bool = True) -> None:
        self._function, self._device = function, device
        self._calls, self._taken = 0, 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self.refused = "" if allowed and device.type == "cuda" else "not tried"

    def __call__(self) -> None:
        self._calls += 1
        if self._graph is None and not self.refused and self._calls > CALLS_BEFORE_RECORDING:
            self._record()
        if self._graph is not None:
            self._graph.replay()
        elif self.refused:
            self._function()
        else:
            torch.cuda.reset_peak_memory_stats(self._device)
            standing = torch.cuda.memory_allocated(self._device)
            with beside(self._device):
                self._function()
            self._taken = torch.cuda.max_memory_allocated(self._device) - standing

    def _record(self) -> None:
        if _ROOM * self._taken > free_memory(self._device):
            self.refused = "too little free memory"
            return
        graph = torch.cuda.CUDAGraph()
        try:
            with recording(graph):
                self._function()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # slower, but no harm
            self.refused = str(error).splitlines()[0]
            return
        self._graph = graph


@contextmanager
def beside(device: torch.device) -> Iterator[None]:
    """Within the block a GPU works on a stream of its own, as a recording that follows wants it.

    It is the same every time: of what a stream has let go, another can take nothing.
    """
    here, stream = torch.cuda.current_stream(), _aside(device)
    stream.wait_stream(here)
    with torch.cuda.stream(stream):
        yield
    here.wait_stream(stream)


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


@contextmanager
def recording(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """Within the block everything goes into the graph, which has cuBLAS workspaces of its own: of nothing else."""
    forget_workspaces()
    try:
        with torch.cuda.graph(graph):
            yield
    finally:
        forget_workspaces()
