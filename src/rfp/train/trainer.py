"""The Lightning trainer as this library uses it: quiet, one log line an epoch, our own checkpoints and progress bar."""

from __future__ import annotations

import csv
import io
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, ProgressBar
from tqdm import tqdm

from rfp.io.atomic import atomic_files
from rfp.train.checkpoints import AtomicCheckpointIO, SaveCheckpoints
from rfp.train.module import TrainingModule

METRICS_FILE = "metrics.csv"


def make_trainer(
    module: TrainingModule, *, device: torch.device, num_devices: int, folder: Path | None, progress: bool
) -> Trainer:
    """A trainer for a module.

    Args:
        module: What it will train.
        device: Where; with several devices only its type is read.
        num_devices: Processes, one a device.
        folder: Of checkpoints and logs; ``None`` for neither.
        progress: Whether to draw a progress bar.
    """
    training = module.config.training
    module.prepare(device, num_devices)
    callbacks: list[Callback] = [StepProgressBar()] if progress else []
    loggers: list[Any] = []
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        callbacks += [MetricsFile(folder / METRICS_FILE), SaveCheckpoints(folder)]
        if find_spec("tensorboard") is not None:
            from lightning.pytorch.loggers import TensorBoardLogger

            loggers.append(TensorBoardLogger(folder, name="", version="tensorboard"))
    one = [device.index or 0] if device.type == "cuda" else 1
    return Trainer(
        accelerator="gpu" if device.type == "cuda" else device.type,
        devices=one if num_devices == 1 else num_devices,
        # Started from this process: a script is not run again, and it works from a notebook.
        strategy="auto" if num_devices == 1 else "ddp_spawn",
        precision=training.precision,  # checked by the config
        max_epochs=training.epochs,
        gradient_clip_val=training.gradient_clip or None if module.automatic_optimization else None,
        default_root_dir=folder,
        plugins=[AtomicCheckpointIO()],
        logger=loggers or False,
        log_every_n_steps=0,  # epochs are logged, by the module
        callbacks=callbacks,
        enable_checkpointing=folder is not None,
        enable_progress_bar=progress,
        enable_model_summary=False,
        limit_val_batches=0,  # the module validates by itself when an epoch is over
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )


class MetricsFile(Callback):  # type: ignore[misc]  # read without its types
    """A CSV file with a line for each epoch: what the course of the run remembers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # Epochs after the checkpoint that is continued from will be done again.
        if trainer.is_global_zero:
            self._write(pl_module)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self._append(pl_module)  # the line of the epoch before

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self._append(pl_module)

    def _write(self, module: Any) -> None:
        self.written = len(module.course.history)
        with atomic_files([self.path]) as (file,):
            file.write(_lines(module.course.history, header=True).encode())

    def _append(self, module: Any) -> None:
        new = module.course.history[self.written :]
        if new:
            with open(self.path, "a", newline="") as file:
                file.write(_lines(new, header=self.written == 0))
            self.written += len(new)


class StepProgressBar(ProgressBar):  # type: ignore[misc]
    """One bar on stderr for the whole run, in steps; costs a step next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bar: Any = None

    def disable(self) -> None:
        self._off = True

    def enable(self) -> None:
        self._off = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module: Any = pl_module
        steps, epochs = int(trainer.num_training_batches), int(trainer.max_epochs or 0)
        off = getattr(self, "_off", False) or not trainer.is_global_zero
        done = module.course.epochs * steps
        self.bar = tqdm(total=epochs * steps, initial=done, unit="step", file=sys.stderr, disable=off, leave=False)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        module: Any = pl_module
        course = module.course
        self.bar.set_description(f"epoch {course.epochs + 1}/{trainer.max_epochs}", refresh=False)
        if course.history:
            row = course.history[-1]
            text = f"loss {row['train_loss']:.4g}, val {row['val']:.4g}, best {course.best_score:.4g}"
            self.bar.set_postfix_str(text, refresh=False)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.bar.update(1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.bar.refresh()
        self.bar.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if self.bar is not None:
            self.bar.close()


def _lines(rows: list[dict[str, float]], *, header: bool) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
