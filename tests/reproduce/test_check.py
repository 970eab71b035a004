"""Every kind of disagreement in a folder of results is named; the committed ones have none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rfp.cli.main import app
from rfp.reproduce.check import check_results
from rfp.train import RunConfig
from rfp.train.results import Result, RunRecord, Trial, read_result

CONFIG = RunConfig.from_dict({"name": "a", "data": "cora", "search": {"training.lr": [0.1, 0.01, 0.001]}})
RUN = RunRecord(0, 0, {"val": 0.6, "test": 0.5}, 1, 2, 0.1, 10, {"training.lr": 0.1})
TRIALS = (Trial({"training.lr": 0.1}, 0.6), Trial({"training.lr": 0.01}, 0.5), Trial({"training.lr": 0.001}, 0.4))
GOOD = Result(CONFIG, "cora", "accuracy", True, (RUN, replace(RUN, split=1)), TRIALS)


def changed(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda v: v.update(key="0" * 16), "its key is 0000000000000000, but its config has the key"),
        (lambda v: v["config"]["training"].update(epochs=7), "but its config has the key"),
        (lambda v: v["runs"][1].update(split=0), "seed 0, split 0 is there 2 times"),
        (lambda v: v["runs"][0]["metrics"].pop("test"), "seed 0, split 0 has no test score; tuning belongs below"),
        (lambda v: v["runs"][0]["metrics"].update(val=1.5), "an accuracy beyond 0 to 1"),
        (lambda v: v["runs"][0]["metrics"].update(test=float("nan")), "a score that is not finite"),
        (lambda v: v["runs"][0]["values"].update({"training.lr": 5}), "training.lr=5, which was not tried"),
        (lambda v: v["trials"][2].update(val=0.7), "the best validation score is that of {'training.lr': 0.001}"),
        (lambda v: v.update(trials=[]), "no trials to be chosen from"),
    ],
)
def test_each_disagreement_is_named(tmp_path: Path, change: Callable[[dict[str, Any]], None], problem: str) -> None:
    path = GOOD.write(tmp_path)
    assert check_results(tmp_path).problems == ()
    changed(path, change)
    assert any(problem in line for line in check_results(tmp_path).problems)


def test_runs_of_the_alternatives_of_a_search(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "results" / "chameleon"
    found = next(result for result in map(read_result, sorted(folder.glob("rfp-qr-a-*.json"))) if result.alternatives)
    (name,) = found.alternatives
    found.write(tmp_path)
    assert check_results(tmp_path).problems == ()
    replace(found, alternatives={}).write(tmp_path)
    (problem,) = check_results(tmp_path).problems
    assert problem.endswith(f"it has no runs of {name}; the same rfp table goes on")
    replace(found, alternatives={**found.alternatives, "model.embed=none": found.runs}).write(tmp_path)
    (problem,) = check_results(tmp_path).problems
    assert problem.endswith(f"its alternatives should be ['{name}'], got {sorted([name, 'model.embed=none'])}")


def test_the_choice_is_that_of_the_better_runs(tmp_path: Path) -> None:
    """Whatever the final stage says of them, whose scores are of one draw."""
    folder = Path(__file__).parents[2] / "results" / "chameleon"
    found = next(result for result in map(read_result, sorted(folder.glob("rfp-qr-a-*.json"))) if result.alternatives)
    (name,) = found.alternatives
    ours = f"model.embed={found.runs[0].values['model.embed']}"
    replace(found, runs=found.alternatives[name], alternatives={ours: found.runs}).write(tmp_path)
    assert any("the best validation score is that of" in line for line in check_results(tmp_path).problems)


def test_values_that_some_combinations_alone_have(tmp_path: Path) -> None:
    """GCNII's own, which the others leave out: what is there must be what was tried."""
    folder = Path(__file__).parents[2] / "results" / "cora"
    path = next(p for p in sorted(folder.glob("rfp-qr-a-*.json")) if len(read_result(p).alternatives) == 3)
    written = read_result(path).write(tmp_path)
    assert check_results(tmp_path).problems == ()

    def other(values: dict[str, Any]) -> None:
        for run in values["runs"]:
            run["values"]["model.initial_residual"] = 0.3

    changed(written, other)
    assert any("model.initial_residual=0.3, which was not tried" in line for line in check_results(tmp_path).problems)


def test_tuning_has_no_test_score(tmp_path: Path) -> None:
    GOOD.write(tmp_path / "tuning")
    (first, _) = check_results(tmp_path).problems
    assert first.endswith("seed 0, split 0 has a test score; results of tuning have none")


def test_the_same_config_twice_is_named_but_not_beside_its_tuning(tmp_path: Path) -> None:
    untested = tuple(replace(run, metrics={"val": 0.6}) for run in GOOD.runs)
    GOOD.write(tmp_path)
    replace(GOOD, runs=untested).write(tmp_path / "tuning")
    assert check_results(tmp_path).problems == ()
    replace(GOOD, config=replace(CONFIG, name="b")).write(tmp_path)
    (problem,) = check_results(tmp_path).problems
    assert problem.startswith("cora/b-")
    assert problem.endswith(f"{GOOD.file_name()} has the same config")


def test_a_choice_at_the_edge_is_said(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    result = CliRunner().invoke(app, ["table", "--check", "--results", str(tmp_path)])
    assert result.exit_code == 0
    assert "at the edge of its grid: cora/a-" in result.stdout
    assert "training.lr=0.1" in result.stdout
    assert "58 cells" in result.stdout
    changed(next(tmp_path.rglob("*.json")), lambda v: v.update(key="0" * 16))
    assert CliRunner().invoke(app, ["table", "--check", "--results", str(tmp_path)]).exit_code == 1


def test_a_table_that_was_edited_by_hand(tmp_path: Path) -> None:
    GOOD.write(tmp_path)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "table-2.csv").write_text("row,mean\nrfp-qr-A,99.9\n")
    (problem,) = check_results(tmp_path).problems
    assert problem == "tables/table-2.csv: not what the result files say; run: rfp table 2 --render-only"
