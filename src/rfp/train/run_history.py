"""The history of a run, epoch by epoch: learning rate, best score, when to stop. Plain numbers, easily stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from rfp.train.run_config import TrainingConfig


def scheduled_factor(training: TrainingConfig, epoch: int) -> float:
    """What the learning rate is multiplied by in an epoch, as far as it is known beforehand: warm-up and cosine decay.

    Example:
        >>> config = TrainingConfig(epochs=10, warmup_epochs=2, schedule="cosine", min_lr=0.0)
        >>> [round(scheduled_factor(config, epoch), 3) for epoch in (0, 1, 2, 6, 9)]
        [0.5, 1.0, 1.0, 0.5, 0.038]
    """
    if epoch < training.warmup_epochs:
        return (epoch + 1) / training.warmup_epochs
    if training.schedule != "cosine":
        return 1.0
    passed = (epoch - training.warmup_epochs) / max(training.epochs - training.warmup_epochs, 1)
    least = min(training.min_lr / training.lr, 1.0)
    return least + (1 - least) * 0.5 * (1 + math.cos(math.pi * passed))


@dataclass
class RunHistory:
    """What has happened so far. All that later epochs depend on, beside weights and optimiser.

    Args:
        higher_is_better: Direction of the validation score.
        epochs: Number of epochs done.
        best_score: The best validation score.
        best_loss: The validation loss there: of equal scores the one with the smaller loss is better.
        best_epoch: Its epoch, from 0.
        reduced: What the plateau schedule has multiplied the learning rate by.
        stagnant: Epochs without improvement since the last one or the last reduction, after the warm-up.
        seconds: Wall time of the epochs done.
        finished: Whether the run is over, and :attr:`reason` why.
        rows: A row of numbers for each epoch.
    """

    higher_is_better: bool
    epochs: int = 0
    best_score: float = math.nan
    best_loss: float = math.inf
    best_epoch: int = -1
    reduced: float = 1.0
    stagnant: int = 0
    seconds: float = 0.0
    finished: bool = False
    reason: str = ""
    rows: list[dict[str, float]] = field(default_factory=list)

    def lr(self, training: TrainingConfig) -> float:
        """The learning rate of the epoch that comes next."""
        return training.lr * scheduled_factor(training, self.epochs) * self.reduced

    def observe(self, training: TrainingConfig, score: float, row: Mapping[str, float], seconds: float) -> bool:
        """Take note of an epoch that is done; returns whether it is the best so far.

        Args:
            training: How it is trained.
            score: On the validation part.
            row: Further numbers for the log; ``val_loss`` decides between equal scores.
            seconds: The epoch took.
        """
        epoch = self.epochs
        loss = row.get("val_loss", math.inf)
        better = self.best_epoch < 0 or self._is_better(training, score, loss)
        self.rows.append({"epoch": epoch, **row, "val": score, "lr": self.lr(training), "seconds": seconds})
        self.seconds += seconds
        if better:
            self.best_score, self.best_loss, self.best_epoch = score, loss, epoch
        self.epochs = epoch + 1
        self.stagnant = 0 if better or epoch < training.warmup_epochs else self.stagnant + 1
        if training.schedule == "plateau" and self.stagnant >= training.schedule_patience:
            self.reduced *= training.schedule_factor
            self.stagnant = 0
        self._see_whether_over(training, epoch)
        return better

    def _is_better(self, training: TrainingConfig, score: float, loss: float) -> bool:
        """Whether an epoch beats the best so far: NaN beats nothing and is beaten by every number."""
        if math.isnan(score) or math.isnan(loss):
            return False
        if math.isnan(self.best_score) or math.isnan(self.best_loss):
            return True
        if training.choose_by == "loss":
            return loss < self.best_loss
        ahead = score > self.best_score if self.higher_is_better else score < self.best_score
        return ahead or (score == self.best_score and loss < self.best_loss)

    def _see_whether_over(self, training: TrainingConfig, epoch: int) -> None:
        if training.patience is not None and epoch - self.best_epoch >= training.patience:
            self.finished, self.reason = True, f"no better validation score for {training.patience} epochs"
        elif training.schedule == "plateau" and training.lr * self.reduced < training.min_lr:
            self.finished, self.reason = True, f"the learning rate fell below {training.min_lr:g}"
        elif self.epochs >= training.epochs:
            self.finished, self.reason = True, f"all {training.epochs} epochs are done"

    def state_dict(self) -> dict[str, Any]:
        """Plain values that :meth:`from_state` reads back."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RunHistory:
        """Read back what :meth:`state_dict` gave."""
        return cls(**{f.name: state[f.name] for f in fields(cls)})
