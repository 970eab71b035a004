"""``rfp search`` as a user runs it: what is searched, by which settings, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from typer.testing import CliRunner

import rfp.train
from rfp.cli.main import app
from rfp.errors import FileError
from rfp.train import Result, RunConfig, RunRecord
from rfp.train.results import Trial
from rfp.train.search import SearchSettings
from tests.cli.test_train import KARATE


class FakeRun:
    """Stands for :func:`rfp.train.runs`; remembers its arguments."""

    def __call__(self, config: RunConfig, *, search_settings: SearchSettings | None = None, **more: Any) -> Result:
        self.config, self.settings, self.more = config, search_settings, more
        runs = (RunRecord(0, 0, {"val": 0.8, "test": 0.7}, 1, 2, 0.1, 10, {"training.lr": 0.01}),)
        trials = tuple(Trial({"training.lr": lr}, val) for lr, val in ((0.1, 0.6), (0.01, 0.8), (1.0, float("nan"))))
        return Result(config, "club", "accuracy", True, runs, trials)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    run = FakeRun()
    monkeypatch.setattr(rfp.train, "run", run)
    return run


def rfp_search(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["search", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else " ".join(result.output.replace("│", " ").split())


def test_the_configs_own_search(fake: FakeRun, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(KARATE + "search: {training.lr: [1e-3, 1e-2]}\n")
    lines = rfp_search(
        tmp_path / "c.yaml", "--set", "search.model.dropout=[0, 0.5]", "--trials", "3", "--sampler", "tpe", "--prune"
    ).splitlines()
    assert fake.config.search == {"training.lr": (0.001, 0.01), "model.dropout": (0, 0.5)}
    assert fake.settings == SearchSettings(3, "tpe", True)
    assert lines[0] == "3 points tried; the best by validation accuracy:"
    assert lines[1:3] == ["  0.8000  training.lr=0.01", "  0.6000  training.lr=0.1"]
    assert lines[3] == "club c"
    assert "  chosen on validation: training.lr=0.01" in lines


def test_the_papers_grid(fake: FakeRun) -> None:
    report = json.loads(rfp_search("zinc", "--grid", "paper", "--seeds", "2", "--json"))
    assert report["config"]["search"]["model.num_layers"] == [2, 4, 8, 16]
    assert fake.config.search["model.encodings.0.num_steps"] == (2, 4, 8, 16, 32)
    assert list(fake.more["seeds"]) == [0, 1]
    assert fake.settings == SearchSettings()


def test_wrong_command_lines(fake: FakeRun, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(KARATE)
    assert "the config has no search; add one to it" in rfp_search(tmp_path / "c.yaml", code=2)
    assert "--grid must be config or paper, got 'all'" in rfp_search("zinc", "--grid", "all", code=2)
    text = rfp_search("zinc", "--grid", "paper", "--sampler", "random", code=2)
    assert "sampler must be one of 'auto', 'grid', 'tpe'" in text


@pytest.mark.parametrize("option", ["--results", "--checkpoints"])
def test_a_folder_that_cannot_be_one_is_told_before_the_search(fake: FakeRun, tmp_path: Path, option: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"inside: cannot be used as a folder \(.*file is a file\)"):
        rfp_search("zinc", "--grid", "paper", option, tmp_path / "file" / "inside")
    assert not hasattr(fake, "config")


def test_a_real_search_of_a_node_task(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(KARATE + "search: {training.lr: [1e-3, 1e-2], training.weight_decay: [0, 1e-3]}\n")
    where = ["--results", str(tmp_path / "r"), "--checkpoints", str(tmp_path / "k"), "--device", "cpu", "--json"]
    report = json.loads(rfp_search(tmp_path / "c.yaml", *where))
    assert len(report["trials"]) == 4
    best = max(report["trials"], key=lambda trial: trial["val"])
    assert report["runs"][0]["values"] == best["values"]


def test_a_real_search_of_a_graph_task(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    generator = torch.Generator().manual_seed(0)
    graphs = [
        Data(x=torch.rand(3, 2, generator=generator), edge_index=edges, y=torch.rand(1, 1, generator=generator))
        for _ in range(12)
    ]
    torch.save(graphs, tmp_path / "graphs.pt")
    (tmp_path / "c.yaml").write_text(
        f"data: {{path: {tmp_path / 'graphs.pt'}, random_split: [0.5, 0.25, 0.25]}}\n"
        "model: {num_layers: 1, hidden_channels: 4, max_parameters: 2000, encodings: [{name: rfp, num_channels: 2}]}\n"
        "training: {epochs: 2, lr: 1e-2}\n"
        "search: {model.hidden_channels: [4, 64], training.lr: [1e-3, 1e-2]}\n"
    )
    where = ["--results", str(tmp_path / "r"), "--checkpoints", str(tmp_path / "k"), "--device", "cpu", "--json"]
    report = json.loads(rfp_search(tmp_path / "c.yaml", *where))
    scores = {json.dumps(trial["values"]): trial["val"] for trial in report["trials"]}
    assert len(scores) == 4
    # 64 hidden channels are over the budget: refused, not trained.
    assert [text for text, val in scores.items() if val != val] == [text for text in scores if ": 64" in text]
    best = min((val, text) for text, val in scores.items() if val == val)[1]
    assert json.dumps(report["runs"][0]["values"]) == best
    assert json.loads(rfp_search(tmp_path / "c.yaml", *where))["runs"] == report["runs"]
