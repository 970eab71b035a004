"""Run what the documents show: every Python and shell block of README.md and docs/, and every example.

    python -m tests.run_documents                  # all
    python -m tests.run_documents docs/start/index.md

A block runs in a process of its own, in a temporary folder in which ``examples/`` is the project's own; the blocks of
one document share the folder, so a file written by one can be read by the next. Blocks fenced as ``text`` are output
and are not run, nor are shell lines that set the project up (``pip``, ``git``, ``make``). The cells of notebooks
(``{code-cell}``) are run when the site is built.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.branches import Answer, Branches

ROOT = Path(__file__).resolve().parent.parent
SET_UP = ("pip ", "git ", "make ", "cd ")
# What many blocks begin with, used once: imports, and the kernels of an encoding.
IMPORTS = """
import lightning, matplotlib.pyplot, networkx, numpy, scipy.sparse, torch, torch_geometric.data, torch_geometric.nn
import rfp.cli.main, rfp.nn, rfp.train
rfp.encode(networkx.path_graph(3), num_channels=2, num_steps=2)
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


_OF_THREADS = threading.local()


def branch(folder: Path, label: str, code: str, arguments: list[str] | None = None) -> bool:
    """Run a block or a command in a process that branches off one with torch loaded; each thread has its own."""
    if not hasattr(_OF_THREADS, "branches"):
        _OF_THREADS.branches = Branches(IMPORTS, environment=environment())
    answer: Answer = _OF_THREADS.branches.run(folder, label, code, arguments)
    return report(label, answer.status == 0, answer.seconds, answer.output)


def arguments_of_rfp(line: str) -> list[str] | None:
    """The arguments of a line that calls ``rfp`` and nothing else; ``None`` for what needs a shell."""
    if not line.startswith("rfp ") or re.search(r"[|<>&;$`*?~]", line):
        return None
    return shlex.split(line, comments=True)[1:]


def run_document(document: Path) -> list[bool]:
    """Every block of a document, one after the other in a folder of its own."""
    good = []
    name = document.relative_to(ROOT)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "examples", folder / "examples")
        if "\n>>> " in document.read_text():  # such blocks share their names and are held to the output they show
            code = f"import doctest, sys; sys.exit(doctest.testfile({str(document)!r}, module_relative=False).failed)"
            good.append(branch(folder, f"{name} as doctest", code))
        for line, language, code in blocks(document):
            label = f"{name}:{line}"
            if language == "python" and not code.startswith(">>>"):
                good.append(branch(folder, label, code))
            elif language in ("bash", "sh", "shell", "console"):
                for command in shell_lines(code):
                    arguments = arguments_of_rfp(command)
                    good.append(
                        run(label, ["bash", "-euo", "pipefail", "-c", command], folder)
                        if arguments is None
                        else branch(folder, label, "", arguments)
                    )
    return good


def run_example(example: Path) -> list[bool]:
    with tempfile.TemporaryDirectory() as name:
        return [branch(Path(name), str(example), example.read_text())]


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
