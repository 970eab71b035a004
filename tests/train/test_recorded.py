"""What is recorded and what is called as it is; ``test_epoch_waits`` and ``test_gpu_memory`` do it on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch

from rfp.train import recorded as module
from rfp.train.recorded import CALLS_BEFORE_RECORDING, Recorded, recording

CPU, GPU = torch.device("cpu"), torch.device("cuda")
TOTAL = 100


class Graph:
    """Counts replays."""

    def __init__(self) -> None:
        self.replayed = 0

    def replay(self) -> None:
        self.replayed += 1


class Stream:
    def wait_stream(self, other: Stream) -> None: ...


ASIDE = Stream()


def gpu(monkeypatch: pytest.MonkeyPatch, *, standing: int, taken: int, others: int, fraction: float) -> list[Graph]:
    """One of which ``standing`` bytes are held, ``others`` by other processes, and a call takes ``taken`` more.

    Returns:
        Its graphs, as they are made.
    """
    made: list[Graph] = []

    def graph() -> Graph:
        made.append(Graph())
        return made[-1]

    answers: dict[str, Callable[..., object]] = {
        "current_device": lambda: 3,
        "memory_allocated": lambda device: standing,
        "memory_reserved": lambda device: standing,
        "max_memory_allocated": lambda device: standing + taken,
        "reset_peak_memory_stats": lambda device: None,
        "mem_get_info": lambda device: (TOTAL - standing - others, TOTAL),
        "get_per_process_memory_fraction": {3: fraction}.__getitem__,
        "empty_cache": lambda: None,
        "current_stream": Stream,
        "stream": lambda stream: nullcontext(),
        "CUDAGraph": graph,
        "graph": lambda graph: nullcontext(),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(module, "_aside", lambda device: ASIDE)
    return made


@pytest.mark.parametrize("fails", [False, True])
def test_a_recording_shares_no_workspace(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has would be given back with those of others, or theirs with its own."""
    order: list[str] = []

    @contextmanager
    def graph(given: Graph) -> Iterator[None]:
        order.append("begin")
        try:
            yield
        finally:
            order.append("end")

    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(module, "forget_workspaces", lambda: order.append("forget"))
    with nullcontext() if not fails else pytest.raises(ZeroDivisionError), recording(Graph()):  # type: ignore[arg-type]
        order.append("record")
        if fails:
            raise ZeroDivisionError
    assert order == ["forget", "begin", "record", "end", "forget"]


def called(device: torch.device, times: int, *, allowed: bool = True) -> tuple[int, str]:
    """How often the function was called, and why it was not recorded."""
    calls: list[None] = []
    recorded = Recorded(lambda: calls.append(None), device, allowed=allowed)
    for _ in range(times):
        recorded()
    return len(calls), recorded.refused


def test_on_a_cpu_it_is_just_called() -> None:
    assert called(CPU, 7) == (7, "not tried")
    assert called(GPU, 7, allowed=False) == (7, "not tried")


def test_after_some_calls_it_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = gpu(monkeypatch, standing=10, taken=50, others=0, fraction=1.0)
    assert called(GPU, CALLS_BEFORE_RECORDING + 5) == (CALLS_BEFORE_RECORDING + 1, "")
    assert [graph.replayed for graph in graphs] == [5]


@pytest.mark.parametrize(("taken", "others", "fraction"), [(70, 0, 1.0), (50, 20, 1.0), (50, 0, 0.8)])
def test_what_nearly_fills_the_memory_is_not_recorded(
    taken: int, others: int, fraction: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording that runs full could not be given back."""
    graphs = gpu(monkeypatch, standing=10, taken=taken, others=others, fraction=fraction)
    assert called(GPU, 9) == (9, "too little free memory")
    assert graphs == []
