"""One measured encoding in its own process: ``python -m rfp.bench.partitioned_run RUN EDGES FOLDER all|prepare|steps``.

Prints a line of JSON: seconds, CPU seconds and peak memory of preparing and of the steps.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from contextlib import nullcontext, suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from rfp.bench.measure import current_peak, reset_peak
from rfp.bench.partitioned import Run
from rfp.encode_folder import Resources
from rfp.partitioned import Dask, encode_files
from rfp.partitioned.layout import Layout
from rfp.partitioned.rounds_of_tasks import PREPARING


class _Prepared(Exception):  # noqa: N818 - no error
    """The graph is in its blocks."""


def main() -> None:
    """Encode and print what it took."""
    run, only = Run(**json.loads(sys.argv[1])), sys.argv[4]
    if run.limited and only == "steps":
        limit_memory(run.memory)
    laps: list[dict[str, Any]] = []
    last = list(_now())

    def lap(phase: str) -> None:
        seconds, cpu = _now()
        laps.append({"phase": phase, "seconds": seconds - last[0], "cpu_seconds": cpu - last[1], "peak_mib": _peak()})
        last[:] = [seconds, cpu]
        reset_peak("cpu")

    def tick(step: str, what: str, done: int, total: int) -> None:
        if step != PREPARING and not laps and only != "steps":
            lap("prepare")
            if only == "prepare":
                raise _Prepared

    reset_peak("cpu")
    with Dask(run.workers) if run.workers else nullcontext() as executor, suppress(_Prepared):
        encode_files(
            sys.argv[2],
            sys.argv[3],
            num_channels=run.channels,
            num_steps=run.steps,
            memory=Resources(run.memory).bytes_for_numbers,
            executor=executor,
            tick=tick,
        )
    if run.workers:
        # The process that workers were forked from: their time is its, and counts for us once it has ended.
        server: Any = forkserver
        server._forkserver._stop()
    if only != "prepare":
        lap("steps")
    graph = Layout(Path(sys.argv[3])).read_manifest().graph
    about = {
        "num_nodes": graph.num_nodes,
        "num_entries": graph.num_edges,
        "limit": f"anonymous memory within {run.memory / 1e6:.0f} MB by RLIMIT_DATA"
        if run.limited and only == "steps"
        else "",
    }
    sys.stdout.write(json.dumps([{**about, **one} for one in laps]) + "\n")


def limit_memory(num_bytes: int) -> None:
    """Hold the anonymous memory of this process, that of the interpreter and its libraries included, to so much.

    RLIMIT_DATA counts what is mapped, touched or not. What is mapped once all is loaded, but not in memory, is allowed
    on top, so the bound is that of what is in memory. Pages of files are not counted: the system takes them back.
    """
    import numpy as np
    import torch

    from rfp.partitioned import block_products

    # Long enough for every thread to be started: their stacks are mapped, and hardly used.
    some = np.ones((1 << 14, 1, 8), dtype=np.float32)
    block_products.times(some, np.ones((1, 8, 8)))
    block_products.block_gram(some)
    torch.ones(1 << 18).cos_()
    with open("/proc/self/status") as lines:
        sizes = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    mapped, resident = (int(sizes[name][0]) * 1024 for name in ("VmData", "RssAnon"))
    limit = mapped + num_bytes - resident
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _now() -> tuple[float, float]:
    """Seconds, and CPU seconds of this process and of those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.perf_counter(), sum(one.ru_utime + one.ru_stime for one in used)


def _peak() -> float:
    """MiB: of this process since the last lap, or of the largest child that has ended."""
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return max(current_peak("cpu"), child) / 2**20


if __name__ == "__main__":
    main()
