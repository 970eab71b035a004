"""Code with Triton kernels, run by Triton's interpreter: in a process of its own, for the choice is made at import."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[1] / "src"
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")


def run_interpreted(code: str) -> None:
    """Fail unless the code prints ``equal`` at its end and nothing else."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout == "equal\n", done.stderr
