"""A link task through the whole of training: results, checkpoints, search, several seeds and splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from rfp.data import load
from rfp.nn import RFPModel
from rfp.train import OutOfTime, RunConfig, Workspace, run

DATA = {"class": "torch_geometric.datasets.KarateClub", "level": "link", "num_splits": 2, "hard_negatives": 10}
MODEL = {
    "backbone": "gcn",
    "norm": "none",
    "hidden_channels": 16,
    "num_layers": 1,
    "pair_products": True,
    "encodings": [
        {
            "name": "rfp",
            "num_channels": 34,
            "num_steps": 2,
            "operators": ["adjacency", "normalized_adjacency"],
            "normalization": "none",
            "start": "orthonormal",
        }
    ],
}


def config(**more: Any) -> RunConfig:
    training = {"epochs": 3, "lr": 0.01, "batch_size": 30, **more.pop("training", {})}
    return RunConfig.from_dict(
        {"data": DATA, "model": {**MODEL, **more.pop("model", {})}, "training": training, **more}
    )


def test_a_run_has_all_scores_and_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    where = Workspace(results=tmp_path / "r", checkpoints=tmp_path / "c", device="cpu")
    result = run(config(), workspace=where)
    assert [run.split for run in result.runs] == [0, 1]
    names = ("hits@10", "hits@20", "hits@50", "hits@100", "mrr", "roc_auc", "average_precision")
    for record in result.runs:
        assert {f"{part}_{name}" for part in ("val", "test") for name in names} <= set(record.metrics)
        assert record.metrics["test"] == record.metrics["test_hits@100"]
        assert all(0 <= record.metrics[f"test_{name}"] <= 1 for name in names)
    whole = run(config(training={"epochs": 4}), splits=[0], workspace=Workspace(device="cpu"))
    half = Workspace(checkpoints=tmp_path / "d", device="cpu")
    stop = config(training={"epochs": 4})

    class CutError(Exception):
        pass

    def cut(epoch: int, value: float) -> None:
        if epoch == 1:
            raise CutError

    from rfp.train.lightning_run import fit

    with pytest.raises(CutError):
        fit(
            stop,
            load(stop.data),
            seed=0,
            split=0,
            device=torch.device("cpu"),
            folder=tmp_path / "d" / stop.key / "seed0-split0",
            report=cut,
        )
    again = run(stop, splits=[0], workspace=half)
    assert again.runs[0].metrics["test_mrr"] == pytest.approx(whole.runs[0].metrics["test_mrr"], abs=1e-9)


@pytest.mark.parametrize(
    "model",
    [
        {"embed": "products"},
        {"encodings": [{"name": "eigenvectors", "num_eigenvectors": 4}], "pair_products": False},
        {"encodings": [{"name": "rnf", "num_channels": 8}], "pair_products": False},
        {"trajectories": "dss", "encodings": [{**MODEL["encodings"][0], "num_trajectories": 2}]},  # type: ignore[index]
        {"encodings": [{**MODEL["encodings"][0], "operators": ["adjacency", "learned"]}]},  # type: ignore[index]
    ],
)
def test_every_row_of_the_table_trains(model: dict[str, Any]) -> None:
    result = run(config(model=model, training={"epochs": 1}), splits=[0], workspace=Workspace(device="cpu"))
    assert result.runs[0].metrics["train_loss"] > 0


def test_training_finds_more_than_chance() -> None:
    result = run(config(training={"epochs": 40}), splits=[0], workspace=Workspace(device="cpu"))
    losses = result.runs[0].metrics
    assert losses["train_loss"] < 0.62  # 0.693 knows nothing


def test_a_search_reads_validation_alone() -> None:
    searched = config(search={"training.lr": [1e-3, 1e-2]}, training={"epochs": 2})
    result = run(searched, splits=[0], workspace=Workspace(device="cpu"))
    assert len(result.trials) == 2
    best = max(result.trials, key=lambda trial: trial.val)
    assert result.runs[0].values == best.values


def test_chosen_by_the_metric_that_was_asked_for() -> None:
    asked = RunConfig.from_dict({**config().to_dict(), "data": {**DATA, "metric": "mrr"}})
    record = run(asked, splits=[0], workspace=Workspace(device="cpu")).runs[0]
    assert record.metrics["test"] == record.metrics["test_mrr"]


def test_a_deadline_ends_a_training_whose_checkpoint_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Workspace(results=tmp_path / "r", checkpoints=tmp_path / "c", device="cpu")
    asked: list[int] = []

    def late(self: Workspace) -> None:
        asked.append(1)
        if len(asked) == 3:  # before the run, and after its first two epochs
            raise OutOfTime

    monkeypatch.setattr(Workspace, "check_time", late)
    monkeypatch.setattr("rfp.train.checkpoints.SAVE_EVERY_SECONDS", 0.0)
    with pytest.raises(OutOfTime):
        run(config(), splits=[0], workspace=where)
    said: list[str] = []
    again = Workspace(results=tmp_path / "r", checkpoints=tmp_path / "c", device="cpu", say=said.append)
    result = run(config(), splits=[0], workspace=again)
    assert result.runs[0].epochs == 3
    assert any(line.startswith("continuing from epoch 2") for line in said)


def test_the_model_knows_its_level() -> None:
    loaded = load(DATA)
    model = RFPModel(config().model_config(loaded))
    assert model.config.task == "link"
    assert model.config.out_channels == 1
