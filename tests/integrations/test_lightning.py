"""Two processes of Lightning's DDP train what one process with the whole batch trains: draws depend on the graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parent / "ddp_script.py"


def test_two_processes_equal_one(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    one, first, second = (json.loads((tmp_path / f"of{n}.json").read_text()) for n in ("1-0", "2-0", "2-1"))
    assert one["draws"] == first["draws"] == second["draws"] == 4
    assert first["weight"] == second["weight"]
    assert first["weight"] == pytest.approx(one["weight"], abs=1e-5)
