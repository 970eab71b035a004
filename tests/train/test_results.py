"""Result files: what is written is read back, damaged ones are named, runs merge."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rfp.errors import FileError
from rfp.train import Result, RunConfig, RunRecord, read_result, read_results
from rfp.train.results import Trial

CONFIG = RunConfig.from_dict({"name": "My RFP (QR)", "data": "cora", "search": {"training.lr": [0.1, 0.01]}})


def record(seed: int = 0, split: int = 0, test: float = 0.5) -> RunRecord:
    return RunRecord(seed, split, {"val": 0.6, "test": test}, 3, 10, 1.5, 1000, {"training.lr": 0.1})


def result(*runs: RunRecord) -> Result:
    trials = (Trial({"training.lr": 0.1}, 0.6), Trial({"training.lr": 0.01}, math.nan))
    return Result(CONFIG, "cora", "accuracy", True, runs, trials, {"torch": "2"}, ("a note",))


def test_written_and_read_back(tmp_path: Path) -> None:
    path = result(record(), record(split=1)).write(tmp_path)
    assert path == tmp_path / "cora" / f"my-rfp-qr-{CONFIG.key[:8]}.json"
    again = read_result(path)
    assert again.config == CONFIG
    assert again.runs == (record(), record(split=1))
    assert again.notes == ("a note",)
    assert math.isnan(again.trials[1].val)
    assert read_results(tmp_path).keys() == {CONFIG.key}
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name]  # no temporary file is left


def test_mean_and_deviation_by_hand() -> None:
    mean, std = result(record(test=0.4), record(split=1, test=0.6)).mean_std()
    assert (mean, std) == (pytest.approx(0.5), pytest.approx(math.sqrt(0.02)))
    assert math.isnan(result(record()).mean_std()[1])


def test_runs_merge_by_seed_and_split() -> None:
    merged = result(record(split=1), record()).with_runs([record(test=0.9), record(seed=1)])
    assert [(run.seed, run.split) for run in merged.runs] == [(0, 0), (0, 1), (1, 0)]
    assert merged.runs[0].metrics["test"] == 0.9
    assert merged.has(1, 0)
    assert not merged.has(1, 1)
    assert len(merged.trials) == 2


def test_processes_that_train_other_seeds_lose_nothing(tmp_path: Path) -> None:
    def train(seed: int) -> Result:
        return result(record(seed=seed)).write_beside_others(tmp_path)

    with ThreadPoolExecutor(8) as pool:
        merged = list(pool.map(train, range(24)))
    (path,) = tmp_path.rglob("*.json")
    assert [run.seed for run in read_result(path).runs] == list(range(24))
    assert all(found.has(seed, 0) for seed, found in enumerate(merged))
    again = result(record(seed=3, test=0.75)).write_beside_others(tmp_path)  # its own takes the place of the old
    assert [run.metrics["test"] for run in again.runs if run.seed == 3] == [0.75]


@pytest.mark.parametrize(
    "metrics", [{"test": 0.5}, {"val": 0.5, "test": "low"}, {"val": "high", "test": 0.5}, [], None]
)
def test_a_wrong_metric_is_named(tmp_path: Path, metrics: object) -> None:
    path = result(record()).write(tmp_path)
    values = json.loads(path.read_text())
    values["runs"][0]["metrics"] = metrics
    path.write_text(json.dumps(values))
    with pytest.raises(FileError, match=rf"{path.name}: damaged result file"):
        read_result(path)


@pytest.mark.parametrize("dataset", ["cora", "zinc"])  # before and after "tuning" in the order of names
def test_what_was_tuned_and_run_is_what_was_run(tmp_path: Path, dataset: str) -> None:
    run = replace(result(record()), dataset=dataset)
    tuned = replace(run, runs=(replace(record(), metrics={"val": 0.7}),))
    run.write(tmp_path)
    tuned.write(tmp_path / "tuning")
    assert read_results(tmp_path)[CONFIG.key].runs == run.runs
    assert run.has(0, 0, tested=True)
    assert tuned.has(0, 0)
    assert not tuned.has(0, 0, tested=True)
    assert read_results(tmp_path / "tuning")[CONFIG.key].runs == tuned.runs


def test_damaged_files_are_named(tmp_path: Path) -> None:
    path = result(record()).write(tmp_path)
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=rf"{path.name}: damaged result file"):
        read_result(path)
    path.write_text(json.dumps({**json.loads(whole), "format": "other"}))
    with pytest.raises(FileError, match="not a result file of this version"):
        read_results(tmp_path)
    path.write_text(json.dumps({k: v for k, v in json.loads(whole).items() if k != "runs"}))
    with pytest.raises(FileError, match="damaged result file"):
        read_result(path)
