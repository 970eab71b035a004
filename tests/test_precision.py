"""No function of MKL is called on several threads before it was called on one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

# A fresh process, in which whatever is computed while rfp is imported is written down.
WRITTEN_DOWN = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Told(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        print(function.__name__.split(".")[0], out.dtype, out.numel(), out.device)
        return out

with Told():
    import rfp
    rfp.%s
"""


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="PyTorch without MKL")
@pytest.mark.parametrize("name", ["random_features", "normalization"])
def test_each_is_called_on_one_number_when_it_may_be_needed(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", WRITTEN_DOWN % name], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    called = done.stdout.splitlines()
    for function in ("log", "sqrt", "cos", "sin", "exp", "acos"):
        for dtype in ("torch.float32", "torch.float64"):
            assert called.count(f"{function} {dtype} 1 cpu") == 1
