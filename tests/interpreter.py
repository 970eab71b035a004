"""Code with Triton kernels, run by Triton's interpreter: in a process of its own, for the choice is made at import."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import pytest

SOURCES = Path(__file__).parents[1] / "src"


def require_interpreter() -> None:
    """Skip the test where Triton's interpreter cannot run a loop."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        pytest.skip("Triton is not installed")
    if _numbers(triton) < (3, 7) and _numbers(np.__version__) >= (2, 4):
        pytest.skip(f"the interpreter of Triton {triton} fails in loops with NumPy {np.__version__}; 3.7 does not")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def run_interpreted(code: str) -> None:
    """:func:`run_script` in Triton's interpreter."""
    require_interpreter()
    run_script(code, TRITON_INTERPRET="1")


def run_script(code: str, **environment: str) -> None:
    """Fail unless the code prints ``equal`` at its end and nothing else."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "equal\n", done.stderr
