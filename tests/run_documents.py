"""Run what the documents show: every Python and shell block of README.md and docs/, and every example.

A block runs in a temporary folder in which ``examples/`` is the project's own; the blocks of one document share it, so
a file written by one can be read by the next. Blocks fenced as ``text`` are output and are not run, nor are shell lines
that set the project up (``pip``, ``git``, ``make``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SET_UP = ("pip ", "git ", "make ", "cd ")


def blocks(document: Path) -> list[tuple[int, str, str]]:
    """(line, language, code) of each fenced block."""
    text = document.read_text()
    found = re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in found]


def commands(language: str, code: str) -> list[list[str]]:
    """The processes a block asks for."""
    if language == "python" and not code.startswith(">>>"):
        return [[sys.executable, "-c", code]]
    if language in ("bash", "sh", "shell", "console"):
        lines = code.replace("\\\n", " ").splitlines()
        lines = [line.removeprefix("$ ").strip() for line in lines]
        lines = [line for line in lines if line and not line.startswith(("#", *SET_UP))]
        return [["bash", "-euo", "pipefail", "-c", line] for line in lines]
    return []


def run(label: str, command: list[str], folder: Path) -> bool:
    bin_folder = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "Agg"}
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    sys.stdout.write(f"{'ok    ' if done.returncode == 0 else 'FAILED'} {label} ({seconds:.1f} s)\n")
    if done.returncode:
        sys.stdout.write(done.stdout[-2000:] + done.stderr[-4000:] + "\n")
    return done.returncode == 0


def run_document(document: Path) -> list[bool]:
    """Every block of a document, one after the other in a folder of its own."""
    good = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")
        if "\n>>> " in document.read_text():  # such blocks share their names and are held to the output they show
            command = [sys.executable, "-m", "doctest", str(document)]
            good.append(run(f"{document.relative_to(ROOT)} as doctest", command, folder))
        for line, language, code in blocks(document):
            for command in commands(language, code):
                good.append(run(f"{document.relative_to(ROOT)}:{line}", command, folder))
    return good


def run_example(example: Path) -> list[bool]:
    with tempfile.TemporaryDirectory() as name:
        return [run(f"examples/{example.name}", [sys.executable, str(example)], Path(name))]


def main() -> int:
    # The longest first, so that they do not come last alone.
    documents = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")], key=lambda d: -len(blocks(d)))
    # Each is a process that mostly imports: as many at a time as there are cores, one thread each.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(run_document, document) for document in documents]
        jobs += [pool.submit(run_example, example) for example in sorted((ROOT / "examples").glob("*.py"))]
        good = [answer for job in jobs for answer in job.result()]
    sys.stdout.write(f"documents: {sum(good)} passed, {len(good) - sum(good)} failed\n")
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main())
