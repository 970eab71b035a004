"""Processes that die, are stopped or find no space, one after the other; prints what became of each as JSON.

Run as a script by ``test_faults.py``. Nothing here waits for a time: a process that is to die does so itself, in a
known task, and who waits for it is told by the system.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import networkx as nx

import rfp
from rfp.errors import RFPError
from rfp.partitioned import Dask, encode
from rfp.partitioned.executors import Serial

# float64 and columns that become dependent: every kind of task is needed.
GRAPH = rfp.as_graph(nx.star_graph(12))
ARGUMENTS: dict[str, Any] = {
    "num_channels": 6,
    "num_steps": 3,
    "operators": ["adjacency"],
    "dtype": "float64",
    "memory": 880,
}
PHASES = (
    "damage_of_block",
    "draw_block",
    "write_values",
    "schur_norm",
    "long_rows",
    "multiply_blocks",
    "gram_of_blocks",
    "triangle_of_block",
    "apply_to_blocks",
    "apply_to_basis",
)
# What the driver is told of each of them; both kinds of norms have one name.
CHECKING = "checking finished steps"
TOLD = (CHECKING, "drawing", "values", "multiplying", "norms", "Gram matrices", "QR of blocks", "applying")


def states(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted((folder / "states").rglob("*.npy"))}


def in_child(work: Callable[[], None]) -> int:
    """Run in a process of its own; returns how it ended or stopped, as ``waitpid`` says it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def killed_in(folder: Path, phase: str) -> int:
    """A driver that dies at the second task of a phase; returns the signal it died of."""
    left = 2

    def tick(step: str, what: str, done: int, total: int) -> None:
        nonlocal left
        left -= what == phase
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _, status = os.waitpid(in_child(lambda: void(encode(GRAPH, folder, tick=tick, **ARGUMENTS))), 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def void(value: object) -> None:
    del value


def full_disk(folder: Path) -> str:
    """A driver whose third step finds no space; returns what it says."""
    told = folder.with_suffix(".told")

    def tick(step: str, what: str, done: int, total: int) -> None:
        if step == "0/2":  # from here on no file may be longer than a checksum
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))

    def work() -> None:
        try:
            encode(GRAPH, folder, tick=tick, **ARGUMENTS)
        except RFPError as error:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            told.write_text(f"{type(error).__name__}: {error}")

    os.waitpid(in_child(work), 0)
    return told.read_text()


def damaged(folder: Path, harm: str) -> str:
    """What is said of a file of a finished step that was hurt after its driver died, when the call goes on."""

    def tick(step: str, what: str, done: int, total: int) -> None:
        if step == "0/3":
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(in_child(lambda: void(encode(GRAPH, folder, tick=tick, **ARGUMENTS))), 0)
    path = folder / "states" / "0" / "0002" / "panel-000.block-00001.npy"
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data if harm == "bit flipped" else data[:-5])
    told: list[str] = []
    encode(GRAPH, folder, say=told.append, **ARGUMENTS)
    return told[0].replace(str(folder), "FOLDER")


def second_driver(folder: Path) -> str:
    """What a driver is told while another, stopped in its work, holds the folder; that one is then killed."""

    def tick(step: str, what: str, done: int, total: int) -> None:
        if step == "0/1":
            os.kill(os.getpid(), signal.SIGSTOP)

    child = in_child(lambda: void(encode(GRAPH, folder, tick=tick, **ARGUMENTS)))
    os.waitpid(child, os.WUNTRACED)
    try:
        encode(GRAPH, folder, **ARGUMENTS)
        told = "it was let in"
    except RFPError as error:
        told = str(error).replace(str(child), "PID")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return told


