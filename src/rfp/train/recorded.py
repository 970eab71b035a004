"""A function of fixed tensors, called again and again: recorded once as a CUDA graph where that is possible."""

from __future__ import annotations

from collections.abc import Callable

import torch

# Calls before the recording: libraries allocate what they need in the first ones.
CALLS_BEFORE_RECORDING = 3


class Recorded:
    """Calls a function that reads and writes the same tensors every time; on a GPU, launches it as one.

    Hundreds of small kernels cost the host more than the device: replayed, they cost one launch. What cannot be
    recorded (something waits for the device) is called as it is, and :attr:`refused` says why.

    Args:
        function: Without arguments or result; it may not look at what is computed.
        device: Where it runs; on a CPU it is just called.
        allowed: ``False`` to never record it.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, *, allowed: bool = True) -> None:
        self._function, self._calls = function, 0
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
            self._beside()

    def _beside(self) -> None:
        """On a stream of its own, as the recording that follows wants it."""
        here, stream = torch.cuda.current_stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(here)
        with torch.cuda.stream(stream):
            self._function()
        here.wait_stream(stream)

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._function()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # slower, but no harm
            self.refused = str(error).splitlines()[0]
            return
        self._graph = graph
