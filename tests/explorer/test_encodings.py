"""Work in threads: called off when nobody waits, shared by tabs, kept as long as there is room."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import networkx as nx
import pytest

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.explorer.encodings import Encodings
from rfp.explorer.graphs import OpenGraph
from rfp.explorer.jobs import CancelledError, Job
from rfp.explorer.limits import Limits
from rfp.io import LoadedGraph
from rfp.settings import Settings

GRAPH = OpenGraph(LoadedGraph(as_graph(nx.path_graph(600))), "path", ("upload", "path"))


def test_a_job_is_called_off_between_steps() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def work(job: Job[int]) -> int:
        begun.set()
        go_on.wait(10)
        job.advance()
        raise AssertionError("went on")

    with ThreadPoolExecutor(1) as pool:
        running, waiting = Job(work, 3).start(pool), Job(work, 3).start(pool)
        begun.wait(10)
        assert running.status == "running"
        waiting.cancel()
        assert waiting.status == "cancelled"  # at once: it had not begun
        running.cancel()
        go_on.set()
        running.wait(10)
        assert running.status == "cancelled"
        with pytest.raises(CancelledError):
            running.advance()


def test_errors_are_kept_for_the_page() -> None:
    def refuse(job: Job[int]) -> int:
        raise ArgumentError("k is too large")

    def stumble(job: Job[int]) -> int:
        raise ZeroDivisionError("oh")

    with ThreadPoolExecutor(1) as pool:
        jobs = [Job(refuse).start(pool), Job(stumble).start(pool)]
    assert [(job.status, job.error) for job in jobs] == [
        ("failed", "k is too large"),
        ("failed", "ZeroDivisionError: oh"),
    ]


def blocked(limits: Limits = Limits()) -> tuple[Encodings, ThreadPoolExecutor, threading.Event]:  # noqa: B008
    """Encodings whose only thread is busy until the event is set."""
    pool, go_on = ThreadPoolExecutor(1), threading.Event()
    pool.submit(go_on.wait, 20)
    return Encodings(pool, limits), pool, go_on


def test_moving_on_calls_off_what_nobody_else_waits_for() -> None:
    encodings, pool, go_on = blocked()
    one, other = Settings(num_channels=2, num_steps=3), Settings(num_channels=2, num_steps=4)
    first = encodings.ask("g", GRAPH, one, "tab-1")
    assert encodings.ask("g", GRAPH, one, "tab-2") is first  # shared
    encodings.ask("g", GRAPH, other, "tab-1")
    assert first.job.status == "waiting"  # the second tab still wants it
    encodings.ask("g", GRAPH, other, "tab-2")
    assert first.job.status == "cancelled"
    again = encodings.ask("g", GRAPH, one, "tab-1")
    assert again is not first  # asked for again, computed again
    encodings.leave("tab-1")
    assert again.job.status == "cancelled"
    go_on.set()
    pool.shutdown()
    last = encodings.get(encodings.ask("g", GRAPH, other, "tab-2").key)
    assert last is not None
    assert last.job.status == "done"


def test_the_least_recently_used_makes_room() -> None:
    size = 600 * 2 * 4 * 4  # bytes of one encoding: n, k, P + 1, float32
    with ThreadPoolExecutor(1) as pool:
        encodings = Encodings(pool, replace(Limits(), cache_bytes=2 * size))
        asked = []
        for seed in range(3):
            asked.append(encodings.ask("g", GRAPH, Settings(num_channels=2, num_steps=3, seed=seed), "tab"))
            asked[-1].job.wait(60)
            encodings.get(asked[0].key)  # the first is in use
        encodings.ask("g", GRAPH, Settings(num_channels=2, num_steps=3, seed=2), "tab")
        assert asked[0].bytes == size
        assert [encodings.get(one.key) is not None for one in asked] == [True, False, True]
