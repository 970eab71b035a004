"""Whole runs of the Lightning engine: resuming after a kill, errors, kinds of task."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.tasks import Task
from rfp.errors import ArgumentError, FileError, MissingExtraError, NumericalError
from rfp.nn import RFPModel
from rfp.train import checkpoints, lightning_run
from rfp.train.lightning_run import fit
from rfp.train.results import RunRecord
from rfp.train.run_config import RunConfig

CPU = torch.device("cpu")
RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2}
MODEL = {"hidden_channels": 8, "num_layers": 2, "dropout": 0.2, "encodings": [RFP]}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The order of a sum, and so its last digit, depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def rings_and_paths(count: int = 24, *, kind: str = "binary") -> LoadedTask:
    """Even graphs are rings, odd ones paths; the label says which, or how many edges there are."""
    graphs = []
    for g in range(count):
        n = 4 + g % 5
        chain = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
        edges = chain if g % 2 else torch.cat([chain, torch.tensor([[n - 1], [0]])], dim=1)
        graphs.append(Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), x=torch.ones(n, 1), num_nodes=n))
    collection = GraphCollection.from_data_list(graphs)
    number = torch.arange(count)
    if kind == "binary":
        task, y = Task("shapes", "graph", "binary", "roc_auc", 1), (number % 2).float()[:, None]
    else:
        task, y = Task("shapes", "graph", "regression", "mae", 1), collection.edge_ptr.diff().float()[:, None] / 10
    masks = {part: (number % 6 // 2 == place)[:, None] for place, part in enumerate(("train", "val", "test"))}
    return LoadedTask(task, collection, y, masks, "made by hand")


def config(model: dict | None = None, **training: object) -> RunConfig:
    values = {"epochs": 4, "batch_size": 3, "lr": 0.01, **training}
    return RunConfig.from_dict({"data": "counting-generated", "model": {**MODEL, **(model or {})}, "training": values})


def run(settings: RunConfig, loaded: LoadedTask | None = None, **arguments: object) -> RunRecord:
    loaded = rings_and_paths() if loaded is None else loaded
    return fit(settings, loaded, **{"seed": 3, "split": 0, "device": CPU, **arguments})


def scores(record: RunRecord) -> dict[str, float]:
    return {name: value for name, value in record.metrics.items() if name != "seconds_per_epoch"}


KILLED = """
import os, signal, sys, torch
sys.path.insert(0, {folder!r})
from pathlib import Path
from rfp.train import checkpoints
from test_lightning_run import config, rings_and_paths, run
from rfp.train.training_loop import _Loss
torch.set_num_threads(1)
checkpoints.SAVE_EVERY_SECONDS = 0.0
usual, calls = _Loss.forward, []
def step(self, held):
    calls.append(1)
    if len(calls) == 3 * 3 + 2:  # the second step of the fourth epoch
        os.kill(os.getpid(), signal.SIGKILL)
    return usual(self, held)
