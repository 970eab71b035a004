"""What stays of trained replicas: scores of a part, and a folder in which a cut search finds them again."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rfp.data import LoadedTask
from rfp.errors import FileError
from rfp.train import RunConfig, Workspace, run
from rfp.train.checkpoints import OWN, identity, write_checkpoint
from rfp.train.node_grid import NodeTrainer
from rfp.train.results import Result
from rfp.train.trained_replicas import KeptReplicas, Replica, TrainedReplica, examine, validation_scores
from rfp.train.workspace import OutOfTime
from tests.train.club_replicas import CLUB, CPU, MODEL, RFP, config

LEARNED = {**RFP, "operators": ["learned"]}
HALVING = {"tries": 2, "designed": 2, "screen_epochs": 2, "screen_splits": 1, "longer": 0, "finalists": 1}
SEARCH = {"training.lr": [0.1, 0.01], "training.weight_decay": [0.0, 0.01], "model.backbone": ["mlp", "gcn"]}
# A learned operator has one seed in a program: here a point of the final stage is three of them.
CONFIG = RunConfig.from_dict(
    {
        "data": CLUB,
        "model": {**MODEL, "dropout": 0.0, "encodings": [LEARNED]},
        "training": {"epochs": 4},
        "search": SEARCH,
        "halving": {**HALVING, "apart": "model.backbone"},
    }
)
SEEDS = [0, 1, 2]


def of(split: int, seed: int, predictions: torch.Tensor) -> TrainedReplica:
    return TrainedReplica(Replica(split, 0.1, 0.0, seed), 0.5, 3, 4, 0.25, 100, predictions)


def test_scores_are_of_each_replicas_own_split(club: LoadedTask) -> None:
    right_on_first = torch.where(club.masks["test"][:, 0], club.y, club.y + 1)
    trained = [of(0, 0, right_on_first), of(1, 0, right_on_first), of(1, 0, club.y)]
    shared = (club.masks["test"][:, 0] & club.masks["test"][:, 1]).sum() / club.masks["test"][:, 1].sum()
    assert 0 < float(shared) < 1
    assert examine(trained, club) == pytest.approx([1.0, float(shared), 1.0])
    seen = (club.masks["test"][:, 0] & club.masks["val"][:, 1]).sum() / club.masks["val"][:, 1].sum()
    assert validation_scores(trained, club) == pytest.approx([0.0, float(seen), 1.0])


def test_a_folder_gives_back_what_was_put_there(tmp_path: Path) -> None:
    kept = KeptReplicas(tmp_path / "deep" / "replicas")
    assert kept.find(config(), [Replica(0, 0.1, 0.0)]) == []
    first = [of(0, 0, torch.tensor([0, 2, 1])), of(1, 0, torch.tensor([1, 1, 1]))]
    second = [of(0, 1, torch.tensor([3, 0, 0]))]
    kept.put(config(), first)
    kept.put(config(), second)
    kept.put(config(dropout=0.1), [replace(second[0], best_val=0.9)])
    wanted = [Replica(0, 0.1, 0.0, 1), Replica(1, 0.1, 0.0, 0), Replica(2, 0.1, 0.0, 0), Replica(1, 0.2, 0.0, 0)]
    found = kept.find(config(), wanted)
    assert [replace(one, predictions=None) for one in found] == [
        replace(one, predictions=None) for one in (second[0], first[1])
    ]
    assert [one.predictions.tolist() for one in found if one.predictions is not None] == [[3, 0, 0], [1, 1, 1]]
    assert [one.best_val for one in kept.find(config(dropout=0.1), wanted)] == [0.9]
    kept.clear()
    assert kept.find(config(), wanted) == []
    assert not (tmp_path / "deep" / "replicas").exists()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    kept = KeptReplicas(tmp_path)
    kept.put(config(), [of(0, 0, torch.tensor([1]))])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(FileError, match=rf"{path.name}: damaged checkpoint .*; remove the file"):
        kept.find(config(), [Replica(0, 0.1, 0.0)])
    write_checkpoint({OWN: identity(config(), 0, 0)}, path)  # of a run
    with pytest.raises(FileError, match=rf"{path.name}: not a checkpoint of trained replicas; remove it"):
        kept.find(config(), [Replica(0, 0.1, 0.0)])


def test_what_is_there_is_not_trained_again_and_the_rest_is(club: LoadedTask, tmp_path: Path) -> None:
    """Of the first seed one split is known, of the second none: the seeds left over are of unequal size."""
    kept = KeptReplicas(tmp_path)
    known = TrainedReplica(Replica(1, 0.1, 0.0, 0), 0.125, 3, 4, 0.25, 100, torch.zeros_like(club.y))
    kept.put(config(), [known])
    wanted = {"pairs": [(0.1, 0.0)], "splits": [0, 1, 2], "seeds": [0, 1]}
    plain = NodeTrainer(config(), club, CPU).train({}, **wanted)
    ticks: list[int] = []
    trainer = NodeTrainer(config(), club, CPU, lambda what, done, total: ticks.append(total), kept=kept)
    found = trainer.train({}, **wanted)
    assert [one.replica for one in found] == [one.replica for one in plain]
    assert [one.best_val for one in found] == [0.125 if n == 1 else one.best_val for n, one in enumerate(plain)]
    assert ticks == [6] * 12  # a program for each seed
    again = trainer.train({}, **wanted)
    assert [one.best_val for one in again] == [one.best_val for one in found]
    assert ticks == [6] * 12
    # Short trials are of the search alone: neither looked for nor kept.
    short = trainer.train({}, **wanted, epochs=6)
    assert all(one.predictions is None for one in short)
    assert ticks == [6] * 18


@contextmanager
def cut_after(epochs: int, stage: str, workspace: Workspace) -> Iterator[tuple[Workspace, list[str]]]:
    """A workspace whose time is used up after so many epochs of a stage, and what was trained in it, epoch by epoch."""
    trained: list[str] = []

    def tick(what: str, done: int, total: int) -> None:
        trained.append(what)
        if sum(stage in one for one in trained) == epochs:
            raise OutOfTime

    with pytest.raises(OutOfTime):
        yield replace(workspace, tick=tick), trained


def equal(result: Result, other: Result) -> bool:
    def metrics(one: Result) -> list[object]:
        return [
            [(r.seed, r.split, r.metrics, r.values) for r in runs] for runs in (one.runs, *one.alternatives.values())
        ]

    return metrics(result) == metrics(other)


def test_a_cut_in_the_final_stage_loses_the_program_at_hand_alone(tmp_path: Path) -> None:
    whole = run(CONFIG, seeds=SEEDS)
    workspace = Workspace(results=tmp_path / "results", checkpoints=tmp_path / "runs", device="cpu")
    # Four epochs a program: the first point's third seed is cut in its second epoch, the second point's in its first.
    for epochs in (10, 4 + 9):
        with cut_after(epochs, "final", workspace) as (limited, trained):
            run(CONFIG, seeds=SEEDS, workspace=limited)
        assert len([what for what in trained if "final" in what]) == epochs
    again: list[str] = []
    done = run(CONFIG, seeds=SEEDS, workspace=replace(workspace, tick=lambda what, *_: again.append(what)))
    assert [what.split()[-2:] for what in again] == [["final", "2"]] * 4
    assert equal(done, whole)
    assert not list((tmp_path / "runs").rglob("*.ckpt"))


def test_what_was_chosen_before_a_cut_is_not_trained_again(tmp_path: Path) -> None:
    """The search is complete, but the process that made it had no time to read the test part."""
    workspace = Workspace(results=tmp_path / "results", checkpoints=tmp_path / "runs", device="cpu")
    whole = run(CONFIG, seeds=SEEDS)
    with cut_after(24, "final", workspace) as (limited, _):
        run(CONFIG, seeds=SEEDS, workspace=limited)
    with cut_after(4, "final", workspace) as (limited, _):
        run(CONFIG, seeds=SEEDS, workspace=limited)
    again: list[str] = []
    done = run(CONFIG, seeds=SEEDS, workspace=replace(workspace, tick=lambda what, *_: again.append(what)))
    assert len(again) == 4  # of the last program, whose last epoch the cut came after
    assert equal(done, whole)


def test_a_fresh_start_finds_nothing(tmp_path: Path) -> None:
    workspace = Workspace(results=tmp_path / "results", checkpoints=tmp_path / "runs", device="cpu")
    with cut_after(10, "final", workspace) as (limited, _):
        run(CONFIG, seeds=SEEDS, workspace=limited)
    again: list[str] = []
    run(CONFIG, seeds=SEEDS, resume=False, workspace=replace(workspace, tick=lambda what, *_: again.append(what)))
    assert len([what for what in again if "final" in what]) == 2 * 3 * 4
