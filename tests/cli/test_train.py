"""``rfp train`` as a user runs it, on the karate club."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rfp.cli import progress
from rfp.cli.main import app
from rfp.cli.options.training import read_target, with_setting
from rfp.errors import ArgumentError, FileError, RFPError
from rfp.train import Result, RunConfig, RunRecord
from rfp.train.results import report_lines

KARATE = """
data: {class: torch_geometric.datasets.KarateClub, random_split: [0.5, 0.25, 0.25], num_splits: 3}
model:
  {backbone: gcn, num_layers: 1, hidden_channels: 8, norm: none, encodings: [{name: rfp, num_channels: 2}]}
training: {epochs: 3, lr: 1e-2}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "club.yaml"
    path.write_text(KARATE)
    return path


def rfp_train(*arguments: str | Path, folder: Path, code: int = 0) -> str:
    where = ["--device", "cpu", "--results", str(folder / "results"), "--checkpoints", str(folder / "runs")]
    result = CliRunner().invoke(app, ["train", *where, *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def test_json_is_the_result_file(config: Path, tmp_path: Path) -> None:
    printed = json.loads(rfp_train(config, "--json", folder=tmp_path))
    (path,) = (tmp_path / "results").rglob("*.json")
    assert printed == json.loads(path.read_text())
    assert path.name.startswith("club-")
    assert printed["config"]["training"]["lr"] == 0.01
    assert [(run["seed"], run["split"]) for run in printed["runs"]] == [(0, 0), (0, 1), (0, 2)]
    # A second call trains nothing, a third one more seed of one split.
    assert json.loads(rfp_train(config, "--json", folder=tmp_path))["runs"] == printed["runs"]
    more = json.loads(rfp_train(config, "--json", "--seeds", "2", "--split", "1", folder=tmp_path))
    assert [(run["seed"], run["split"]) for run in more["runs"]] == [(0, 0), (0, 1), (0, 2), (1, 1)]
    assert more["runs"][0] == printed["runs"][0]


def test_text_for_people(config: Path, tmp_path: Path) -> None:
    lines = rfp_train(config, "--set", "training.epochs=2", "--split", "0", folder=tmp_path).splitlines()
    assert lines[0] == "KarateClub club"
    assert lines[1].startswith("  test accuracy ")
    assert "(1 run, 1 seed, 1 split)" in lines[1]
    assert "2 to 2 epochs" in lines[2]
    assert Path(lines[-1].strip()).exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "training.lrr=1"], 2, "a key of the training config must be one of"),
        (["--set", "training.lr"], 2, "expected KEY=VALUE"),
        (["--set", "training.lr=[1"], 2, "the value is not YAML"),
        (["--set", "training.lr=fast"], 2, "lr must be a number, got 'fast'"),
        (["--seeds", "0"], 2, "seeds"),
        (["--set", "search.training.lr=1"], 2, "a search needs a list of values"),
        (["--device", "tpu"], 2, "device must be auto, cpu, cuda or cuda:N, got 'tpu'"),
    ],
)
def test_wrong_command_lines(config: Path, tmp_path: Path, arguments: list[str], code: int, message: str) -> None:
    text = rfp_train(config, *arguments, folder=tmp_path, code=code)
    assert message in " ".join(text.replace("│", " ").split())
    assert not (tmp_path / "results").exists()


