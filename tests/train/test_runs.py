"""From a config to a result file: engines, resuming, searching, refusing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from rfp.data import load
from rfp.errors import ArgumentError, FileError
from rfp.train import RunConfig, Workspace, read_result, run
from rfp.train.lightning_run import fit as fit_alone
from rfp.train.node_grid import NodeTrainer, train_nodes
from rfp.train.search import SearchSettings

from .plain_run import many_graphs

CLUB = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.4, 0.3, 0.3], "num_splits": 3}
FAKE = {
    "class": "torch_geometric.datasets.FakeDataset",
    "args": {"num_graphs": 24, "avg_num_nodes": 6, "num_classes": 3, "num_channels": 4},
    "random_split": [0.5, 0.25, 0.25],
}
SMALL = {"hidden_channels": 8, "num_layers": 1, "norm": "none", "encodings": [{"name": "rfp", "num_steps": 2}]}


def config(data: dict[str, Any], *, search: dict[str, Any] | None = None, **training: Any) -> RunConfig:
    model = {**SMALL, "backbone": "gcn"}
    plain = {"name": "try", "data": data, "model": model, "training": {"epochs": 2, **training}}
    return RunConfig.from_dict({**plain, "search": search or {}})


def test_node_task_writes_one_file_for_all_splits(tmp_path: Path) -> None:
    workspace = Workspace(results=tmp_path)
    result = run(config(CLUB), workspace=workspace)
    (path,) = tmp_path.rglob("*.json")
    assert read_result(path).runs == result.runs
    assert [r.split for r in result.runs] == [0, 1, 2]
    assert {"device", "torch", "python"} <= result.environment.keys()
    assert {r.device for r in result.runs} == {result.environment["device"]}
    assert json.loads(path.read_text())["config"]["training"]["epochs"] == 2


def test_a_model_without_encodings_is_one_that_says_so() -> None:
    said: list[str] = []
    left_out = config(CLUB).to_dict()
    del left_out["model"]["encodings"]
    none = config(CLUB).with_values({"model.encodings": []})
    sizes = [
        run(one, splits=[0], workspace=Workspace(say=said.append)).runs[0].num_parameters
        for one in (none, RunConfig.from_dict(left_out))
    ]
    assert sizes[1] - sizes[0] == 17 * 16 * 8  # (P + 1) k columns into 8 channels
    assert said == ["the model's config names no encodings, so it has RFP with its defaults; encodings: [] is none"]


def test_targets_of_millions_are_told_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = many_graphs()
    said: list[str] = []
    monkeypatch.setattr("rfp.train.runs.load", lambda *args, **kwargs: replace(plain, y=plain.y * 1e6))
    run(config({"name": "zinc"}), splits=[0], workspace=Workspace(say=said.append))
    assert said[0].startswith("numbers: the training targets have the mean 7.06e+05 and the deviation 7.79e+05")
    said.clear()
    monkeypatch.setattr("rfp.train.runs.load", lambda *args, **kwargs: plain)
    run(config({"name": "zinc"}), splits=[0], workspace=Workspace(say=said.append))
    assert not any("targets" in line for line in said)


def test_finished_runs_are_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(results=tmp_path)
    first = run(config(CLUB), splits=[0], workspace=workspace)
    more = run(config(CLUB), splits=[0, 2], workspace=workspace)
    assert more.runs[0] == first.runs[0]
    assert [r.split for r in more.runs] == [0, 2]
    monkeypatch.setattr("rfp.train.runs.train_nodes", None)  # would fail if it were called
    assert run(config(CLUB), splits=[2], workspace=workspace).runs == more.runs


@pytest.mark.parametrize("engine", ["replicas", "lightning"])
def test_tuning_computes_no_test_score_and_a_table_asks_for_it(tmp_path: Path, engine: str) -> None:
    workspace = Workspace(results=tmp_path)
    wanted = config(CLUB, engine=engine)
    tuned = run(wanted, splits=[0], workspace=workspace, test=False)
    assert "val" in tuned.runs[0].metrics
    assert "test" not in tuned.runs[0].metrics
    assert run(wanted, splits=[0], workspace=workspace, test=False).runs == tuned.runs
    tested = run(wanted, splits=[0], workspace=workspace)
    assert tested.is_tested
    assert tested.runs[0].metrics["val"] == tuned.runs[0].metrics["val"]


def test_a_search_that_goes_on_judges_the_grid_on_all_splits(tmp_path: Path) -> None:
    """Not on those that are missing: else the values chosen would depend on when the run was cut."""
    wanted = config(CLUB, search={"training.lr": [0.3, 0.03, 0.001], "training.weight_decay": [0.0, 0.5]}, epochs=5)
    whole = run(wanted)
    workspace = Workspace(results=tmp_path)
    run(wanted, splits=[0], workspace=workspace)
    continued = run(wanted, workspace=workspace)
    assert {trial.num_runs for trial in continued.trials} == {3}
    assert [trial.val for trial in continued.trials] == [trial.val for trial in whole.trials]
    assert [(r.split, r.values, r.metrics) for r in continued.runs] == [
        (r.split, r.values, r.metrics) for r in whole.runs
    ]
    alone = [run(wanted, splits=[split]) for split in range(3)]
    assert len({str(one.runs[0].values) for one in alone}) > 1  # each split by itself would choose otherwise


def test_splits_that_come_later_have_the_same_values(tmp_path: Path) -> None:
    wanted = config(CLUB, search={"training.lr": [0.3, 0.03, 0.001], "training.weight_decay": [0.0, 0.5]}, epochs=5)
    workspace = Workspace(results=tmp_path)
    run(wanted, splits=[0], workspace=workspace)
    both = run(wanted, splits=[1], workspace=workspace)
    assert [(r.split, r.values) for r in both.runs] == [(split, both.runs[0].values) for split in (0, 1)]
    together = run(wanted, splits=[0, 1])
    assert [(r.values, r.metrics) for r in both.runs] == [(r.values, r.metrics) for r in together.runs]
    assert {trial.num_runs for trial in both.trials} == {2}


@pytest.mark.parametrize("search", [{"training.weight_average": [0, 0.9]}, {"model.norm": ["none", "batch"]}])
def test_what_replicas_cannot_do_is_searched_one_run_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: dict[str, list[Any]]
) -> None:
    wanted = config(CLUB, search=search, epochs=4)
    ((key, values),) = search.items()
    alone = [run(wanted.with_values({key: value}), splits=[0]).runs[0].metrics["val"] for value in values]
    monkeypatch.setattr("rfp.train.runs.train_nodes", None)  # would fail if it were called
    found = run(wanted, splits=[0], workspace=Workspace(checkpoints=tmp_path))
    assert [trial.values for trial in found.trials] == [{key: value} for value in values]
    assert [trial.val for trial in found.trials] == alone


@pytest.mark.parametrize(
    "search", [{"model.hidden_channels": [8, 64]}, {"training.epochs": [2, 0]}, {"model.trajectory_layers": [None, 1]}]
)
def test_values_that_cannot_be_built_leave_the_engine_as_it_is(search: dict[str, list[Any]]) -> None:
    """They are left out, and the others judged on all splits."""
    said: list[str] = []
    wanted = config(CLUB, search=search).with_values({"model.max_parameters": 1000})
    found = run(wanted, workspace=Workspace(say=said.append))
    ((key, values),) = search.items()
    assert [(trial.values, trial.num_runs) for trial in found.trials] == [({key: values[0]}, 3)]
    assert len([line for line in said if f"{{'{key}': {values[1]}}} left out" in line]) == 1


def test_a_seed_that_is_asked_for_alone_has_the_values_that_are_there(tmp_path: Path) -> None:
    workspace = Workspace(results=tmp_path)
    wanted = config(CLUB, search={"training.lr": [0.3, 0.03]}, epochs=3)
    first = run(wanted, workspace=workspace)
    more = run(wanted, seeds=[1], workspace=workspace)
    assert more.trials == first.trials
    assert more.runs[:3] == first.runs
    assert [(r.seed, r.values) for r in more.runs[3:]] == [(1, first.runs[0].values)] * 3


@pytest.mark.parametrize("values", [{"model.norm": "batch"}, {"model.backbone": "gps", "model.edge_products": True}])
def test_what_only_one_engine_can_train_is_trained_by_it(values: dict[str, Any]) -> None:
    """Batch normalisation mixes the rows of replicas, and edge features are not theirs."""
    wanted = config(CLUB).with_values(values)
    assert "val_loss" in run(wanted, splits=[0]).runs[0].metrics
    with pytest.raises(ArgumentError, match="cannot be trained in replicas"):
        run(wanted.with_values({"training.engine": "replicas"}), splits=[0])


def test_runs_that_another_process_wrote_meanwhile_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, workspace = config(CLUB), Workspace(results=tmp_path)

    def beside(trainer: Any, **arguments: Any) -> Any:
        monkeypatch.undo()
        run(wanted, splits=[1], workspace=workspace)
        return train_nodes(trainer, **arguments)

    monkeypatch.setattr("rfp.train.runs.train_nodes", beside)
    assert [r.split for r in run(wanted, splits=[0], workspace=workspace).runs] == [0, 1]
    anew = run(wanted, splits=[2], workspace=workspace, resume=False)
    assert [r.split for r in anew.runs] == [2]


def test_a_search_begins_anew_where_nothing_is_to_be_taken_up(tmp_path: Path) -> None:
    said: list[str] = []
    workspace = Workspace(results=tmp_path / "results", checkpoints=tmp_path / "runs", say=said.append)
    wanted = config(CLUB, search={"training.lr": [0.3, 0.03]}, engine="lightning")
    first = run(wanted, splits=[0], workspace=workspace)
    run(wanted, splits=[0], workspace=workspace, search_settings=SearchSettings(trials=1))
    assert "this search is done, of 2 trials; --no-resume searches anew" in said
    said.clear()
    assert run(wanted, splits=[0], workspace=workspace, resume=False).trials == first.trials
    assert not any("tried before" in line for line in said)
    assert sum(line.startswith("search: ") for line in said) == 2


def test_further_seeds_are_trained_with_what_was_chosen(tmp_path: Path) -> None:
    wanted = config(CLUB, search={"training.lr": [0.3, 0.03]}, epochs=3)
    workspace = Workspace(results=tmp_path)
    first = run(wanted, workspace=workspace)
    more = run(wanted, seeds=[0, 1], workspace=workspace)
    assert more.trials == first.trials
    assert [(r.seed, r.split) for r in more.runs] == [(seed, split) for seed in (0, 1) for split in range(3)]
    assert more.runs[:3] == first.runs
    assert [r.values for r in more.runs] == [first.runs[0].values] * 6


def test_every_split_is_scored_on_its_own_masks(tmp_path: Path) -> None:
    whole = run(config(CLUB, epochs=4))
    alone = [run(config(CLUB, epochs=4), splits=[split]).runs[0] for split in range(3)]
    assert [r.metrics for r in whole.runs] == [r.metrics for r in alone]
    by_lightning = run(config(CLUB, epochs=4, engine="lightning"))
    for one, other in zip(whole.runs, by_lightning.runs, strict=True):
        assert one.metrics["val"] == pytest.approx(other.metrics["val"])
        assert one.metrics["test"] == pytest.approx(other.metrics["test"])
        assert one.epoch == other.epoch


@pytest.mark.parametrize("data", [FAKE, CLUB], ids=["graphs", "nodes"])
def test_lightning_engine(data: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(results=tmp_path / "results", checkpoints=tmp_path / "runs")
    wanted = config(data, engine="lightning")
    result = run(wanted, splits=[0], workspace=workspace)
    (record,) = result.runs
    assert {"val", "test", "train_loss"} <= record.metrics.keys()
    assert list((tmp_path / "runs" / wanted.key / "seed0-split0").glob("*.ckpt"))
    monkeypatch.setattr("rfp.train.runs.fit", None)
    assert run(wanted, splits=[0], workspace=workspace).runs == result.runs


def test_search_of_a_graph_task_never_sees_the_test_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    parts = []
    original = fit_alone

    def fit(*args: Any, test: bool = True, **kwargs: Any) -> Any:
        record = original(*args, test=test, **kwargs)
        parts.append((test, "test" in record.metrics))
        return record

    monkeypatch.setattr("rfp.train.runs.fit", fit)
    workspace = Workspace(results=tmp_path / "results", checkpoints=tmp_path / "runs")
    wanted = config(FAKE, search={"training.lr": [0.1, 0.001]})
    result = run(wanted, seeds=[0, 1], workspace=workspace)
    assert parts == [(False, False), (False, False), (True, True), (True, True)]
    assert len(result.trials) == 2
    best = max(result.trials, key=lambda trial: trial.val)
    assert [r.values for r in result.runs] == [best.values] * 2
    again = run(wanted, seeds=[0, 1, 2], workspace=workspace)  # one more seed: the choice stands
    assert len(parts) == 5
    assert again.runs[2].values == best.values


def test_epoch_chosen_by_loss(tmp_path: Path) -> None:
    workspace = Workspace(checkpoints=tmp_path)
    wanted = config(FAKE, choose_by="loss", epochs=6, lr=0.05)
    (record,) = run(wanted, workspace=workspace).runs
    lines = (tmp_path / wanted.key / "seed0-split0" / "metrics.csv").read_text().splitlines()
    column = lines[0].split(",").index("val_loss")
    losses = [float(line.split(",")[column]) for line in lines[1:]]
    assert record.epoch == losses.index(min(losses))


@pytest.mark.parametrize("alone", [{"precision": "bf16-mixed"}, {"schedule": "plateau"}, {"sharpness": 0.5}])
def test_what_replicas_do_without_is_trained_one_run_at_a_time(
    alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rfp.train.runs.train_nodes", None)  # would fail if it were called
    result = run(config(CLUB, **alone), splits=[0])
    assert result.runs[0].metrics == run(config(CLUB, **alone, engine="lightning"), splits=[0]).runs[0].metrics | {
        "seconds_per_epoch": result.runs[0].metrics["seconds_per_epoch"]
    }


def test_what_cannot_be_run(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="split 7 of 'KarateClub' does not exist; expected 0 to 2"):
        run(config(CLUB), splits=[7], workspace=Workspace(results=tmp_path))
    with pytest.raises(ArgumentError, match=r'engine="replicas" cannot train .*: it is no node task'):
        run(config(FAKE, engine="replicas"), workspace=Workspace(results=tmp_path))
    with pytest.raises(ArgumentError, match=r"more than max_parameters=10"):
        run(config(CLUB).with_values({"model.max_parameters": 10}), workspace=Workspace(results=tmp_path))
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("progress", [False, True])
def test_a_model_by_itself_says_how_far_it_is_where_it_has_no_bar(progress: bool) -> None:
    told: list[tuple[str, int, int]] = []
    workspace = Workspace(device="cpu", progress=progress, tick=lambda *what: told.append(what))
    run(config(FAKE, epochs=3), seeds=[0, 1], workspace=workspace)
    epochs = [(f"FakeDataset try, seed {seed}", epoch, 3) for seed in (0, 1) for epoch in (1, 2, 3)]
    assert told == ([] if progress else epochs)


def test_replicas_have_one_device_and_say_so() -> None:
    said: list[str] = []
    run(config(CLUB), splits=[0], workspace=Workspace(device="cpu", num_devices=2, say=said.append))
    assert said == ['replicas train on one device; for several, one run at a time: training.engine: "lightning"']


def write_clubs(folder: Path, edges: str, labels: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges.split()))
    parts = zip(labels, ("train", "val", "test") * len(labels), strict=False)
    (folder / "nodes.csv").write_text(
        "node,label,split\n" + "\n".join(f"{i},{label},{part}" for i, (label, part) in enumerate(parts))
    )


@pytest.mark.parametrize("engine", ["replicas", "lightning"])
def test_data_of_ones_own_that_have_changed_are_told_from_those_of_before(tmp_path: Path, engine: str) -> None:
    data = tmp_path / "data"
    workspace = Workspace(results=tmp_path / "r", checkpoints=tmp_path / "c", device="cpu")
    settings = config({"path": str(data)}, engine=engine)
    write_clubs(data, "0,1 1,2 3,4 4,5 2,3", "aaabbb")
    first = run(settings, workspace=workspace)
    write_clubs(data, "0,1 1,2 3,4 4,5 2,3", "aaabbb")  # the same again
    assert run(settings, workspace=workspace).runs == first.runs
    write_clubs(data, "0,1 1,2 3,4 4,5 5,0", "aaabbb")
    with pytest.raises(FileError, match=r"json: made with other data: the files that data.path names have changed"):
        run(settings, seeds=[0, 1], workspace=workspace)
    if engine == "lightning":
        with pytest.raises(FileError, match=r"last.ckpt: made with other data"):
            run(settings, workspace=replace(workspace, results=tmp_path / "other"))
    anew = run(settings, workspace=workspace, resume=False)
    assert anew.data_digest != first.data_digest


def test_tuples_are_searched_as_a_file_has_them() -> None:
    operators = [("adjacency",), ("random_walk",)]
    settings = config(CLUB, search={"model.encodings.0.operators": operators})
    assert settings.search["model.encodings.0.operators"] == (["adjacency"], ["random_walk"])


def test_a_part_of_a_split_that_is_empty_is_told_before_training() -> None:
    loaded = load(CLUB)
    none = {**loaded.masks, "val": torch.zeros_like(loaded.masks["val"])}
    trainer = NodeTrainer(config(CLUB), replace(loaded, masks=none), torch.device("cpu"))
    with pytest.raises(ArgumentError, match="split 0 of 'KarateClub' has nothing in its val part"):
        train_nodes(trainer, seeds=[0], splits=[0])


@pytest.mark.parametrize("engine", ["replicas", "lightning"])
def test_a_node_without_a_label_is_in_the_graph_and_in_no_part(tmp_path: Path, engine: str) -> None:
    """What it would be called were it known changes nothing: it is neither learned nor scored."""
    runs = []
    for label in ("", "a"):
        rows = ["0,a,train", "1,a,val", "2,b,test", "3,b,train", f"4,{label},", "5,b,val"]
        (tmp_path / "nodes.csv").write_text("node,label,split\n" + "\n".join(rows))
        (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n3,4\n4,5\n2,3")
        runs.append(run(config({"path": str(tmp_path)}, engine=engine), workspace=Workspace(device="cpu")).runs[0])
    scores = [{part: run.metrics[part] for part in run.metrics if part != "seconds_per_epoch"} for run in runs]
    assert scores[0] == scores[1]


@pytest.mark.parametrize("part", ["val", "test"])
def test_a_part_with_one_answer_alone_is_told_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """There is no ROC-AUC of it: told after all epochs, and of no part in particular, it cost the training."""
    edges = torch.tensor([[0, 1], [1, 0]])
    answers = {name: [0, 0] if name == part else [0, 1] for name in ("train", "val", "test")}
    graphs = {
        name: [Data(x=torch.ones(2, 1), edge_index=edges, y=torch.tensor([[float(y)]])) for y in several]
        for name, several in answers.items()
    }
    torch.save(graphs, tmp_path / "graphs.pt")
    workspace = Workspace(results=tmp_path, checkpoints=tmp_path / "c", device="cpu")
    settings = config({"path": str(tmp_path / "graphs.pt"), "kind": "binary"})
    searched = replace(settings, search={"training.lr": (1e-3, 1e-2)})
    with monkeypatch.context() as patched:
        patched.setattr("rfp.train.runs.fit", lambda *_, **__: pytest.fail("was trained"))
        for asked in (settings, searched):  # a search would look at the test part when it has chosen
            with pytest.raises(ArgumentError, match=f"the {part} part of split 0 of 'graphs' has no target with both"):
                run(asked, workspace=workspace)
    assert not (tmp_path / "c").exists()
    if part == "test":  # which is let alone while values are tried
        assert run(settings, workspace=workspace, test=False).runs
    with_accuracy = config({"path": str(tmp_path / "graphs.pt"), "kind": "binary", "metric": "accuracy"})
    assert run(with_accuracy, workspace=workspace).is_tested
