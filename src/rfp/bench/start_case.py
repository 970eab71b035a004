"""What a start costs: the command's help, the import, a small file encoded from the shell."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from rfp.bench.contender import Contender
from rfp.bench.gate import GateError
from rfp.bench.generated_graphs import power_law

_REPEATS = 5


def starts(device: str, data_root: Path | None) -> Iterator[Contender]:
    """Processor seconds of whole processes; ``import torch`` is what every one of them but the help must pay."""
    with tempfile.TemporaryDirectory() as folder:
        edges, encoding = Path(folder, "edges.txt"), Path(folder, "encoding.npy")
        np.savetxt(edges, power_law(34, 78).edge_index.T.numpy(), fmt="%d")
        encode = ("-m", "rfp", "encode", str(edges), "-o", str(encoding), "--force", "--device", device)
        _python(*encode)
        if np.load(encoding).shape[0] != 34:
            raise GateError("the encoding of 34 nodes does not have 34 rows")
        yield _process("rfp encode of 34 nodes, from the shell", *encode)
        yield _process("import torch", "-c", "import torch")
        yield _process("import rfp", "-c", "import rfp; rfp.encode")
        yield _process("rfp --help", "-m", "rfp", "--help")
        code = f"import rfp; rfp.encode(rfp.read_graph({str(edges)!r}).graph.to({device!r}))"
        yield _process("rfp.encode of 34 nodes, first call of a process", "-c", code)


def _process(name: str, *arguments: str) -> Contender:
    return Contender(name, partial(_python, *arguments), repeats=_REPEATS, processes=True)


def _python(*arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise GateError(
            f"python {' '.join(arguments)} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
        )