def dying(task: Callable[..., Any], flags: str, when: str, arguments: tuple[Any, ...]) -> Any:
    """A task whose worker dies before or after it, the first time it is run by anyone."""
    flag = Path(flags) / f"{task.__name__}-{when}"
    result = task(*arguments) if when == "after" else None
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return result if when == "after" else task(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
    return None


class Noted(Serial):
    """Runs tasks here and takes note of their kinds."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()

    def map(self, task: Callable[..., Any], arguments: Any, tick: Callable[[], None]) -> list[Any]:
        self.kinds.add(task.__name__)
        return super().map(task, arguments, tick)


class Deadly:
    """Workers of Dask of which one dies in each of some phases."""

    def __init__(self, dask: Dask, flags: Path, phases: list[str]) -> None:
        self.dask, self.flags, self.phases = dask, flags, phases

    @property
    def num_workers(self) -> int:
        return self.dask.num_workers

    def map(self, task: Callable[..., Any], arguments: Any, tick: Callable[[], None]) -> list[Any]:
        for when in ("before", "after"):
            if f"{task.__name__}-{when}" in self.phases:
                return self.dask.map(_Bound(task, str(self.flags), when), arguments, tick)
        return self.dask.map(task, arguments, tick)


class _Bound:
    def __init__(self, task: Callable[..., Any], flags: str, when: str) -> None:
        self.task, self.flags, self.when = task, flags, when
        self.__name__ = task.__name__

    def __call__(self, *arguments: Any) -> Any:
        return dying(self.task, self.flags, self.when, arguments)


def drivers(root: Path) -> dict[str, Any]:
    """Drivers that die in each phase, find no space, damage, or another driver; then the same call again."""
    noted, told_of = Noted(), set()
    for _ in range(2):  # the second time there is something to be looked at
        encode(
            GRAPH, root / "whole", executor=noted, tick=lambda step, what, done, total: told_of.add(what), **ARGUMENTS
        )
    whole = states(root / "whole")
    found: dict[str, Any] = {"kinds": sorted(noted.kinds), "told of": sorted(told_of)}
    for phase in TOLD:
        folder = root / phase.replace(" ", "-")
        if phase == CHECKING:
            encode(GRAPH, folder, **ARGUMENTS)
        died = killed_in(folder, phase)
        encode(GRAPH, folder, **ARGUMENTS)
        found[phase] = [died, states(folder) == whole]
    for name, disturbed in (("no space", full_disk), ("second driver", second_driver)):
        folder = root / name.replace(" ", "-")
        told = disturbed(folder)
        encode(GRAPH, folder, **ARGUMENTS)
        found[name] = [told, states(folder) == whole]
    for harm in ("bit flipped", "truncated"):
        folder = root / harm.replace(" ", "-")
        found[harm] = [damaged(folder, harm), states(folder) == whole]
    return found


def workers(root: Path, phases: list[str]) -> dict[str, Any]:
    """Two workers under Dask, of which one dies in each phase."""
    encode(GRAPH, root / "whole", **ARGUMENTS)
    flags = root / "flags"
    flags.mkdir()
    with Dask(2) as dask:
        for _ in range(2):  # the second time what is there is looked at
            encode(GRAPH, root / "killed", executor=Deadly(dask, flags, phases), **ARGUMENTS)
    died = sorted(path.name for path in flags.iterdir())
    return {"died": died, "same": states(root / "killed") == states(root / "whole")}


def scheduler(root: Path) -> dict[str, Any]:
    """A scheduler that is killed in the second step; then another one, and the same call."""
    encode(GRAPH, root / "whole", **ARGUMENTS)
    told = ""
    for number in range(2):
        base = [sys.executable, "-m", "dask"]
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
        first = subprocess.Popen([*base, "scheduler", *options], stderr=subprocess.PIPE, text=True)
        address = _listening_at(first)
        second = subprocess.Popen([*base, "worker", address, "--no-dashboard", "--nthreads", "1"])

        def tick(step: str, what: str, done: int, total: int, first: Any = first, number: int = number) -> None:
            if number == 0 and step == "0/2":
                first.send_signal(signal.SIGKILL)
                first.wait()

        try:
            with Dask(scheduler=address) as dask:
                encode(GRAPH, root / "killed", executor=dask, tick=tick, **ARGUMENTS)
        except RFPError as error:
            told = f"{type(error).__name__}: {error}"
        finally:
            for process in (second, first):
                process.kill()
                process.wait()
    return {"told": told, "same": states(root / "killed") == states(root / "whole")}


def _listening_at(process: Any) -> str:
    """The address that a scheduler says it listens at; what it says afterwards is read and dropped."""
    for line in process.stderr:
        found = re.search(r"Scheduler at:\s+(tcp://\S+)", line)
        if found:
            Thread(target=process.stderr.read, daemon=True).start()
            return found[1]
    raise RuntimeError(f"the scheduler ended with {process.wait()} before it listened")


def main() -> None:
    kind, root, *phases = sys.argv[1:]
    modes: dict[str, Callable[[], dict[str, Any]]] = {
        "drivers": lambda: drivers(Path(root)),
        "workers": lambda: workers(Path(root), phases),
        "scheduler": lambda: scheduler(Path(root)),
    }
    sys.stdout.write(json.dumps(modes[kind]()) + "\n")


if __name__ == "__main__":
    main()
