"""CUDA's multi-process service: kernels of several processes run side by side on a GPU instead of taking turns."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TOOL = "nvidia-cuda-mps-control"
_PIPES, _LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
# Opens the first GPU as a client would; the exit code says whether that worked.
_PROBE = (
    "import ctypes, sys; c = ctypes.CDLL('libcuda.so.1'); d, x = ctypes.c_int(), ctypes.c_void_p(); "
    "sys.exit(c.cuInit(0) or c.cuDeviceGet(ctypes.byref(d), 0) or c.cuDevicePrimaryCtxRetain(ctypes.byref(x), d))"
)


@contextmanager
def multi_process_service(say: Callable[[str], None]) -> Iterator[bool]:
    """Within the block, processes that are started share GPUs by a service of our own, where the machine has it.

    A service that runs already (``CUDA_MPS_PIPE_DIRECTORY`` is set) is used and left alone. Where there is none to be
    had, or it does not work, the reason is said and the processes take turns.

    Args:
        say: Gets one line.

    Yields:
        Whether there is one.
    """
    if os.environ.get(_PIPES):
        say("GPU shared by the multi-process service that is running")
        yield True
        return
    tool = shutil.which(TOOL)
    if tool is None:
        say(f"{TOOL} is not installed: processes take turns on the GPU")
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="rfp-mps-", ignore_cleanup_errors=True) as folder:
        ours = {_PIPES: f"{folder}/pipe", _LOGS: f"{folder}/log"}
        for path in ours.values():
            os.mkdir(path)
        os.environ.update(ours)
        try:
            failure = _start(tool)
            if not failure:
                say("GPU shared by a multi-process service")
                yield True
        finally:
            _call([tool], "quit\n")
            for name in ours:
                os.environ.pop(name, None)
    if failure:
        say(f"the multi-process service does not work here ({failure}): processes take turns on the GPU")
        yield False


def _start(tool: str) -> str:
    """Start the service; returns why that failed, or nothing."""
    if failure := _call([tool, "-d"]):
        return failure
    return "a client cannot open the GPU" if _call([sys.executable, "-c", _PROBE]) else ""


def _call(command: list[str], text: str = "") -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = " ".join((done.stderr or done.stdout).split())
    return "" if done.returncode == 0 else said or f"exit code {done.returncode}"
