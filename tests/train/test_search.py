"""The search: whole grids, samplers, resuming, refusals. The objective is a formula, so the best point is known."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rfp.errors import ArgumentError, FileError, MissingExtraError, NumericalError
from rfp.train.run_config import RunConfig
from rfp.train.search import PAPER_GRID, SearchSettings, TellScore, paper_grid, search_values

pytest.importorskip("optuna")


def config(**search_values: Any) -> RunConfig:
    values = {key.replace("__", "."): tried for key, tried in search_values.items()}
    return RunConfig.from_dict({"data": "zinc", "search": values})


def grid_3x2() -> RunConfig:
    return config(training__lr=[1e-3, 1e-2, 1e-1], model__num_layers=[2, 4])


class Counted:
    """|lr - 0.02| + layers / 1000, and which points were trained."""

    def __init__(self, fail_at: int = -1) -> None:
        self.points: list[tuple[float, int]] = []
        self.fail_at = fail_at

    def __call__(self, tried: RunConfig, report: TellScore) -> float:
        if len(self.points) == self.fail_at:
            raise KeyboardInterrupt
        assert not tried.search  # a trial is one run, not a search in a search
        self.points.append((tried.training.lr, tried.model["num_layers"]))
        return abs(tried.training.lr - 0.02) + tried.model["num_layers"] / 1000


def test_a_small_grid_is_tried_whole_and_the_best_validation_wins() -> None:
    objective = Counted()
    found = search_values(grid_3x2(), objective, higher_is_better=False)
    assert objective.points == list(itertools.product([1e-3, 1e-2, 1e-1], [2, 4]))
    assert found.best == {"training.lr": 1e-2, "model.num_layers": 2}
    assert [trial.val for trial in found.trials] == pytest.approx([0.021, 0.023, 0.012, 0.014, 0.082, 0.084])
    highest = search_values(grid_3x2(), Counted(), higher_is_better=True)
    assert highest.best == {"training.lr": 1e-1, "model.num_layers": 4}


def test_a_cut_search_goes_on_where_it_stopped(tmp_path: Path) -> None:
    journal = tmp_path / "deep" / "search.journal"
    cut = Counted(fail_at=3)
    with pytest.raises(KeyboardInterrupt):
        search_values(grid_3x2(), cut, higher_is_better=False, storage=journal)
    assert len(cut.points) == 3
    rest, lines = Counted(), []
    found = search_values(grid_3x2(), rest, higher_is_better=False, storage=journal, say=lines.append)
    assert cut.points + rest.points == list(itertools.product([1e-3, 1e-2, 1e-1], [2, 4]))
    assert lines[0] == "search: 3 of 6 points were tried before"
    assert found.best == {"training.lr": 1e-2, "model.num_layers": 2}
    assert len(found.trials) == 6
    again = Counted()
    assert search_values(grid_3x2(), again, higher_is_better=False, storage=journal).best == found.best
    assert again.points == []
    other = Counted()  # another search in the same file is another study
    search_values(config(training__lr=[0.5], model__num_layers=[3]), other, higher_is_better=False, storage=journal)
    assert other.points == [(0.5, 3)]


def test_sampling_trains_no_point_twice() -> None:
    objective = Counted()
    settings = SearchSettings(trials=4, sampler="tpe", seed=1)
    found = search_values(grid_3x2(), objective, higher_is_better=False, settings=settings)
    assert len(objective.points) == len(set(objective.points)) == 4
    assert len(found.trials) == 4
    best = min(found.trials, key=lambda trial: trial.val)
    assert found.best == best.values


def test_fewer_trials_of_a_grid() -> None:
    objective = Counted()
    search_values(grid_3x2(), objective, higher_is_better=False, settings=SearchSettings(trials=2))
    assert objective.points == [(1e-3, 2), (1e-3, 4)]


@pytest.mark.parametrize(
    ("settings", "size", "expected"),
    [
        (SearchSettings(), 64, (True, 64)),
        (SearchSettings(), 65, (False, 50)),
        (SearchSettings(sampler="grid"), 65, (True, 65)),
        (SearchSettings(trials=100), 65, (False, 65)),
        (SearchSettings(sampler="tpe"), 10, (False, 10)),
    ],
)
def test_how_many_trials(settings: SearchSettings, size: int, expected: tuple[bool, int]) -> None:
    assert settings.resolve(size) == expected


def test_points_that_cannot_be_tried_are_refused_with_a_reason() -> None:
    def objective(tried: RunConfig, report: TellScore) -> float:
        if tried.training.lr == 1e-3:
            raise ArgumentError("the model has 900,000 parameters, more than max_parameters=500,000\nembed 1\nhead 2")
        if tried.training.lr == 1e-1:
            raise NumericalError("the loss is NaN at epoch 3")
        return math.nan if tried.model["num_layers"] == 4 else 0.5

    found = search_values(grid_3x2(), objective, higher_is_better=False)
    assert found.best == {"training.lr": 1e-2, "model.num_layers": 2}
    reasons = list(found.refused.values())
    assert len(reasons) == 5
    assert reasons[0] == "refused: the model has 900,000 parameters, more than max_parameters=500,000"
    assert "refused: the loss is NaN at epoch 3" in reasons
    assert "refused: the validation score is nan" in reasons
    assert sum(math.isnan(trial.val) for trial in found.trials) == 5


def test_all_refused_is_an_error() -> None:
    def refuse(tried: RunConfig, report: TellScore) -> float:
        raise ArgumentError("too large")

    with pytest.raises(ArgumentError, match="no point of the search could be tried; the first: refused: too large"):
        search_values(grid_3x2(), refuse, higher_is_better=False)


def test_hopeless_trials_end_early() -> None:
    epochs: list[int] = []

    def objective(tried: RunConfig, report: TellScore) -> float:
        for epoch in range(10):
            epochs.append(epoch)
            report(epoch, tried.training.lr)
        return tried.training.lr

    rates = [0.1 + i / 100 for i in range(5)] + [9.0]
    found = search_values(
        config(training__lr=rates), objective, higher_is_better=False, settings=SearchSettings(prune=True)
    )
    assert len(epochs) == 51  # five whole trials; the sixth ends at its first report
    assert list(found.refused.values()) == ["ended at epoch 0: worse than the median of the others"]
    assert found.best == {"training.lr": 0.1}


def test_values_that_are_lists() -> None:
    tried: list[Any] = []

    def objective(run: RunConfig, report: TellScore) -> float:
        tried.append(run.model["encodings"][0]["operators"])
        return float(len(tried[-1]))

    base = RunConfig.from_dict(
        {
            "data": "zinc",
            "model": {"encodings": [{"name": "rfp"}]},
            "search": {"model.encodings.0.operators": [["adjacency"], ["adjacency", "normalized_laplacian"]]},
        }
    )
    found = search_values(base, objective, higher_is_better=True)
    assert tried == [["adjacency"], ["adjacency", "normalized_laplacian"]]
    assert found.best == {"model.encodings.0.operators": ["adjacency", "normalized_laplacian"]}


def test_the_papers_grid() -> None:
    encodings = [{"name": "rfp"}, {"name": "eigenvectors"}]
    plain = paper_grid(RunConfig.from_dict({"data": "zinc", "model": {"encodings": encodings}}))
    # lr 4, wd 5, dropout 2, L 4, c 3, k 5, P 5
    assert math.prod(map(len, plain.values())) == 4 * 5 * 2 * 4 * 3 * 5 * 5
    assert plain["model.encodings.0.num_steps"] == (2, 4, 8, 16, 32)
    assert not any(key.startswith("model.encodings.1") for key in plain)
    dss = paper_grid(RunConfig.from_dict({"data": "zinc", "model": {"encodings": encodings, "trajectories": "dss"}}))
    assert dss["model.encodings.0.num_trajectories"] == (5, 10)
    assert paper_grid(RunConfig.from_dict({"data": "zinc"})) == {k: v for k, v in PAPER_GRID.items() if "." in k}


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(ArgumentError, match="the config has no search"):
        search_values(RunConfig.from_dict({"data": "zinc"}), Counted(), higher_is_better=True)
    with pytest.raises(ArgumentError, match="sampler must be one of 'auto', 'grid', 'tpe', got 'random'"):
        SearchSettings(sampler="random")
    with pytest.raises(ArgumentError, match="trials must be at least 1, got 0"):
        SearchSettings(trials=0)


def test_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"a search needs optuna: pip install 'torch-rfp\[train\]'"):
        search_values(grid_3x2(), Counted(), higher_is_better=False)


def large() -> RunConfig:
    return config(training__lr=[i / 100 for i in range(1, 11)], model__dropout=[i / 20 for i in range(10)])


def far(tried: RunConfig, report: TellScore) -> float:
    return abs(tried.training.lr - 0.04) + abs(tried.model["dropout"] - 0.2)


def test_a_search_that_was_cut_finds_what_it_would_have_found(tmp_path: Path) -> None:
    settings = SearchSettings(trials=16, sampler="tpe")
    whole = search_values(large(), far, higher_is_better=False, settings=settings)
    for cut_at in (3, 11):
        points = itertools.count()

        def cut(tried: RunConfig, report: TellScore, points: Any = points, cut_at: int = cut_at) -> float:
            if next(points) == cut_at:
                raise KeyboardInterrupt
            return far(tried, report)

        storage = tmp_path / str(cut_at) / "search.journal"
        with pytest.raises(KeyboardInterrupt):
            search_values(large(), cut, higher_is_better=False, settings=settings, storage=storage)
        rest = search_values(large(), far, higher_is_better=False, settings=settings, storage=storage)
        assert rest == whole


def test_a_torn_journal_goes_on_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    storage = tmp_path / "search.journal"
    found = search_values(grid_3x2(), Counted(), higher_is_better=False, storage=storage)
    content = storage.read_bytes()
    storage.write_bytes(content[: len(content) // 2])
    assert search_values(grid_3x2(), Counted(), higher_is_better=False, storage=storage).best == found.best
    storage.write_bytes(b"{nothing\n" + content)
    with pytest.raises(FileError, match=r"search\.journal: damaged journal of a search .*; remove it"):
        search_values(grid_3x2(), Counted(), higher_is_better=False, storage=storage)


ANOTHER = """
import sys
from functools import partial
from pathlib import Path
from rfp.train.run_config import RunConfig
from rfp.train.search import search_values
trained = []
config = RunConfig.from_dict({"data": "zinc", "search": {"training.lr": [1e-3, 1e-2], "model.num_layers": [2]}})
def objective(config, report):
    trained.append(config)
    return 1.0
search_values(config, objective, higher_is_better=False, say=partial(print, flush=True), storage=Path(sys.argv[1]))
print(len(trained))
"""


@pytest.mark.slow
def test_another_process_waits_and_takes_what_was_found(tmp_path: Path) -> None:
    storage, others = tmp_path / "search.journal", []

    def slow(tried: RunConfig, report: TellScore) -> float:
        if not others:
            others.append(subprocess.Popen([sys.executable, "-c", ANOTHER, storage], stdout=subprocess.PIPE, text=True))
            assert "another process is at it" in others[0].stdout.readline()
        return 1.0

    space = config(training__lr=[1e-3, 1e-2], model__num_layers=[2])
    search_values(space, slow, higher_is_better=False, storage=storage)
    (other,) = others
    assert other.communicate(timeout=120)[0].splitlines()[-1] == "0"
