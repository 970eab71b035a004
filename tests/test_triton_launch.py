"""Repeated launches find a compiled kernel once, and again for tensors that begin otherwise."""

import sys
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton")

from rfp import triton_launch
from rfp.triton_launch import Launch, LoopLaunches, RepeatedLaunches, launch_kernel


class Compiled:
    """What a launch returns; launched by itself it notes grid and arguments."""

    function, packed_metadata = 11, (4, 1, 0)

    def __init__(self) -> None:
        self.launches: list[tuple[tuple[int, ...], tuple[Any, ...]]] = []
        self.streams: list[int | None] = []
        self.watched = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, stream: int | None = None) -> None:
            self.watched += 1
            self.run(*grid, stream, self.function, self.packed_metadata, {}, print, print, *arguments)

        return launch

    def run(self, x: int, y: int, z: int, stream: int | None, function: int, packed: Any, *others: Any) -> None:
        """As what Triton's launches call: metadata and two hooks come before the arguments."""
        assert (function, packed) == (self.function, self.packed_metadata)
        self.launches.append(((x, y, z), others[3:]))
        self.streams.append(stream)


@pytest.fixture(autouse=True)
def streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams of devices that are not there."""
    monkeypatch.setattr(triton_launch, "_current_stream", lambda: lambda index: 5 + index)


class Kernel:
    """Compiles at every launch."""

    def __init__(self) -> None:
        self.arg_names = ["x", "n", "BLOCK"]
        self.made: list[Compiled] = []
        self.warmed: list[tuple[Any, ...]] = []
        self.together = Barrier(2, timeout=60)

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, **constants: Any) -> Compiled:
            self.made.append(Compiled())
            return self.made[-1]

        return launch

    def warmup(self, x: torch.Tensor, n: int, *, grid: tuple[int, ...], **constants: int) -> None:
        """Ends when another has begun."""
        self.together.wait()
        self.warmed.append((grid, n, *constants.values()))


def test_a_kernel_is_found_by_its_arguments() -> None:
    kernel = Kernel()
    x = torch.zeros(64)
    first = launch_kernel(kernel, (3,), (x, 7), num_warps=1, BLOCK=32)
    assert launch_kernel(kernel, (5, 2), (x[4:], 9), num_warps=1, BLOCK=32) is first
    ((grid, arguments),) = first.launches
    assert grid == (5, 2, 1)
    assert arguments[0] == x[4:].data_ptr()
    assert arguments[1:] == (9, 32)  # constants of the kernel, not what the compiler is told


@pytest.mark.parametrize("hook", ["launch_enter_hook", "launch_exit_hook"])
@pytest.mark.parametrize("chained", [True, False])  # newer and older versions of Triton
def test_who_wants_to_be_told_of_launches_is(monkeypatch: pytest.MonkeyPatch, hook: str, chained: bool) -> None:
    kernel = Kernel()
    x = torch.zeros(64)
    compiled = launch_kernel(kernel, (3,), (x, 7), BLOCK=32)
    runtime = SimpleNamespace(launch_enter_hook=None, launch_exit_hook=SimpleNamespace(calls=[]))
    monkeypatch.setattr(triton_launch, "_knobs", lambda: SimpleNamespace(runtime=runtime))
    launch_kernel(kernel, (3,), (x, 7), BLOCK=32)
    assert compiled.watched == 0
    setattr(runtime, hook, SimpleNamespace(calls=[print]) if chained else print)
    launch_kernel(kernel, (3,), (x, 7), BLOCK=32)
    assert compiled.watched == 1
    assert compiled.launches[0] == compiled.launches[1]


@pytest.mark.parametrize(
    ("x", "n", "constants"),
    [
        (torch.zeros(64)[1:], 7, {"BLOCK": 32}),  # begins at 4 bytes
        (torch.zeros(64, dtype=torch.float64), 7, {"BLOCK": 32}),
        (torch.zeros(64), 1, {"BLOCK": 32}),
        (torch.zeros(64), 48, {"BLOCK": 32}),
        (torch.zeros(64), 1 << 40 | 1, {"BLOCK": 32}),
        (torch.zeros(64), 7, {"BLOCK": 16}),
        (torch.zeros(64), 7, {"BLOCK": 32, "num_warps": 2}),
    ],
)
def test_other_kinds_of_arguments_are_other_kernels(x: torch.Tensor, n: int, constants: dict[str, int]) -> None:
    kernel = Kernel()
    launch_kernel(kernel, (3,), (torch.zeros(64), 7), BLOCK=32)
    launch_kernel(kernel, (3,), (x, n), **constants)
    assert len(kernel.made) == 2


def test_a_multiple_of_eight_is_none_of_sixteen() -> None:
    kernel = Kernel()
    for n in (8, 48, 24, 64):
        launch_kernel(kernel, (3,), (torch.zeros(64), n), BLOCK=32)
    assert len(kernel.made) == 2


def test_a_kernel_is_found_once() -> None:
    kernel, launch = Kernel(), RepeatedLaunches()
    x = torch.zeros(64)
    launch(Launch("name", kernel, (3,), (x,), (7,), {"BLOCK": 16}, {"num_warps": 1}))
    again = Launch("name", kernel, (5, 2), (x[4:],), (8,), {"BLOCK": 16}, {"num_warps": 1})
    assert launch(again) is kernel.made[0]
    ((grid, arguments),) = kernel.made[0].launches
    assert grid == (5, 2, 1)
    assert arguments[0] == x[4:].data_ptr()
    assert arguments[1:] == (8, 16)  # constants too, in their order


def test_others_are_found_anew() -> None:
    kernel, launch = Kernel(), RepeatedLaunches()
    x = torch.zeros(64)
    launch(Launch("name", kernel, (3,), (x,), (7,), {"BLOCK": 16}, {}))
    launch(Launch("name", kernel, (3,), (x[1:],), (7,), {"BLOCK": 16}, {}))  # begins at 4 bytes
    launch(Launch("name", kernel, (3,), (x,), (7,), {"BLOCK": 32}, {}))
    launch(Launch("other", kernel, (3,), (x,), (7,), {"BLOCK": 16}, {}))
    assert len(kernel.made) == 4


def test_launches_that_go_together_are_compiled_at_the_same_time() -> None:
    kernel, launch = Kernel(), RepeatedLaunches()
    both = [Launch("name", kernel, (3,), (torch.zeros(64),), (7,), {"BLOCK": b}, {"num_warps": 1}) for b in (16, 32)]
    launch.compile_together(both)
    assert sorted(kernel.warmed) == [((3,), 7, 16, 1), ((3,), 7, 32, 1)]
    launch.compile_together(both)
    assert len(kernel.warmed) == 2  # and not once more


def test_what_cannot_be_compiled_is_told() -> None:
    kernel, launch = Kernel(), RepeatedLaunches()
    kernel.together.abort()
    both = [Launch("name", kernel, (3,), (torch.zeros(64),), (7,), {"BLOCK": b}, {"num_warps": 1}) for b in (16, 32)]
    with pytest.raises(BrokenBarrierError):
        launch.compile_together(both)


def test_a_loop_keeps_all_but_what_moves() -> None:
    kernel, launches = Kernel(), LoopLaunches(torch.device("cuda", 2))
    x, kept = torch.zeros(64), torch.zeros(4)
    assert not launches.again("name", x)
    launches.first("name", kernel, (3,), (x,), (kept,), {"BLOCK": 16}, num_warps=1)
    where, references = kept.data_ptr(), sys.getrefcount(kept)
    assert launches.again("name", x[4:])
    ((grid, arguments),) = kernel.made[0].launches
    assert grid == (3, 1, 1)
    assert arguments == (x[4:].data_ptr(), where, 16)
    assert kernel.made[0].streams == [7]
    del launches.__dict__["_held"]  # the launches know its place, so they hold it
    assert sys.getrefcount(kept) < references
    launches._held = []
    assert not launches.again("name", x[1:])
    assert not launches.again("other", x)


def test_constants_come_last_and_in_their_order() -> None:
    with pytest.raises(AssertionError):
        RepeatedLaunches()(Launch("name", Kernel(), (3,), (torch.zeros(4),), (), {"BLOCK": 16}, {}))
