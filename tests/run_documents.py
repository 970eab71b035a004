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
from glob import glob
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
# `rfp ARGUMENTS > FILE`
INTO_A_FILE = """
import os, sys
from rfp.cli.main import main
os.dup2(os.open({target!r}, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
sys.argv = {arguments!r}
main()
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


def report(label: str, good: bool, time_taken: str, output: str) -> bool:
    sys.stdout.write(f"{'ok    ' if good else 'FAILED'} {label} ({time_taken})\n{'' if good else output[-6000:]}")
    sys.stdout.flush()
    return good


def run(label: str, command: list[str], folder: Path) -> bool:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    return report(label, done.returncode == 0, f"{time.perf_counter() - start:.1f} s", f"{done.stdout}{done.stderr}\n")


_OF_THREADS = threading.local()


def branch(folder: Path, label: str, code: str, arguments: list[str] | None = None) -> bool:
    """Run a block or a command in a process that branches off one with torch loaded; each thread has its own."""
    if not hasattr(_OF_THREADS, "branches"):
        _OF_THREADS.branches = Branches(IMPORTS, environment=environment())
    answer: Answer = _OF_THREADS.branches.run(folder, label, code, arguments)
    return report(label, answer.status == 0, f"{answer.seconds:.1f} s of CPU time", answer.output)


def words_of_rfp(line: str, folder: Path) -> tuple[list[str], str | None] | None:
    """The arguments of a line that calls ``rfp`` and nothing else, names with ``*`` replaced by the files they
    mean, and the file that takes its output (``> FILE``); ``None`` for what needs a shell."""
    call, _, target = line.partition(" > ")
    if not call.startswith("rfp ") or re.search(r"[|<>&;$`?~]", call + target):
        return None
    arguments: list[str] = []
    for word in shlex.split(call, comments=True)[1:]:
        arguments += sorted(glob(word, root_dir=folder)) if "*" in word else [word]
    return arguments, target.strip() or None


def run_line(folder: Path, label: str, line: str) -> bool:
    """A line of a shell block: in a branch if it is ``rfp`` alone, by a shell if not."""
    words = words_of_rfp(line, folder)
    if words is None:
        return run(label, ["bash", "-euo", "pipefail", "-c", line], folder)
    arguments, target = words
    if target is None:
        return branch(folder, label, "", arguments)
    return branch(folder, label, INTO_A_FILE.format(target=target, arguments=["rfp", *arguments]))


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
                good += [run_line(folder, label, command) for command in shell_lines(code)]
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
