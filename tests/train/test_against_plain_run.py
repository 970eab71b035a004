"""Both engines, epoch by epoch, against a run written out plainly; and what such a run must not depend on."""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from rfp.data.loaded import LoadedTask
from rfp.train.lightning_run import fit
from rfp.train.replica_program import ReplicaProgram
from rfp.train.run_config import RunConfig
from rfp.train.trained_replicas import Replica, examine, validation_scores

from .plain_run import PlainRun, many_graphs, plain_run, two_circles

CPU = torch.device("cpu")
RFP = {"name": "rfp", "num_channels": 4, "num_steps": 3}
MODEL = {"backbone": "gcn", "norm": "none", "hidden_channels": 8, "num_layers": 2, "dropout": 0.3}
SEED = 4


def config(training: dict[str, Any] | None = None, **model: Any) -> RunConfig:
    training = {"epochs": 8, "lr": 0.03, "weight_decay": 0.02, "eval_draws": 3, **(training or {})}
    return RunConfig.from_dict({"data": "texas", "model": {**MODEL, "encodings": [RFP], **model}, "training": training})


CASES: dict[str, RunConfig] = {
    "plain": config(),
    "input dropout and clipping": config({"gradient_clip": 0.2, "warmup_epochs": 3}, input_dropout=0.4),
    "decoupled decay, chosen by loss": config({"optimizer": "adamw", "choose_by": "loss"}),
    "walks": config(encodings=[RFP, {"name": "random_walk", "walk_length": 3}], embed_activation=False),
    "a draw that is kept": config(encodings=[{**RFP, "keep_draw": True}]),
}


ONE_BATCH = {"batch_size": 100}
SINGLE: dict[str, RunConfig] = {
    "one batch": config(ONE_BATCH, backbone="gin"),
    "clipped": config({**ONE_BATCH, "gradient_clip": 0.3, "warmup_epochs": 3}),
    "products": config(ONE_BATCH, backbone="gin", embed="products", product_channels=5, product_scale="nodes"),
    # What is drawn for several batches at once would be drawn batch by batch here: nothing random but order and masks.
    "batches": config({"batch_size": 3}, encodings=[], backbone="gin", dropout=0.5),
    "averaged": config({"batch_size": 3, "weight_average": 0.7}, encodings=[], backbone="gin", norm="batch"),
    "uphill first": config({"batch_size": 3, "sharpness": 0.3}, encodings=[], backbone="gin", norm="batch"),
}
# Data and case of each run by the engine that trains one model at a time.
RUNS = [
    ("one graph", "plain"),
    ("one graph", "decoupled decay, chosen by loss"),
    ("one graph", "a draw that is kept"),
    ("graphs", "one batch"),
    ("graphs", "clipped"),
    ("graphs", "products"),
    ("graphs", "batches"),
    ("graphs", "averaged"),
    ("graphs", "uphill first"),
    ("nodes of many graphs", "walks"),
]
DATA: dict[str, Callable[[], LoadedTask]] = {
    "one graph": two_circles,
    "graphs": lambda: many_graphs("graph"),
    "nodes of many graphs": lambda: many_graphs("node"),
}


@cache
def expected_run(data: str, case: str, split: int, replica: bool = False) -> PlainRun:
    """Each plain run once."""
    return plain_run({**CASES, **SINGLE}[case], DATA[data](), seed=SEED, split=split, replica=replica)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("split", [0, 2])
def test_replicas_on_one_graph(case: str, split: int) -> None:
    loaded, settings = DATA["one graph"](), CASES[case]
    expected = expected_run("one graph", case, split, replica=True)
    replica = Replica(split, settings.training.lr, settings.training.weight_decay, SEED)
    program = ReplicaProgram(settings, loaded, [replica], device=CPU)
    seen: dict[str, list[float]] = {"train": [], "val": [], "score": []}
    step, validate = program._step, program._validate

    def watched_step(better: torch.Tensor | None) -> torch.Tensor:
        loss = step(better)
        seen["train"].append(loss.item())
        return loss

    def watched_validate() -> tuple[torch.Tensor, torch.Tensor]:
        score, loss = validate()
        seen["score"].append(score.item())
        seen["val"].append(loss.item())
        return score, loss

    program._step, program._validate = watched_step, watched_validate  # type: ignore[method-assign]
    program.fit()
    assert seen["train"] == pytest.approx(expected.train_loss, rel=1e-3)
    assert seen["val"] == pytest.approx(expected.val_loss, rel=1e-3)
    assert seen["score"] == pytest.approx(expected.val)
    assert program.best_epoch == [expected.best_epoch]
    assert program.best_val == pytest.approx([expected.val[expected.best_epoch]])
    for name, p in program.model.named_parameters():
        assert torch.allclose(p[0].flatten(), expected.weights[name].flatten(), atol=1e-4), name
    trained = program.trained()
    assert validation_scores(trained, loaded) == pytest.approx([expected.scores["val"]])
    assert examine(trained, loaded) == pytest.approx([expected.scores["test"]])


def rows(path: Path) -> dict[str, list[float]]:
    with open(path) as file:
        lines = list(csv.DictReader(file))
    return {name: [float(line[name]) for line in lines] for name in lines[0]}


@pytest.mark.parametrize(("data", "case"), RUNS)
@pytest.mark.parametrize("split", [0, 1])
def test_one_run_at_a_time(data: str, case: str, split: int, tmp_path: Path) -> None:
    settings, loaded, expected = {**CASES, **SINGLE}[case], DATA[data](), expected_run(data, case, split)
    record = fit(settings, loaded, seed=SEED, split=split, device=CPU, folder=tmp_path)
    seen = rows(tmp_path / "metrics.csv")
    assert seen["train_loss"] == pytest.approx(expected.train_loss, rel=1e-3)
    assert seen["val_loss"] == pytest.approx(expected.val_loss, rel=1e-3)
    assert seen["val"] == pytest.approx(expected.val, rel=1e-3)
    assert record.epoch == expected.best_epoch
    assert record.metrics["train_loss"] == seen["train_loss"][record.epoch]
    assert record.metrics["val_loss"] == seen["val_loss"][record.epoch]
    assert record.metrics["val"] == pytest.approx(expected.scores["val"], rel=1e-3)
    assert record.metrics["test"] == pytest.approx(expected.scores["test"], rel=1e-3)


def test_the_plain_runs_tell_right_from_wrong() -> None:
    """A check of the tests above: where the best epoch were the last, weights that are not restored would pass."""
    together = [expected_run("one graph", case, split, replica=True) for case in CASES for split in (0, 2)]
    alone = [expected_run(data, case, split) for data, case in RUNS for split in (0, 1)]
    for told in (together, alone):
        assert sum(run.best_epoch < len(run.val) - 1 for run in told) >= len(told) // 3
        assert sum(run.scores["test"] != run.scores_of_last_epoch["test"] for run in told) >= len(told) // 3
        assert all(run.scores["test"] != run.scores["val"] for run in told)
