"""A halving on a small graph: chosen by validation, the test part read for the chosen alone, cut and taken up again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rfp.data import LoadedTask, load
from rfp.errors import ArgumentError
from rfp.train import RunConfig, Workspace, read_results, run
from rfp.train.halving_choice import recorded_runs
from rfp.train.node_grid import NodeTrainer
from rfp.train.node_halving import halve
from rfp.train.results import RunRecord, Trial, read_result
from rfp.train.workspace import OutOfTime

CPU = torch.device("cpu")
CLUB = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.4, 0.3, 0.3], "num_splits": 3}
SEARCH = {
    "training.lr": [0.1, 0.01],
    "training.weight_decay": [0.0, 0.01],
    "model.backbone": ["mlp", "gcn"],
    "model.encodings.*.start": ["drawn", "unit"],
}
HALVING = {
    "tries": 4,
    "designed": 2,
    "screen_epochs": 2,
    "screen_splits": 2,
    "longer": 2,
    "longer_epochs": 3,
    "finalists": 2,
    "apart": "model.backbone",
}
MODEL = {
    "norm": "none",
    "hidden_channels": 4,
    "num_layers": 1,
    "encodings": [{"name": "rfp", "num_channels": 2, "num_steps": 2}, {"name": "rnf", "num_channels": 2}],
}
CONFIG = RunConfig.from_dict(
    {"name": "h", "data": CLUB, "model": MODEL, "training": {"epochs": 4}, "search": SEARCH, "halving": HALVING}
)


@pytest.fixture(scope="module")
def club() -> LoadedTask:
    return load(CLUB)


class Guarded(Mapping[str, torch.Tensor]):
    """Masks of which the test part may not be read yet."""

    def __init__(self, masks: Mapping[str, torch.Tensor]) -> None:
        self.masks, self.reads, self.closed = masks, 0, False

    def __getitem__(self, part: str) -> torch.Tensor:
        if part == "test" and self.closed:
            self.reads += 1
        return self.masks[part]

    def __iter__(self) -> Iterator[str]:
        return iter(self.masks)

    def __len__(self) -> int:
        return len(self.masks)


def test_tuning_never_reads_the_test_part(club: LoadedTask) -> None:
    """Fails as soon as anything before the choice computes a test score."""
    masks = Guarded(club.masks)
    watched = replace(club, masks=masks)
    masks.closed = True
    reads = []

    def save(trials: Any) -> None:
        reads.append(masks.reads)

    halved = halve(NodeTrainer(CONFIG, watched, CPU), CONFIG.halving, seeds=[0, 1], splits=[0, 1, 2], save=save)
    assert len(reads) == len(halved.trials)
    assert set(reads) == {0}
    assert masks.reads == 2  # once for the choice, once for the best of the other backbone
    # The guard works: an ordinary evaluation is noticed.
    assert len(watched.rows("test")) > 0
    assert masks.reads == 3


def test_runs_are_those_of_the_best_validation_score(club: LoadedTask) -> None:
    halved = halve(NodeTrainer(CONFIG, club, CPU), CONFIG.halving, seeds=[0, 1], splits=[0, 1, 2])
    final = [trial for trial in halved.trials if trial.stage == "final"]
    assert len(halved.runs) == 6
    (name, others), *rest = halved.alternatives.items()
    assert not rest
    assert {name, halved.chosen} == {"model.backbone=mlp", "model.backbone=gcn"}
    for among, runs in ((halved.chosen, halved.runs), (name, others)):
        same = [trial for trial in final if f"model.backbone={trial.values['model.backbone']}" == among]
        best = max(same, key=lambda trial: trial.val)
        assert all(run.values == {key: best.values[key] for key in SEARCH} for run in runs)
        # Trained by itself.
        alone = run(replace(CONFIG.with_values(runs[0].values), search={}), seeds=[0, 1])
        assert [r.metrics for r in alone.runs] == [r.metrics for r in runs]
    scores = [sum(r.metrics["val"] for r in runs) for runs in (halved.runs, others)]
    assert scores[0] >= scores[1]


def test_what_is_tested_decides_and_not_the_luck_of_an_epoch(club: LoadedTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same search with runs whose validation scores say the contrary of the final stage."""
    usual = halve(NodeTrainer(CONFIG, club, CPU), CONFIG.halving, seeds=[0, 1], splits=[0, 1, 2])
    records = NodeTrainer.records

    def contrary(self: NodeTrainer, *args: Any) -> list[RunRecord]:
        return [replace(r, metrics={**r.metrics, "val": 1 - r.metrics["val"]}) for r in records(self, *args)]

    monkeypatch.setattr(NodeTrainer, "records", contrary)
    other = halve(NodeTrainer(CONFIG, club, CPU), CONFIG.halving, seeds=[0, 1], splits=[0, 1, 2])
    assert other.chosen in usual.alternatives
    assert [r.metrics["test"] for r in other.runs] == [r.metrics["test"] for r in usual.alternatives[other.chosen]]