_Loss.forward = step
settings = config(epochs=6, schedule="plateau", schedule_patience=1, warmup_epochs=1, weight_average=0.9)
run(settings, folder=Path(sys.argv[1]))
"""


def test_a_killed_run_continues_to_the_same_result(tmp_path: Path) -> None:
    settings = config(epochs=6, schedule="plateau", schedule_patience=1, warmup_epochs=1, weight_average=0.9)
    whole = run(settings, folder=tmp_path / "whole")
    code = KILLED.format(folder=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "cut")], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert checkpoints.read_checkpoint(tmp_path / "cut" / "last.ckpt")["rfp"]["history"]["epochs"] == 3
    said: list[str] = []
    continued = run(settings, folder=tmp_path / "cut", say=said.append)
    assert said[0].startswith("continuing from epoch 3")
    assert scores(continued) == scores(whole)
    assert (continued.epoch, continued.epochs) == (whole.epoch, whole.epochs)
    first, second = (checkpoints.read_checkpoint(tmp_path / name / "last.ckpt") for name in ("whole", "cut"))
    for name, value in first["state_dict"].items():
        assert (
            torch.equal(value, second["state_dict"][name])
            if isinstance(value, torch.Tensor)
            else (value == second["state_dict"][name])
        ), name
    for state, other in zip(*(content["optimizer"]["state"].values() for content in (first, second)), strict=True):
        assert torch.equal(state["exp_avg"], other["exp_avg"])
        assert torch.equal(state["exp_avg_sq"], other["exp_avg_sq"])
        assert state["step"] == other["step"]
    lines = [
        [line.rsplit(",", 1)[0] for line in (tmp_path / name / "metrics.csv").read_text().splitlines()]
        for name in ("whole", "cut")
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 1 + 6


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    first = run(config(epochs=2), folder=tmp_path)
    before = (tmp_path / "last.ckpt").stat().st_mtime_ns
    again = run(config(epochs=2), folder=tmp_path)
    assert (tmp_path / "last.ckpt").stat().st_mtime_ns == before
    assert scores(again) == scores(first)
    anew = run(config(epochs=2), folder=tmp_path, resume=False)
    assert (tmp_path / "last.ckpt").stat().st_mtime_ns > before
    assert scores(anew) == scores(first)


def test_it_learns_and_chooses_by_validation(tmp_path: Path) -> None:
    record = run(config(epochs=30, batch_size=8, lr=0.02), rings_and_paths(60, kind="regression"), folder=tmp_path)
    rows = [line.split(",") for line in (tmp_path / "metrics.csv").read_text().splitlines()]
    val = [float(row[rows[0].index("val")]) for row in rows[1:]]
    assert record.epoch == val.index(min(val))
    assert record.metrics["val"] == pytest.approx(min(val))
    assert min(val) < 0.5 * val[0]
    best = torch.load(tmp_path / "best.ckpt", weights_only=True)
    assert (best["rfp"]["epoch"], best["rfp"]["val"]) == (record.epoch, min(val))
    assert any((tmp_path / "tensorboard").iterdir())


def test_nothing_is_written_or_said_without_being_asked(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        state = torch.random.get_rng_state()
        run(config(epochs=1))
        assert torch.equal(torch.random.get_rng_state(), state)
    finally:
        os.chdir(here)
    assert list(tmp_path.iterdir()) == []
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_progress_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    run(config(epochs=2), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "epoch 2/2" in err


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("kind", ["classification", "binary", "regression"])
def test_every_kind_of_task(kind: str, level: str) -> None:
    graphs = rings_and_paths(24).graphs
    rows = graphs.num_nodes if level == "node" else graphs.num_graphs
    number = torch.arange(rows)
    masks = {part: (number % 9 // 3 == place)[:, None] for place, part in enumerate(("train", "val", "test"))}
    if kind == "classification":
        task, y = Task("made", level, kind, "accuracy", 3), number % 3
    else:
        task = Task("made", level, kind, "roc_auc" if kind == "binary" else "mae", 2)
        y = torch.stack([number % 2, number % 3 % 2], dim=1).float()
        if kind == "binary":
            y[::5, 0] = torch.nan
    record = run(config(epochs=2, eval_draws=3), LoadedTask(task, graphs, y, masks, "made by hand"))
    assert all(0 <= record.metrics[part] <= (1 if kind != "regression" else 100) for part in ("val", "test"))


def test_a_large_graph_is_one_batch() -> None:
    n = 60
    ring = torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])
    data = Data(edge_index=torch.cat([ring, ring.flip(0)], dim=1), x=torch.ones(n, 1), num_nodes=n)
    part = torch.arange(n) % 3
    masks = {name: (part == place)[:, None] for place, name in enumerate(("train", "val", "test"))}
    task = Task("ring", "node", "classification", "accuracy", 2)
    loaded = LoadedTask(task, GraphCollection.from_data_list([data]), (torch.arange(n) < n // 2).long(), masks, "here")
    assert run(config({"backbone": "gcn", "norm": "none"}, epochs=3), loaded).epochs == 3


def test_fixed_encodings_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from rfp.transforms import BASELINES

    calls = []
    for kind in (BASELINES["eigenvectors"], BASELINES["random_walk"]):
        usual = kind.encode_nodes
        monkeypatch.setattr(
            kind,
            "encode_nodes",
            lambda self, graph, x, usual=usual: calls.append(graph.num_graphs) or usual(self, graph, x),
        )
    encodings = [{"name": "eigenvectors", "num_eigenvectors": 2}, {"name": "random_walk", "walk_length": 3}]
    run(config({"encodings": encodings}, epochs=2))
    assert calls == [24, 24]


def test_early_stopping_and_the_end_of_a_plateau() -> None:
    stuck = {"lr": 1e-12, "epochs": 50}
    still = {"norm": "none"}  # running statistics would change the scores
    assert run(config(still, **stuck, patience=3)).epochs == 4
    # The first epoch is the best; halved after two and four more.
    ended = run(config(still, **stuck, schedule="plateau", schedule_patience=2, min_lr=0.3e-12))
    assert ended.epochs == 5


@pytest.mark.parametrize("operators", [["normalized_adjacency"], ["normalized_adjacency", "learned"]])
def test_recorded_steps_are_the_same_training(
    operators: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from rfp.train import static_step
    from rfp.train.training_loop import TrainingLoop

    # S of rings with equal features is of rank one: QR of what it leaves would be rounding.
    encoding = {"name": "rfp", "num_channels": 2, "num_steps": 2, "operators": operators, "normalization": "l2"}
    settings = config({"dropout": 0.0, "encodings": [encoding]}, epochs=3, gradient_clip=0.5, weight_average=0.8)
    plain = run(settings)
    padded = []
    usual = static_step.StaticStep.run
    monkeypatch.setattr(TrainingLoop, "record_on", ("cpu",))
    monkeypatch.setattr(static_step, "triton_available", lambda: True)  # as where steps are recorded
    monkeypatch.setattr(
        static_step.StaticStep, "run", lambda self, batch: (padded.append(batch.graph.padded), usual(self, batch))
    )
    static = run(settings, folder=tmp_path)
    assert padded
    # Adam turns rounding into steps where a gradient is nothing else: biases before a normalisation.
    assert static.metrics["train_loss"] == pytest.approx(plain.metrics["train_loss"], rel=1e-2)
    assert static.metrics["val_loss"] == pytest.approx(plain.metrics["val_loss"], rel=1e-2)


def test_recorded_steps_climb_before_they_update(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rfp.train.training_loop import TrainingLoop

    # Without a normalisation, before which biases have gradients of nothing but rounding, which may choose the epoch.
    model = {"dropout": 0.0, "norm": "none", "encodings": [{"name": "rfp", "num_channels": 2, "num_steps": 2}]}
    usual, sharp = (config(model, epochs=3, sharpness=rho) for rho in (0.0, 0.5))
    losses = [run(settings).metrics["train_loss"] for settings in (usual, sharp)]
    monkeypatch.setattr(TrainingLoop, "record_on", ("cpu",))
    assert run(sharp, folder=tmp_path).metrics["train_loss"] == pytest.approx(losses[1], rel=1e-3)
    assert abs(losses[0] - losses[1]) > 1e-2 * losses[1]


def test_learned_operators_have_their_own_learning_rate(tmp_path: Path) -> None:
    """With a factor of 0 they stay as they were drawn; the rest of the model learns."""
    encoding = {"name": "rfp", "num_channels": 2, "num_steps": 2, "operators": ["learned"], "normalization": "l2"}
    settings = config({"encodings": [encoding]}, epochs=2, operator_lr=0.0)
    run(settings, folder=tmp_path)
    after = checkpoints.read_checkpoint(tmp_path / "last.ckpt")["state_dict"]
    torch.manual_seed(3)
    before = RFPModel(settings.model_config(rings_and_paths(), 3)).state_dict()
    still = [name for name in before if name.startswith("drawn.") and isinstance(before[name], torch.Tensor)]
    assert still
    assert all(torch.equal(before[name], after[name]) for name in still)
    assert not torch.equal(before["embed.weight"], after["embed.weight"])


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_mixed_precision(precision: str) -> None:
    if precision == "16-mixed":
        pytest.skip("float16 needs a GPU")
    assert run(config(epochs=1, precision=precision)).epochs == 1


def test_damaged_checkpoint(tmp_path: Path) -> None:
    run(config(epochs=1), folder=tmp_path)
    path = tmp_path / "last.ckpt"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(FileError, match=r"last\.ckpt: damaged checkpoint .* remove the file"):
        run(config(epochs=1), folder=tmp_path)
    assert path.stat().st_size == 200  # nothing is thrown away unasked


def test_checkpoint_of_another_run(tmp_path: Path) -> None:
    run(config(epochs=1), folder=tmp_path)
    with pytest.raises(FileError, match=r"another run: training\.lr is 0\.01 there and 0\.5 here"):
        run(config(epochs=1, lr=0.5), folder=tmp_path)
    with pytest.raises(FileError, match=r"another run: seed is 3 there and 4 here"):
        run(config(epochs=1), folder=tmp_path, seed=4)


def test_not_a_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rfp.train.training_loop import TrainingLoop

    usual = TrainingLoop._end_epoch

    def broken(self: TrainingLoop, *arguments: object) -> None:
        if self.history.epochs == 2:
            self._total += torch.nan
        usual(self, *arguments)

    monkeypatch.setattr(TrainingLoop, "_end_epoch", broken)
    with pytest.raises(NumericalError, match=r"epoch 2: the training loss is nan; .*last good checkpoint is") as error:
        run(config(), folder=tmp_path)
    assert str(tmp_path) in str(error.value)
    assert checkpoints.read_checkpoint(tmp_path / "last.ckpt")["rfp"]["history"]["epochs"] == 1  # later ones wait


def test_other_mistakes() -> None:
    with pytest.raises(ArgumentError, match="num_devices must be at least 1, got 0"):
        run(config(), num_devices=0)
    with pytest.raises(ArgumentError, match="split 7 of 'shapes' does not exist"):
        run(config(), split=7)
    with pytest.raises(ArgumentError, match="no search"):
        fit(
            RunConfig.from_dict({"data": "counting-generated", "search": {"training.lr": [0.1]}}),
            rings_and_paths(),
            seed=0,
            split=0,
            device=CPU,
        )
    empty = rings_and_paths()
    empty = LoadedTask(empty.task, empty.graphs, empty.y, {**empty.masks, "val": empty.masks["val"] & False}, "here")
    with pytest.raises(ArgumentError, match="has nothing in its val part"):
        run(config(), empty)


def test_without_lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightning_run, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"needs lightning: pip install 'torch-rfp\[train\]'"):
        run(config())


def test_seeds_differ_and_repeat() -> None:
    first, again, other = (run(config(epochs=1), seed=seed) for seed in (0, 0, 1))
    assert scores(first) == scores(again)
    assert first.metrics["train_loss"] != other.metrics["train_loss"]
