"""A training in several processes, one a device: they report to this one, and end when it says so."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from threading import Thread
from typing import Any

from lightning.fabric import Fabric

from rfp.errors import RFPError
from rfp.train.training_loop import TrainingLoop


class _Ended(Exception):  # noqa: N818 - not an error: the process that started the others wants no more
    """No further epoch is wanted."""


def train_on_several(fabric: Fabric, loop: TrainingLoop) -> None:
    """``loop.run`` in the processes of a fabric, with ``loop.report`` called here.

    A function cannot go to another process, and what it raises there would arrive as the text of a traceback. So the
    first of the processes sends each epoch with its score, all of them wait for the answer whether to go on, and what
    the report raises ends them and is raised here. So is an error of this library that one of them raises.

    Args:
        fabric: Of several processes, which the launch starts.
        loop: Travels there; here it stays as it was.
    """
    context = get_context("spawn")
    told: SimpleQueue[Any] = context.SimpleQueue()
    answers: SimpleQueue[bool] = context.SimpleQueue()
    report, loop.report = loop.report, None
    raised: list[BaseException] = []

    def listen() -> None:
        while (message := told.get()) is not None:
            first, second = message
            if isinstance(first, type):
                raised.append(first(second))
                continue
            try:
                if report is not None:
                    report(first, second)
            except BaseException as error:
                raised.append(error)
            answers.put(not raised)

    listener = Thread(target=listen, daemon=True)
    listener.start()
    broken: Exception | None = None
    try:
        fabric.launch(_train, loop, told, answers)
    except Exception as error:
        broken = error
    finally:
        told.put(None)
        listener.join()
        loop.report = report
    if raised or broken:
        raise raised[0] if raised else broken  # type: ignore[misc]


def _train(fabric: Fabric, loop: TrainingLoop, told: SimpleQueue[Any], answers: SimpleQueue[bool]) -> None:
    """What each process does."""

    def report(epoch: int, score: float) -> None:
        go_on = True
        if fabric.is_global_zero:
            told.put((epoch, score))
            go_on = answers.get()
        if not fabric.broadcast(go_on):
            raise _Ended

    loop.report = report
    try:
        loop.run(fabric)
    except _Ended:
        return
    except RFPError as error:
        told.put((type(error), str(error)))
        raise
