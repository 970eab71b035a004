"""What a process can take of a GPU, and that it gives back what it does not use."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch

from rfp.train import gpu_memory
from rfp.train.gpu_memory import free_memory, give_back
from rfp.train.recorded import beside, recording

GPU = torch.device("cuda")
MIB = 1 << 20

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize(("others", "free"), [(30, 40), (60, 30)])
def test_the_part_of_a_process_is_its_limit(others: int, free: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 bytes it has 10, may have half, and others have the rest."""
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 10)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (90 - others, 100))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", {3: 0.5}.__getitem__)
    assert free_memory(GPU) == free


def test_workspaces_go_before_what_they_hold_back(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: called.append("cycles"))
    monkeypatch.setattr(gpu_memory, "forget_workspaces", lambda: called.append("workspaces"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: called.append("cache"))
    give_back()
    assert called == ["cycles", "workspaces", "cache"]


def test_what_a_failure_left_in_a_cycle_goes() -> None:
    """Where there is no GPU that is all."""

    class Left:
        itself: Left

    left = Left()
    left.itself = left
    alive = weakref.ref(left)
    del left
    give_back()
    assert alive() is None


@pytest.fixture
def empty_gpu() -> Iterator[None]:
    torch.zeros(1, device=GPU)
    give_back()
    yield
    give_back()


def multiplied_where_a_large_one_was() -> None:
    """The first product of a stream, whose workspace is made where a matrix of 256 MiB had just been."""
    torch.empty(64 * MIB, device=GPU)
    small = torch.ones(64, 64, device=GPU)
    small @ small


@on_a_gpu
def test_a_workspace_does_not_hold_back_the_matrix_in_whose_place_it_was_made(empty_gpu: None) -> None:
    standing = torch.cuda.memory_reserved()
    with beside(GPU):
        multiplied_where_a_large_one_was()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() >= standing + 256 * MIB  # else this test holds nothing
    give_back()
    assert torch.cuda.memory_reserved() <= standing + 64 * MIB


@on_a_gpu
def test_a_recording_still_multiplies_when_all_workspaces_are_forgotten(empty_gpu: None) -> None:
    """It has its own: memory that was given back is written on by what comes next."""
    draw = torch.Generator(GPU).manual_seed(0)
    a, b = (torch.randn(512, 512, device=GPU, generator=draw) for _ in range(2))
    out, graph = torch.empty_like(a), torch.cuda.CUDAGraph()
    with beside(GPU):
        torch.mm(a, b, out=out)
    with recording(graph):
        torch.mm(a, b, out=out)
    wanted = a @ b
    give_back()
    later = torch.full((64 * MIB,), 7.0, device=GPU)
    out.zero_()
    graph.replay()
    torch.testing.assert_close(out, wanted)
    assert bool((later == 7).all())


@on_a_gpu
def test_work_beside_is_seen_before_and_after(empty_gpu: None) -> None:
    a = torch.zeros(1 << 24, device=GPU)
    for number in range(20):
        a.fill_(number)
        with beside(GPU):
            a.add_(1)
        assert float(a.amax()) == number + 1 == float(a.amin())