def test_bad_input_is_one_clear_error(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="split 7 of 'KarateClub' does not exist; expected 0 to 2"):
        rfp_train(config, "--split", "7", folder=tmp_path)
    config.write_text(KARATE + "modle: {}\n")
    with pytest.raises(ArgumentError, match=r"club.yaml: a key of the run's config must be one of .*, got 'modle'"):
        rfp_train(config, folder=tmp_path)
    config.write_text("data: [")
    with pytest.raises(FileError, match=r"club.yaml: not a YAML file"):
        rfp_train(config, folder=tmp_path)
    with pytest.raises(FileError, match=r"none.yaml: No such file or directory"):
        rfp_train(tmp_path / "none.yaml", folder=tmp_path)
    for option in ("--results", "--checkpoints"):  # not after the training
        with pytest.raises(FileError, match=r"inside: cannot be used as a folder \(.*club.yaml is a file\)"):
            rfp_train("texas", option, config / "inside", folder=tmp_path)
    with pytest.raises(FileError, match="the data root is not a folder"):
        rfp_train("texas", "--data-root", tmp_path / "none", folder=tmp_path)
    text = rfp_train("nothing", folder=tmp_path, code=2)
    assert "neither a .yaml file nor a data set" in " ".join(text.replace("│", " ").split())
    (tmp_path / "graphs.pt").touch()
    text = rfp_train(tmp_path / "graphs.pt", folder=tmp_path, code=2)
    assert "is not a config file; write one with" in " ".join(text.replace("│", " ").split())


def test_too_little_memory_is_one_clear_error(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.train.replica_memory.available_memory", lambda: 1000)
    with pytest.raises(RFPError, match="out of memory: a model alone needs more than"):
        rfp_train(config, folder=tmp_path)


def test_a_damaged_result_file_is_named(config: Path, tmp_path: Path) -> None:
    rfp_train(config, folder=tmp_path)
    (path,) = (tmp_path / "results").rglob("*.json")
    path.write_text(path.read_text()[:100])
    with pytest.raises(FileError, match="damaged result file"):
        rfp_train(config, folder=tmp_path)
    rfp_train(config, "--no-resume", folder=tmp_path)
    assert json.loads(path.read_text())["format"] == "rfp-result-1"


def test_settings() -> None:
    base = read_target("texas", ["model.encodings.0.num_steps=4", "training.patience=null", "name=mine"])
    assert base.model["encodings"][0]["num_steps"] == 4
    assert base.training.patience is None
    assert base.name == "mine"
    searched = with_setting(with_setting(base, "search.training.lr=[1e-3, 1e-2]"), "training.weight_decay=1e-5")
    assert searched.search == {"training.lr": (0.001, 0.01)}
    assert searched.training.weight_decay == 1e-5


def test_report_in_percent_with_notes() -> None:
    runs = tuple(RunRecord(0, s, {"val": 0.5, "test": t}, 1, 5, 1.0, 1234) for s, t in enumerate((0.5, 0.6)))
    config = RunConfig.from_dict({"data": "texas", "name": "m"})
    lines = report_lines(Result(config, "texas", "accuracy", True, runs, notes=("mind this",)), Path("r"))
    assert lines[1] == "  test accuracy 55.00 ± 7.07 %, validation 50.00 ± 0.00 % (2 runs, 1 seed, 2 splits)"
    assert "  note: mind this" in lines
    assert "1,234 parameters" in lines[2]
    one = report_lines(Result(config, "zinc", "mae", False, runs[:1]), Path("r"))
    assert one[1] == "  test mae 0.5000, validation 0.5000 (1 run, 1 seed, 1 split)"


def test_ticks_become_stages_and_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[object] = []

    class Bar:
        def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
            heard.append((name, total, done))

        def advance(self, steps: int) -> None:
            heard.append(steps)

    @contextmanager
    def bar(*, quiet: bool, lines: object, log: bool | None) -> Iterator[Bar]:
        heard.append("open")
        yield Bar()
        heard.append("closed")

    monkeypatch.setattr(progress, "progress_bar", bar)
    tick = progress.Ticker(quiet=False)
    assert heard == []  # no bar before there is something to count: other tasks draw their own
    for what, done in (("a", 1), ("a", 3), ("b", 2), ("b", 1), ("b", 10), ("c", 4)):
        tick(what, done, 10)
    tick.close()
    first = ["open", ("a", 10, 1), 2, ("b", 10, 2), ("b", 10, 1), 9, "closed"]
    assert heard == [*first, "open", ("c", 10, 4), "closed"]


def test_other_verbs_start_without_the_training_stack() -> None:
    code = (
        "import sys, rfp.cli.main; print([m for m in ('torch_geometric', 'rfp.train', 'optuna') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
