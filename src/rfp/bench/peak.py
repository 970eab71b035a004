"""Peak memory of our own run of a case, in a process of its own: ``python -m rfp.bench.peak CASE``.

An allocator that keeps freed memory hides what a call needs behind what earlier calls used. So the child process runs
the work once, with an allocator told to give memory back at once, and the growth of its resident memory is the answer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rfp.bench.cases import CASES
from rfp.bench.measure import measure


def peak_bytes(case: str, data_root: Path | None) -> int:
    """Bytes above the start that our contender of a case needs on a CPU; 0 if that cannot be measured here."""
    environment = {**os.environ, "MIMALLOC_PURGE_DELAY": "0"}
    if data_root is not None:
        environment["RFP_DATA"] = str(data_root)
    command = [sys.executable, "-m", "rfp.bench.peak", case]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return int(done.stdout.split()[-1]) if done.returncode == 0 else 0


def main() -> None:
    """Run our contender once and print its peak."""
    root = os.environ.get("RFP_DATA")
    contenders = CASES[sys.argv[1]].build("cpu", Path(root) if root else None)
    ours = next(contender.run for contender in contenders if contender.run is not None)
    sys.stdout.write(f"{measure(ours, repeats=1, warm_up=0).peak_bytes}\n")


if __name__ == "__main__":
    main()
