"""The README shows the committed measurements, not others."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_benchmark_table_is_rendered_from_the_result_files() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "render_readme.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
