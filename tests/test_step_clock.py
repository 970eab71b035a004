"""Ticks of tasks become bars, and finished steps lines with the time that is left."""

from rfp.encode_file import Progress
from rfp.partitioned.rounds_of_tasks import PREPARING
from rfp.step_clock import StepClock


def test_steps_are_numbered_through_all_operators() -> None:
    clock = StepClock(Progress(), 3, 2, None)
    assert clock.num_steps == 7
    assert [clock.number(step) for step in ("start", "0/1", "0/3", "1/1", "1/3")] == [1, 2, 4, 5, 7]


def test_ticks_become_bars_and_finished_steps_lines() -> None:
    stages: list[tuple[str, int | None]] = []
    advanced: list[int] = []
    lines: list[str] = []
    bar = Progress(lambda name, total: stages.append((name, total)), advanced.append)
    clock = StepClock(bar, 1, 1, lines.append)
    clock.tick(PREPARING, "sorting edges", 1, 2)
    clock.tick(PREPARING, "sorting edges", 2, 2)
    clock.tick("start", "drawing", 4, 4)
    clock.tick("0/1", "products", 1, 4)
    clock.tick("0/1", "products", 4, 4)
    clock.tick("start", "drawing", 1, 4)  # a step before is repaired: it is not made again
    clock.finish()
    assert [name.partition(", about")[0] for name, _ in stages] == [
        "sorting edges",
        "step 1 of 2: drawing",
        "step 2 of 2: products",
        "step 1 of 2: drawing",
    ]
    assert [total for _, total in stages] == [2, 4, 4, 4]
    assert advanced == [1, 1, 4, 1, 3, 1]
    assert [line.partition(" done in ")[0] for line in lines] == ["step 1 of 2", "step 2 of 2"]
    assert " left" in lines[0]
    assert " left" not in lines[1]