def test_a_cut_search_goes_on_from_its_result_file(tmp_path: Path) -> None:
    whole = run(CONFIG, seeds=[0, 1])
    ends = time.time() + 1e6
    steps = 0

    def tick(what: str, done: int, total: int) -> None:
        nonlocal steps
        steps += 1
        if steps in (7, 15, 22):
            raise OutOfTime

    workspace = Workspace(results=tmp_path, device="cpu", tick=tick, deadline=ends)
    for _ in range(3):
        with pytest.raises(OutOfTime):
            run(CONFIG, seeds=[0, 1], workspace=workspace)
        (part,) = read_results(tmp_path).values()
        assert part.trials
        assert not part.runs
    done = run(CONFIG, seeds=[0, 1], workspace=workspace)
    assert [without_time(trial) for trial in done.trials] == [without_time(trial) for trial in whole.trials]
    assert [r.metrics for r in done.runs] == [r.metrics for r in whole.runs]
    again = next(iter(read_results(tmp_path).values()))
    assert again.alternatives == done.alternatives
    # A further seed is trained with the choice that was made.
    more = run(CONFIG, seeds=[0, 1, 2], workspace=workspace)
    assert more.runs[:6] == done.runs
    assert more.runs[6].values == done.runs[0].values
    with pytest.raises(OutOfTime):
        run(CONFIG, seeds=[3], workspace=replace(workspace, deadline=time.time() - 1))


def test_a_choice_that_is_trained_outlives_a_cut(tmp_path: Path) -> None:
    """Cut while the best of the other backbone is trained anew, which another process had tried."""
    whole = run(CONFIG, seeds=[0, 1], workspace=Workspace(results=tmp_path, device="cpu"))
    (name, others), *_ = whole.alternatives.items()
    path = tmp_path / whole.file_name()
    finals = [trial for trial in whole.trials if trial.stage == "final"]
    choice = whole.runs[0].values["model.backbone"]
    # As a process leaves it that has tried all but the choice.
    early = tuple(trial for trial in whole.trials if trial not in finals or trial.values["model.backbone"] != choice)
    replace(whole, runs=(), alternatives={}, trials=early).write(tmp_path)

    def tick(what: str, done: int, total: int) -> None:
        if what.endswith("chosen"):
            raise OutOfTime

    with pytest.raises(OutOfTime):
        run(CONFIG, seeds=[0, 1], workspace=Workspace(results=tmp_path, device="cpu", tick=tick))
    part = read_result(path)
    assert not part.runs  # which of the two it is will be told by the runs of both
    assert [r.metrics for r in part.alternatives[f"model.backbone={choice}"]] == [r.metrics for r in whole.runs]
    trained: list[str] = []
    done = run(
        CONFIG,
        seeds=[0, 1],
        workspace=Workspace(results=tmp_path, device="cpu", tick=lambda what, *_: trained.append(what)),
    )
    assert {what.split()[-1] for what in trained} == {"chosen"}  # the other backbone alone
    assert [r.metrics for r in done.alternatives[name]] == [r.metrics for r in others]
    assert read_result(path) == done
    assert [r.metrics for r in done.runs] == [r.metrics for r in whole.runs]
    assert [r.device for r in done.runs] == [r.device for r in part.alternatives[f"model.backbone={choice}"]]


