"""Processes that share a training report to the one that started them, which alone may end it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rfp.errors import NumericalError
from rfp.train import OutOfTime, Workspace, run
from rfp.train.several_devices import train_on_several
from tests.train.test_runs import FAKE, config


@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    """The real thing; what is asserted below of one stand-in takes it a minute."""
    told: list[tuple[str, int, int]] = []
    workspace = Workspace(
        device="cpu", num_devices=2, checkpoints=tmp_path, tick=lambda *what: told.append(what), results=tmp_path
    )
    result = run(config(FAKE, epochs=2), workspace=workspace)
    assert told == [("FakeDataset try, seed 0", epoch, 2) for epoch in (1, 2)]
    assert result.runs[0].epochs == 2
    assert list(tmp_path.rglob("last.ckpt"))


class Fabric:
    """One process, which is this one; an error there arrives as torch lets it arrive."""

    is_global_zero = True

    def broadcast(self, value: bool) -> bool:
        return value

    def launch(self, function: Callable[..., None], *args: Any) -> None:
        try:
            function(self, *args)
        except Exception as error:
            raise RuntimeError(f"a traceback with {error}") from None


FABRIC: Any = Fabric()


class Loop(SimpleNamespace):
    def run(self, fabric: Fabric) -> None:
        for epoch in range(5):
            if epoch == self.fails_at:
                raise self.error
            self.ran = epoch
            self.report(epoch, 0.5)


def loop(report: Callable[[int, float], None] | None = None, fails_at: int = 9, error: object = None) -> Any:
    return Loop(report=report, fails_at=fails_at, error=error)


def test_every_epoch_is_reported_here() -> None:
    told: list[tuple[int, float]] = []
    one = loop(lambda *said: told.append(said))
    train_on_several(FABRIC, one)
    assert told == [(epoch, 0.5) for epoch in range(5)]
    one.report(7, 1.0)  # is what it was
    assert told[-1] == (7, 1.0)
    train_on_several(FABRIC, loop())


def test_what_the_report_raises_ends_the_training_and_is_raised_here() -> None:
    def report(epoch: int, score: float) -> None:
        if epoch == 2:
            raise OutOfTime("enough")

    one = loop(report)
    with pytest.raises(OutOfTime, match=r"^enough$"):
        train_on_several(FABRIC, one)
    assert one.ran == 2
    assert one.report is report


def test_errors_of_this_library_arrive_as_they_are_and_others_as_torch_tells_them() -> None:
    with pytest.raises(NumericalError, match=r"^the loss is NaN$"):
        train_on_several(FABRIC, loop(fails_at=1, error=NumericalError("the loss is NaN")))
    with pytest.raises(RuntimeError, match=r"^a traceback with no such key$"):
        train_on_several(FABRIC, loop(fails_at=1, error=ValueError("no such key")))
