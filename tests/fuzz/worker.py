"""One process that runs the command on many files; it may die, and is then started again.

Reads a JSON line ``{"path", "options"}`` for each file from standard input and answers with one that tells the exit
code, what was said, and the graph as it was read.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

MEMORY = 3 << 30  # beyond what the process has after its imports
SECONDS = 30  # of processor time for one small file, however busy the machine is; SIGPROF then ends the process


def run_command(path: str, options: list[str], output: Path) -> dict[str, Any]:
    """The command on one file, as a user would call it."""
    from rfp.cli.main import main

    said, printed = io.StringIO(), io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    sys.argv = ["rfp", "encode", path, "-k", "2", "-P", "1", "--backend", "reference", "-o", str(output), *options]
    code: Any = 0
    failure = None
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        except BaseException:
            failure = traceback.format_exc()
    return {"code": code, "said": said.getvalue(), "failure": failure}


def describe(path: str, options: list[str]) -> dict[str, Any]:
    """Nodes and entries of the matrix that the file was read as: ``[[source, target, weight], ...]`` by name."""
    from rfp.io import read_graph

    directed = True if "--directed" in options else None
    loaded = read_graph(path, directed=directed, unweighted="--unweighted" in options)
    matrix = loaded.graph.to_scipy().tocoo()
    names = range(loaded.graph.num_nodes) if loaded.node_ids is None else loaded.node_ids.tolist()
    entries = zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    return {"nodes": list(names), "entries": [[names[row], names[column], value] for row, column, value in entries]}


def answer(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one file and check what it left behind."""
    output = folder / "out.npy"
    written = [output, folder / "out.npy.json", folder / "out.npy.nodes.csv"]
    for path in written:
        path.unlink(missing_ok=True)
    result = run_command(task["path"], task["options"], output)
    there = sorted(path.name for path in folder.iterdir())
    if result["failure"] is None and result["code"] == 0:
        result["finite"] = bool(np.isfinite(np.load(output)).all())
        if task["compare"]:
            result["read"] = describe(task["path"], task["options"])
    elif there:
        result["left"] = there
    return result


def main() -> None:
    """Answer until standard input ends."""
    import rfp.cli.encode  # noqa: F401 - what every call needs is loaded before the memory is limited

    folder = Path(sys.argv[1])
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = sys.stdout
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        text = json.dumps(answer(json.loads(line), folder))
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(text + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
