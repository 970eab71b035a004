"""What a table runs: the missing cells, each once, whatever else fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rfp.errors import ArgumentError, FileError
from rfp.reproduce.execute import NoRoomError, apart_by_seed, dearest_last, missing_runs, run_missing
from rfp.reproduce.tables import TABLES
from rfp.train.results import Result
from rfp.train.run_config import RunConfig
from rfp.train.workspace import OutOfTime
from tests.reproduce.results import made_up

PART = TABLES[2].only(["mlp", "gcn"], ["cornell", "texas"])


class Fake:
    """Stands for training; remembers what it was asked for."""

    def __init__(self, failing: dict[str, Exception] | None = None) -> None:
        self.asked: list[tuple[str, str, int, int]] = []
        self.failing = failing or {}

    def __call__(self, config: RunConfig, seeds: Sequence[int], splits: Sequence[int]) -> Result:
        self.asked.append((str(config.data.name), config.name, len(seeds), len(splits)))
        for name in (str(config.data.name), config.name):
            if name in self.failing:
                raise self.failing[name]
        cell = next(c for c in [*PART.cells(), *TABLES[7].cells()] if c.config == config)
        return made_up(cell, [0.7] * len(cell.runs))


def test_missing_runs() -> None:
    cell = PART.cells(2)[0]
    assert len(missing_runs(cell, {})) == 20
    some = {cell.config.key: made_up(cell, [0.5] * 13)}
    assert missing_runs(cell, some) == [(1, split) for split in range(3, 10)]


def test_only_incomplete_cells_are_run() -> None:
    cells = PART.cells()
    known = {cells[0].config.key: made_up(cells[0], [0.5] * 50), cells[1].config.key: made_up(cells[1], [0.5] * 49)}
    fake, lines = Fake(), []
    results, failures = run_missing(cells, known, fake, lines.append)
    assert fake.asked == [("cornell", "gcn", 5, 10), ("texas", "mlp", 5, 10), ("texas", "gcn", 5, 10)]
    assert failures == []
    assert set(results) == {cell.config.key for cell in cells}
    assert lines[0].startswith("[1/3] cornell gcn: validation accuracy 0.5000, ")
    again = Fake()
    run_missing(cells, results, again, lines.append)
    assert again.asked == []


def test_a_failure_does_not_stop_the_rest() -> None:
    fake, lines = Fake({"gcn": ArgumentError("too\nlarge")}), []
    results, failures = run_missing(PART.cells(), {}, fake, lines.append)
    assert [(f.cell.column.id, f.cell.row.id, f.reason, f.expected) for f in failures] == [
        ("cornell", "gcn", "too large", False),
        ("texas", "gcn", "too large", False),
    ]
    assert len(fake.asked) == 4
    assert len(results) == 2
    assert "[2/4] cornell gcn: failed: too large" in lines


def test_data_that_most_do_not_have_is_left_out_once() -> None:
    fake, lines = Fake({"ogbn-arxiv": FileError("ogbn-arxiv: no raw files")}), []
    _, failures = run_missing(TABLES[7].cells(), {}, fake, lines.append)
    assert len(fake.asked) == 1
    assert len(failures) == 3
    assert all(failure.expected for failure in failures)
    assert lines == ["[1/3] ogbn-arxiv gcn: left out: ogbn-arxiv: no raw files"]
    _, failures = run_missing(PART.cells(), {}, Fake({"texas": FileError("no raw files")}), lines.append)
    assert not any(failure.expected for failure in failures)


@pytest.mark.parametrize("jobs", [1, 2])
def test_when_the_time_is_used_up_the_rest_waits(jobs: int) -> None:
    fake, lines = Fake({"gcn": OutOfTime("used up")}), []
    results, failures = run_missing(PART.cells(), {}, fake, lines.append, jobs=jobs)
    assert failures == []
    assert PART.cells()[1].config.key not in results
    assert "cells are not complete; what was done is kept, the same command goes on" in lines[-1]
    if jobs == 1:
        assert [name for _, name, _, _ in fake.asked] == ["mlp", "gcn"]
        assert lines[-1].startswith("the time is used up: 3 cells")


def test_the_order_of_a_table() -> None:
    table = TABLES[2].only(["mlp", "rfp-qr-A", "rfp-qr-A-dss", "rfp-qr-LAS-dss"], ["squirrel", "texas", "cora"])
    order = [(cell.column.id, cell.row.id) for cell in dearest_last(table.cells())]
    assert order[:3] == [("texas", "rfp-qr-A"), ("texas", "rfp-qr-A-dss"), ("cora", "rfp-qr-A")]
    assert order.index(("cora", "rfp-qr-A-dss")) < order.index(("cora", "rfp-qr-LAS-dss"))
    assert [row for _, row in order[-3:]] == ["mlp"] * 3


def test_a_seed_that_was_run_alone_is_told_by_its_own_score() -> None:
    (cell,) = TABLES[3].only(["rfp-qr-LA"], ["counting/star"]).cells()
    scores, lines = [0.1, 0.2, 0.6], []
    whole = made_up(cell, [0.5] * 3)
    runs = tuple(replace(run, metrics={"val": score}) for run, score in zip(whole.runs, scores, strict=True))
    run_missing(apart_by_seed([cell], {}), {}, lambda *asked: replace(whole, runs=runs), lines.append)
    for seed, (line, score) in enumerate(zip(lines, scores, strict=True)):
        assert line.startswith(f"[{seed + 1}/3] counting/star rfp-qr-LA, seed {seed}: validation mae {score:.4f}, ")


def test_a_bug_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        run_missing(PART.cells(), {}, Fake({"gcn": ZeroDivisionError()}), lambda line: None)


def test_several_at_a_time_do_the_same() -> None:
    fake, lines = Fake({"gcn": ArgumentError("too large")}), []
    results, failures = run_missing(PART.cells(), {}, fake, lines.append, jobs=3)
    assert sorted(fake.asked) == [
        ("cornell", "gcn", 5, 10),
        ("cornell", "mlp", 5, 10),
        ("texas", "gcn", 5, 10),
        ("texas", "mlp", 5, 10),
    ]
    assert {f.cell.row.id for f in failures} == {"gcn"}
    assert len(results) == 2
    assert len(lines) == 4
    with pytest.raises(ZeroDivisionError):
        run_missing(PART.cells(), {}, Fake({"mlp": ZeroDivisionError()}), lines.append, jobs=2)


@pytest.mark.parametrize("rooms", [1, 9])
def test_what_finds_no_room_is_tried_again_after_the_others(rooms: int) -> None:
    """Once, and by itself; then it has failed."""
    fake, lines = Fake(), []
    refused: list[int] = []
    given_all: list[str] = []

    def alone(config: RunConfig, seeds: Sequence[int], splits: Sequence[int]) -> Result:
        given_all.append(config.name)
        return crowded(config, seeds, splits)

    def crowded(config: RunConfig, seeds: Sequence[int], splits: Sequence[int]) -> Result:
        if config.name == "gcn" and config.data.name == "cornell" and len(refused) < rooms:
            refused.append(len(fake.asked))
            raise NoRoomError("CUDA out of memory; use fewer --jobs")
        return fake(config, seeds, splits)

    cells = PART.cells()
    results, failures = run_missing(cells, {}, crowded, lines.append, jobs=2, run_alone=alone)
    assert len(refused) == min(rooms, 2)
    assert given_all == ["gcn"]
    said = [line for line in lines if "cornell gcn" in line]
    assert said[0] == "[2/4] cornell gcn: too little memory beside the others; tried again after them"
    if rooms == 1:
        assert not failures
        assert fake.asked[-1] == ("cornell", "gcn", 5, 10)
        assert set(results) == {cell.config.key for cell in cells}
    else:
        assert refused[-1] == 3  # the others were done
        assert said[1:] == ["[2/4] cornell gcn: failed: CUDA out of memory; use fewer --jobs"]
        assert [failure.cell.row.id for failure in failures] == ["gcn"]


def test_seeds_of_graph_tasks_train_side_by_side() -> None:
    zinc = TABLES[1].only(["rfp-qr-LA"], ["zinc"]).cells()[0]
    node = TABLES[2].only(["gcn"], ["texas"]).cells()[0]
    searched = TABLES[3].only(["rfp-A-products"], ["star"]).cells()[0]
    assert [c.seeds for c in apart_by_seed([zinc, node, searched], {})] == [
        (0,),
        (1,),
        (2,),
        node.seeds,
        searched.seeds,
    ]
    first = {c.config.key: made_up(c, [0.5]) for c in (zinc, searched)}
    assert [c.seeds for c in apart_by_seed([zinc, searched], first)] == [(1,), (2,), (1,), (2,)]
    fake, lines = Fake({"zinc": ArgumentError("no")}), []
    run_missing(apart_by_seed([zinc], {}), {}, fake, lines.append)
    assert [line.split(":")[0] for line in lines] == [f"[{s + 1}/3] zinc rfp-qr-LA, seed {s}" for s in range(3)]
    assert fake.asked == [("zinc", "rfp-qr-LA", 1, 1)] * 3
