"""Learning rate, best epoch and end of a run, by hand and against PyTorch's schedulers."""

import math

import pytest
import torch

from rfp.train.run_config import TrainingConfig
from rfp.train.run_history import RunHistory, scheduled_factor


def follow(training: TrainingConfig, scores: list[float], higher: bool = False) -> tuple[RunHistory, list[float]]:
    history, rates = RunHistory(higher), []
    for value in scores:
        rates.append(history.lr(training))
        history.observe(training, value, {}, 1.0)
        if history.finished:
            break
    return history, rates


def test_plateau_by_hand() -> None:
    training = TrainingConfig(lr=0.8, schedule="plateau", schedule_patience=2, schedule_factor=0.5, min_lr=0.15)
    # best, two without improvement, better, four without (halved twice), two more: below 0.15
    history, rates = follow(training, [5, 6, 5, 4, 4, 4, 9, 9, 9, 9, 9])
    assert rates == [0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2]
    assert (history.best_epoch, history.best_score, history.epochs) == (3, 4, 8)
    assert history.reason == "the learning rate fell below 0.15"


def test_plateau_is_torchs_with_one_epoch_less_of_patience() -> None:
    training = TrainingConfig(
        epochs=60, lr=1.0, schedule="plateau", schedule_patience=3, schedule_factor=0.7, min_lr=0.0
    )
    scores = torch.rand(60, generator=torch.Generator().manual_seed(0)).tolist()
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.7, patience=2, threshold=0.0, eps=0.0)
    expected = []
    for value in scores:
        expected.append(optimizer.param_groups[0]["lr"])
        theirs.step(value)
    assert follow(training, scores)[1] == pytest.approx(expected)


def test_cosine_is_torchs() -> None:
    training = TrainingConfig(epochs=20, lr=0.5, schedule="cosine", min_lr=0.05)
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.05)
    expected = []
    for _ in range(20):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert follow(training, [1.0] * 20)[1] == pytest.approx(expected)


def test_the_cosine_begins_where_the_warm_up_ends() -> None:
    """Over the other epochs alone: full at their first, halfway down in their middle."""
    training = TrainingConfig(epochs=12, warmup_epochs=4, schedule="cosine", lr=1.0, min_lr=0.0)
    factors = [scheduled_factor(training, epoch) for epoch in range(12)]
    assert factors[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert factors[8] == pytest.approx(0.5)
    assert factors[11] == pytest.approx((1 + math.cos(7 * math.pi / 8)) / 2)


def test_warm_up() -> None:
    training = TrainingConfig(epochs=9, lr=1.0, warmup_epochs=4)
    assert [scheduled_factor(training, epoch) for epoch in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    waiting = TrainingConfig(lr=1.0, warmup_epochs=4, schedule="plateau", schedule_patience=1)
    assert follow(waiting, [1, 2, 3, 4, 5, 6])[1] == [0.25, 0.5, 0.75, 1.0, 1.0, 0.5]  # patience counts from there


def test_early_stopping() -> None:
    history, _ = follow(TrainingConfig(patience=3), [0.1, 0.3, 0.3, 0.2, 0.1, 0.9], higher=True)
    assert (history.epochs, history.best_epoch) == (5, 1)
    assert history.reason == "no better validation score for 3 epochs"
    # An improvement in the last epoch that is waited for is in time.
    history, _ = follow(TrainingConfig(patience=3), [0.3, 0.1, 0.1, 0.4, 0.1, 0.1, 0.1, 0.9], higher=True)
    assert (history.epochs, history.best_epoch) == (7, 3)


def test_of_equal_scores_the_smaller_loss_is_better() -> None:
    history, training = RunHistory(True), TrainingConfig()
    seen = [
        history.observe(training, score, {"val_loss": loss}, 1.0)
        for score, loss in [(0.5, 2), (0.5, 3), (0.5, 1), (0.4, 0)]
    ]
    assert seen == [True, False, True, False]
    assert (history.best_epoch, history.best_score, history.best_loss) == (2, 0.5, 1)


def test_nan_beats_nothing_and_is_beaten_by_any_number() -> None:
    nan = math.nan
    for chosen_by, seen, expected in (
        ("score", [(0.5, 1.0), (0.9, nan), (nan, 0.1), (0.6, 1.0)], [True, False, False, True]),
        ("score", [(nan, nan), (0.1, 5.0), (0.9, nan)], [True, True, False]),
        ("loss", [(0.5, 1.0), (0.9, nan), (0.1, 0.5)], [True, False, True]),
        ("loss", [(0.9, nan), (0.1, 5.0), (0.1, nan)], [True, True, False]),
    ):
        history, training = RunHistory(True), TrainingConfig(choose_by=chosen_by)
        assert [history.observe(training, score, {"val_loss": loss}, 1.0) for score, loss in seen] == expected
        assert math.isfinite(history.best_score + history.best_loss)


def test_all_epochs() -> None:
    history, _ = follow(TrainingConfig(epochs=3), [3, 2, 1, 0])
    assert (history.finished, history.epochs, history.reason) == (True, 3, "all 3 epochs are done")


def test_state_is_plain_and_complete() -> None:
    training = TrainingConfig(epochs=30, lr=1.0, schedule="plateau", schedule_patience=2, min_lr=0.0)
    scores = torch.rand(30, generator=torch.Generator().manual_seed(1)).tolist()
    whole, rates = follow(training, scores)
    first, early = follow(training, scores[:11])
    restored = RunHistory.from_state(first.state_dict())
    late = []
    for value in scores[11:]:
        late.append(restored.lr(training))
        restored.observe(training, value, {}, 1.0)
    assert early + late == rates
    assert restored == whole
    assert restored.seconds == 30
    assert math.isnan(RunHistory(True).best_score)