def test_a_search_with_more_to_try_takes_up_the_smaller_one(tmp_path: Path) -> None:
    """A wide model is the best, which the smaller search does not try."""
    wide = {**SEARCH, "model.hidden_channels": [1, 32]}
    smaller = replace(CONFIG, search=wide, halving=replace(CONFIG.halving, held=("model.hidden_channels",), tries=2))
    larger = replace(smaller, halving=replace(smaller.halving, also={"model.hidden_channels": 32}))
    said: list[str] = []
    trained: list[str] = []
    workspace = Workspace(
        results=tmp_path, device="cpu", say=said.append, tick=lambda what, done, total: trained.append(what)
    )
    before = run(smaller, seeds=[0, 1], workspace=workspace)
    trained.clear()
    after = run(larger, seeds=[0, 1], workspace=workspace)
    assert any(f"goes on from the {len(before.trials)} trials" in line for line in said)
    assert after.trials[: len(before.trials)] == before.trials
    new = after.trials[len(before.trials) :]
    assert [trial.values["model.hidden_channels"] for trial in new if trial.stage == "screen"] == [32] * 4
    finals = [trial for trial in after.trials if trial.stage == "final"]
    best = max(finals, key=lambda trial: trial.val)
    assert best not in before.trials  # else this shows nothing
    for among, runs in recorded_runs(after).items():
        name, _, value = among.partition("=")
        top = max((t for t in finals if t.values[name] == value), key=lambda trial: trial.val)
        assert all(run.values == {key: top.values[key] for key in wide} for run in runs)
        alone = run(replace(larger.with_values(runs[0].values), search={}, halving=None), seeds=[0, 1])
        assert [r.metrics for r in alone.runs] == [r.metrics for r in runs]
    # What is done is not done again.
    trained.clear()
    again = run(larger, seeds=[0, 1], workspace=workspace)
    assert not trained
    assert (again.runs, again.trials, again.alternatives) == (after.runs, after.trials, after.alternatives)


def without_time(trial: Trial) -> Trial:
    return replace(trial, seconds=0.0)


def test_pairs_alone_can_be_searched(club: LoadedTask) -> None:
    search = {key: SEARCH[key] for key in ("training.lr", "training.weight_decay")}
    config = replace(CONFIG.with_values({"model.backbone": "gcn", "model.encodings.*.start": "unit"}), search=search)
    halving = replace(CONFIG.halving, apart="")
    found = halve(NodeTrainer(config, club, CPU), halving, seeds=[0, 1], splits=[0, 1, 2])
    assert [trial.stage for trial in found.trials] == ["screen", "longer", "final"]
    assert len(found.trials[0].pairs) == 4
    assert len(found.runs) == 6
    assert all(set(record.values) == set(search) for record in found.runs)


def test_nothing_can_be_trained(club: LoadedTask) -> None:
    small = CONFIG.with_values({"model.max_parameters": 1})
    with pytest.raises(ArgumentError, match=r"no combination of the search could be trained; the last: the model has"):
        halve(NodeTrainer(small, club, CPU), CONFIG.halving, seeds=[0], splits=[0])


def test_not_for_graph_tasks() -> None:
    fake = {"class": "torch_geometric.datasets.FakeDataset", "args": {"num_graphs": 8, "avg_num_nodes": 5}}
    graphs = {**CONFIG.to_dict(), "data": {**fake, "random_split": [0.5, 0.25, 0.25]}}
    with pytest.raises(ArgumentError, match="leave it out, for here is 'FakeDataset', which is not such a task"):
        run(RunConfig.from_dict(graphs))
    with pytest.raises(
        ArgumentError, match=r"halving searches .* by replicas; leave it out, for here is schedule='plat"
    ):
        run(CONFIG.with_values({"training.schedule": "plateau"}))
