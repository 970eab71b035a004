"""Run what the documents show: every Python and shell block of README.md and docs/, and every example.

    python tests/run_documents.py                  # all
    python tests/run_documents.py docs/start/index.md

A block runs in a process of its own, in a temporary folder in which ``examples/`` is the project's own; the blocks of
one document share the folder, so a file written by one can be read by the next. Blocks fenced as ``text`` are output
and are not run, nor are shell lines that set the project up (``pip``, ``git``, ``make``). The cells of notebooks
(``{code-cell}``) are run when the site is built.
"""

from __future__ import annotations

import json
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
# A process that has loaded what nearly every block begins with, and branches off one for each of them: (label, code) as
# JSON on a line in, JSON on a line out. A block shares nothing with the others but the time it took to import torch.
BRANCHES = """
import json, os, sys, time, traceback
import numpy, scipy.sparse, torch, torch_geometric.data
replies = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    label, code = json.loads(line)
    start = time.perf_counter()
    with open("output.txt", "w") as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            status = 1
            try:
                exec(compile(code, label, "exec"), {"__name__": "__main__"})
                status = 0
            except SystemExit as stop:
                status = int(stop.code or 0)
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    answer = {"status": status, "seconds": time.perf_counter() - start, "output": open("output.txt").read()}
    os.remove("output.txt")
    print(json.dumps(answer), file=replies, flush=True)
"""


def blocks(document: Path) -> list[tuple[int, str, str]]:
    """(line, language, code) of each fenced block."""
    text = document.read_text()
    found = re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in found]


def shell_lines(code: str) -> list[str]:
    """The commands of a shell block that are to be run."""
    lines = [line.removeprefix("$ ").strip() for line in code.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line and not line.startswith(("#", *SET_UP))]


def environment() -> dict[str, str]:
    bin_folder = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "MPLBACKEND": "Agg"}


def report(label: str, good: bool, seconds: float, output: str) -> bool:
    sys.stdout.write(f"{'ok    ' if good else 'FAILED'} {label} ({seconds:.1f} s)\n{'' if good else output[-6000:]}")
    sys.stdout.flush()
    return good


def run(label: str, command: list[str], folder: Path) -> bool:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    return report(label, done.returncode == 0, time.perf_counter() - start, f"{done.stdout}{done.stderr}\n")


class PythonBlocks:
    """Runs the Python blocks of a document; starts at the first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def run(self, label: str, code: str) -> bool:
        if self.process is None:
            command = [sys.executable, "-c", BRANCHES]
            pipe = subprocess.PIPE
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=environment(), stdin=pipe, stdout=pipe, text=True
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([label, code]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return report(label, answer["status"] == 0, answer["seconds"], answer["output"])

    def close(self) -> None:
        if self.process is not None:
            self.process.communicate()


def run_document(document: Path) -> list[bool]:
    """Every block of a document, one after the other in a folder of its own."""
    good = []
    name = document.relative_to(ROOT)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "examples", folder / "examples")
        python = PythonBlocks(folder)
        if "\n>>> " in document.read_text():  # such blocks share their names and are held to the output they show
            good.append(run(f"{name} as doctest", [sys.executable, "-m", "doctest", str(document)], folder))
        for line, language, code in blocks(document):
            label = f"{name}:{line}"
            if language == "python" and not code.startswith(">>>"):
                good.append(python.run(label, code))
            elif language in ("bash", "sh", "shell", "console"):
                good += [run(label, ["bash", "-euo", "pipefail", "-c", line], folder) for line in shell_lines(code)]
        python.close()
    return good


def run_example(example: Path) -> list[bool]:
    with tempfile.TemporaryDirectory() as name:
        return [run(f"examples/{example.name}", [sys.executable, str(example)], Path(name))]


def main(names: list[str]) -> int:
    pages = [Path(name).resolve() for name in names] or [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *(path for path in (ROOT / "docs").rglob("*.md") if not path.relative_to(ROOT).parts[1].startswith("_")),
    ]
    # The longest first, so that they do not come last alone.
    pages.sort(key=lambda page: -len(blocks(page)))
    examples = [] if names else sorted((ROOT / "examples").glob("*.py"))
    # Each is a process that mostly imports: as many at a time as there are cores, one thread each.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(run_document, page) for page in pages]
        jobs += [pool.submit(run_example, example) for example in examples]
        good = [answer for job in jobs for answer in job.result()]
    sys.stdout.write(f"documents: {sum(good)} passed, {len(good) - sum(good)} failed\n")
    return 0 if all(good) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
