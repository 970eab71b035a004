"""Mutated files through workers: what each outcome means, and what counts as a failure."""

from __future__ import annotations

import json
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.corpus import Seed, seeds
from tests.fuzz.mutations import mutate
from tests.fuzz.plain_binary import BINARY_READERS
from tests.fuzz.plain_gml import GML_READERS
from tests.fuzz.plain_graphs import GRAPH_READERS
from tests.fuzz.plain_reader import PLAIN_READERS, CannotTell, Refused

ROOT = Path(__file__).parents[2]
SECONDS = 600.0  # of wall time for one small file: only what waits for ever; workers end what computes for ever
_OPTIONS = [[], [], [], [], ["--directed"], ["--unweighted"], ["--undirected"], ["--num-nodes", "12"]]


@dataclass(frozen=True)
class Case:
    """One mutated file, which the numbers ``seed`` and ``index`` make again."""

    index: int
    seed: Seed
    content: bytes
    options: list[str]

    @property
    def reader(self) -> Callable[..., Any] | None:
        """The plain reader of this format; options that change more than direction and weights are not compared."""
        known = (PLAIN_READERS | GRAPH_READERS | GML_READERS | BINARY_READERS).get(self.seed.suffix)
        return known if set(self.options) <= {"--directed", "--unweighted"} else None


@dataclass
class Outcome:
    """What happened to all files: counts, and each failure as a kind, a file and a text."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, Case, str]] = field(default_factory=list)


def cases(count: int, seed: int, only: str = "") -> Iterator[Case]:
    """Deterministic; every good file comes first, unchanged."""
    every = seeds()
    contents = [one.content for one in every]
    good = [one for one in every if only in one.name]
    for index in range(count):
        if index < len(good):
            yield Case(index, good[index], good[index].content, [])
            continue
        chance = random.Random(f"{seed} {index}")
        chosen = good[index % len(good)]
        yield Case(index, chosen, mutate(chosen.content, chance, contents), chance.choice(_OPTIONS))


class Worker:
    """A process that answers; killed when it takes too long, and started again when it is gone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        if self.process is None or self.process.poll() is not None:
            command = [sys.executable, "-m", "tests.fuzz.worker", str(self.folder)]
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        hung = threading.Event()

        def stop() -> None:
            hung.set()
            process.kill()

        timer = threading.Timer(SECONDS, stop)
        timer.start()
        try:
            process.stdin.write(json.dumps(task) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        self.close()
        if hung.is_set():
            return {"hang": True}
        return {"died": process.returncode}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def judge(case: Case, path: Path, result: dict[str, Any]) -> tuple[str, str]:
    """The kind of outcome and, for a failure, what is wrong. Kinds that begin with a capital are failures."""
    if result.get("hang"):
        return "Hang", f"no answer within {SECONDS:.0f} s"
    if "died" in result:
        number = -(result["died"] or 0)
        if number == signal.SIGPROF:
            return "Hang", "the processor time for one file is used up"
        name = signal.Signals(number).name if number in set(signal.Signals) else f"exit {result['died']}"
        return "Crash", name
    if result["failure"] is not None:
        return "Traceback", result["failure"]
    said = [line for line in result["said"].splitlines() if line.startswith("rfp: error:")]
    if result["code"]:
        if result.get("left"):
            return "Leftover", str(result["left"])
        if result["code"] not in (1, 2) or len(said) != 1 or len(said[0]) > 1000:
            return "Unclear", f"exit {result['code']}: {result['said'][:2000]}"
        if "out of memory" in said[0]:
            return "Memory", said[0]
        return "refused", ""
    if not result["finite"]:
        return "Not finite", result["said"]
    if "read" not in result or case.reader is None:
        return "accepted", ""
    return _compare(case, result["read"])


def _compare(case: Case, read: dict[str, Any]) -> tuple[str, str]:
    directed, weighted = "--directed" in case.options, "--unweighted" not in case.options
    assert case.reader is not None
    try:
        nodes, entries = case.reader(case.content, directed=directed, weighted=weighted)
    except CannotTell:
        return "accepted", ""
    except Refused as error:
        return "Difference", f"accepted, but by the rules: {error}"
    except Exception as error:  # what the plain reader cannot read at all, nobody should have accepted
        return "Difference", f"accepted, but the plain reader fails: {error!r}"
    if nodes != read["nodes"]:
        return "Difference", f"nodes {str(read['nodes'])[:500]}, by the rules {str(nodes)[:500]}"
    found = {(row, column): value for row, column, value in read["entries"]}
    if found != entries:
        return "Difference", f"entries {str(found)[:500]}, by the rules {str(entries)[:500]}"
    return "accepted and compared", ""


def fuzz(
    count: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    only: str = "",
    keep: Path | None = None,
    say: Callable[[str], None],
) -> Outcome:
    """Run ``count`` files; those that fail are kept in a folder."""
    outcome, lock = Outcome(), threading.Lock()
    waiting: queue.Queue[Case | None] = queue.Queue(maxsize=4 * jobs)

    def work(folder: Path) -> None:
        (folder / "out").mkdir(parents=True)
        worker = Worker(folder / "out")
        while (case := waiting.get()) is not None:
            path = folder / f"{case.index}-{case.seed.name}"
            path.write_bytes(case.content)
            task = {"path": str(path), "options": case.options, "compare": case.reader is not None}
            kind, text = judge(case, path, worker.ask(task))
            with lock:
                outcome.counts[kind] += 1
                if kind[0].isupper():
                    outcome.failures.append((kind, case, text))
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / path.name).write_bytes(case.content)
                    say(f"{kind}: {path.name} {' '.join(case.options)}: {text.strip().splitlines()[-1][:300]}")
                if outcome.counts.total() % 1000 == 0:
                    say(f"{outcome.counts.total()} files: {dict(outcome.counts)}")
            path.unlink()
        worker.close()

    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as folder:
        threads = [threading.Thread(target=work, args=(Path(folder) / str(job),), daemon=True) for job in range(jobs)]
        for thread in threads:
            thread.start()
        for case in cases(count, seed, only):
            waiting.put(case)
        for _ in threads:
            waiting.put(None)
        for thread in threads:
            thread.join()
    return outcome
