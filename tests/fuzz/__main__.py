"""``python -m tests.fuzz``: the whole run, as ``make fuzz`` starts it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.fuzz.harness import fuzz


def say(line: str) -> None:
    """One line on standard output, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Exit code 1 if any file failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="files (default 10,000)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other files")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="folder for files that failed")
    parser.add_argument("--only", default="", help="files whose name holds this, e.g. .npz")
    given = parser.parse_args()
    counts = {"count": given.count, "seed": given.seed, "jobs": given.jobs, "only": given.only}
    outcome = fuzz(**counts, keep=given.keep, say=say)
    say(f"{outcome.counts.total()} files: " + ", ".join(f"{n} {kind}" for kind, n in outcome.counts.most_common()))
    say(f"{len(outcome.failures)} failures" + (f", kept in {given.keep}" if outcome.failures else ""))
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    sys.exit(main())
