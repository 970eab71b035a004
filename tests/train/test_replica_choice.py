"""What is chosen of a run, and when it ends, for each replica by itself."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rfp.data import LoadedTask
from rfp.errors import NumericalError
from rfp.train import node_grid
from rfp.train.replica_program import ReplicaProgram
from rfp.train.run_history import RunHistory
from rfp.train.trained_replicas import Replica, TrainedReplica
from tests.train.club_replicas import REPLICAS, config, made, on_test_part, search_nodes


def test_patience_ends_a_replica_without_ending_the_others(club: LoadedTask) -> None:
    # A learning rate of (almost) zero never improves after the first epoch.
    replicas = [Replica(0, 1e-12, 0.0), Replica(0, 0.02, 0.0)]
    program = made(config(dropout=0.0, encodings=[], training={"epochs": 60, "patience": 5}), club, replicas, seed=0)
    program.fit()
    assert program.epochs_each[0] < 60
    assert program.best_epoch[0] < 10
    assert program.epochs_each[1] > program.epochs_each[0]


def scripted(program: ReplicaProgram, scores: torch.Tensor, losses: torch.Tensor) -> ReplicaProgram:
    """Validation gives what is written down, ``[epochs, R]``; a step writes its epoch into all weights."""

    def step(better: torch.Tensor) -> torch.Tensor:
        program.optimizer.keep(better)
        with torch.no_grad():
            for p in program.model.parameters():
                p.fill_(int(program._now))
        return torch.zeros(len(program.replicas))

    def validate() -> tuple[torch.Tensor, torch.Tensor]:
        return scores[program._now], losses[program._now]

    program._step, program._validate = step, validate  # type: ignore[method-assign]
    return program


@pytest.mark.parametrize("choose_by", ["score", "loss"])
@pytest.mark.parametrize("patience", [1, 4, None])
def test_best_epoch_and_end_are_those_of_a_run_alone(club: LoadedTask, choose_by: str, patience: int | None) -> None:
    """Forty random courses at once, with ties and losses that are NaN, against the history of each."""
    generator = torch.Generator().manual_seed(1)
    epochs, count = 25, 40
    scores = torch.randint(0, 6, (epochs, count), generator=generator).double() / 6
    losses = torch.randint(1, 5, (epochs, count), generator=generator).double()
    losses[1:][torch.rand(epochs - 1, count, generator=generator) < 0.1] = torch.nan
    training = {"epochs": epochs, "patience": patience, "choose_by": choose_by}
    settings = config(encodings=[], training=training)
    program = scripted(made(settings, club, REPLICAS[:1] * count, seed=0), scores, losses)
    program.fit()
    for r in range(count):
        history = RunHistory(True)
        for score, loss in zip(scores[:, r].tolist(), losses[:, r].tolist(), strict=True):
            history.observe(settings.training, score, {"val_loss": loss}, 1.0)
            if history.finished:
                break
        assert program.best_epoch[r] == history.best_epoch
        assert program.best_val[r] == history.best_score
        assert program.epochs_each[r] == history.epochs
        for p in program.model.parameters():
            assert bool((p[r] == history.best_epoch).all())


def test_a_loss_that_is_not_a_number_never_wins(club: LoadedTask) -> None:
    """A model of NaN answers class 0 everywhere: where that is always right, it must still not be chosen."""
    first = replace(club, y=torch.where(club.masks["train"].any(1) & ~club.masks["val"].any(1), club.y, 0))
    search = {"training.lr": [1e38, 0.01]}
    found = search_nodes(config(encodings=[], dropout=0.0, search=search, training={"epochs": 3}), first, splits=[0])
    wild, tame = found.trials
    assert wild.val <= tame.val
    assert found.runs[0].values == {"training.lr": 0.01}
    program = made(config(encodings=[], training={"epochs": 4}), club, [Replica(0, 0.01, 0.0)] * 2, seed=0)
    nan = math.nan
    scripted(
        program,
        torch.tensor([[0.2, 0.9], [0.9, 0.1], [0.3, 0.9], [0.1, 0.9]]),
        torch.tensor([[1.0, nan], [nan, 1.0], [1.0, nan], [1.0, nan]]),
    )
    program.fit()
    assert program.best_epoch == [2, 1]
    assert program.best_val == pytest.approx([0.3, 0.1])


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ((0.9, 0.1, 0.2), (0.6, 0.6, 0.5), 1),  # the highest single score is the first's
        ((0.9, 0.5, 0.5), (0.6, 0.6, 0.6), 0),  # the higher median and lowest are the second's
        ((0.1, 0.9, 0.9), (0.7, 0.6, 0.5), 0),  # so is the score of split 0
        ((0.9, 0.9, 0.1), (0.5, 0.6, 0.9), 1),  # and of the last
    ],
)
def test_values_are_chosen_by_the_mean_over_splits(
    club: LoadedTask, monkeypatch: pytest.MonkeyPatch, first: tuple[float, ...], second: tuple[float, ...], chosen: int
) -> None:
    rates = (0.01, 0.02)
    table = {(split, lr): row[split] for lr, row in zip(rates, (first, second), strict=True) for split in range(3)}

    def fit(self: ReplicaProgram, tick: Any) -> None:
        self.best_val = [1 - table[r.split, r.lr] for r in self.replicas]  # by one draw: lucky
        self.best_epoch = self.epochs_each = [1] * len(self.replicas)

    monkeypatch.setattr("rfp.train.replica_memory.available_memory", lambda: None)  # nothing is trained to be counted
    monkeypatch.setattr(ReplicaProgram, "fit", fit)

    # On the test part the other one is better.
    def tested(those: Sequence[TrainedReplica], task: LoadedTask) -> list[float]:
        return [float(one.replica.lr != rates[chosen]) for one in those]

    def validated(those: Sequence[TrainedReplica], task: LoadedTask) -> list[float]:
        return [table[one.replica.split, one.replica.lr] for one in those]

    monkeypatch.setattr(node_grid, "examine", tested)
    monkeypatch.setattr(node_grid, "validation_scores", validated)
    found = search_nodes(config(search={"training.lr": list(rates)}), club, splits=[0, 1, 2])
    assert [run.values for run in found.runs] == [{"training.lr": rates[chosen]}] * 3
    assert [trial.val for trial in found.trials] == pytest.approx([sum(first) / 3, sum(second) / 3])
    assert {trial.num_runs for trial in found.trials} == {3}


def test_test_labels_do_not_enter_training_or_selection(club: LoadedTask) -> None:
    search = {"training.lr": [0.05, 0.001], "model.num_layers": [1, 2]}
    found = search_nodes(config(search=search), club, splits=[0, 1])
    wrong = club.y.clone()
    only_test = club.masks["test"].any(1) & ~club.masks["train"].any(1) & ~club.masks["val"].any(1)
    test_of_0 = club.masks["test"][:, 0] & ~(club.masks["train"] | club.masks["val"])[:, 0]
    wrong[test_of_0] = (wrong[test_of_0] + 1) % 4
    assert bool(test_of_0.any())
    assert only_test.sum() <= test_of_0.sum()
    again = search_nodes(config(search=search), replace(club, y=wrong), splits=[0])
    before = search_nodes(config(search=search), club, splits=[0])
    assert [t.val for t in again.trials] == [t.val for t in before.trials]
    assert again.runs[0].values == before.runs[0].values
    assert again.runs[0].metrics["test"] != before.runs[0].metrics["test"]
    assert len(found.trials) == 4
    assert {run.split for run in found.runs} == {0, 1}
    best = max(found.trials, key=lambda trial: trial.val)
    assert found.runs[0].values == best.values


def test_divergence_of_all_is_an_error_and_of_one_is_not(club: LoadedTask) -> None:
    plain = config(encodings=[], dropout=0.0, training={"epochs": 30})
    wild, tame = Replica(0, 1e38, 0.0), Replica(0, 0.01, 0.0)
    with pytest.raises(NumericalError, match=r"NaN or infinite by epoch \d+; lower training.lr"):
        made(plain, club, [wild], seed=0).fit()
    program = made(plain, club, [wild, tame], seed=0)
    program.fit()
    assert math.isfinite(on_test_part(program, club)[1])
