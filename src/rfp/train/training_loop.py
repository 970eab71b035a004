"""The training of one model: a plain loop over epochs and steps, on one device or several, by Lightning Fabric."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from lightning.fabric import Fabric
from torch import Tensor, nn

from rfp.data.loaded import LoadedTask
from rfp.data.metrics import METRICS
from rfp.errors import NumericalError
from rfp.graph import Graph
from rfp.nn import RFPModel
from rfp.nn.counted_draws import training_seed
from rfp.train import checkpoints
from rfp.train.batches import Batch, Batches, PartBatches
from rfp.train.checkpoints import BEST, LAST, OWN, identity, write_checkpoint
from rfp.train.epoch_log import EpochLog
from rfp.train.evaluation import predict_batches, score
from rfp.train.fixed_encodings import fixed_encodings
from rfp.train.link_batches import HeldOutPairs, TrainingPairs
from rfp.train.losses import MeanLoss
from rfp.train.model_batches import training_batches, validation_batches
from rfp.train.quiet import silence
from rfp.train.run_config import RunConfig
from rfp.train.run_history import RunHistory
from rfp.train.sharpness import Ascent
from rfp.train.static_step import StaticStep, recordable
from rfp.train.weight_average import WeightAverage


class TrainingLoop:
    """A model with its data and its config.

    All randomness is a function of the seed and the epoch (order, dropout) or of counters in the state (draws of the
    encodings), so a run that is continued from the end of an epoch does what it would have done anyway. Nothing waits
    for the device between the first and the last step of an epoch but the draws of many steps at once.

    Args:
        model: On any device.
        config: Config of the run.
        loaded: The data, with unchanging encodings stored as node attributes.
        seed: Seed of order, dropout and draws.
        split: Number of the split.
        folder: Folder of checkpoints and logs; ``None`` for neither.
        progress: Whether to draw a progress bar.
        report: Told the epoch and its validation score, after all else of the epoch is done; what it raises ends the
            run.

    Attributes:
        seconds_of_steps: Wall time of the steps alone, for each epoch that was run here: the rest is validation,
            logs and checkpoints.
    """

    # Where steps are recorded and replayed, if the model allows it.
    record_on: tuple[str, ...] = ("cuda",)

    def __init__(
        self,
        model: RFPModel,
        config: RunConfig,
        loaded: LoadedTask,
        *,
        seed: int,
        split: int,
        folder: Path | None = None,
        progress: bool = False,
        report: Callable[[int, float], None] | None = None,
    ) -> None:
        self.model, self.config, self.loaded = model, config, loaded
        self.seed, self.split, self.folder, self.progress, self.report = seed, split, folder, progress, report
        self.history = RunHistory(loaded.task.higher_is_better)
        self.best: dict[str, Any] | None = None
        self.loss = MeanLoss.of(loaded)
        self.batches: dict[str, PartBatches] = {}
        self._restored: dict[str, Any] = {}
        self._average: WeightAverage | None = None
        self.seconds_of_steps: list[float] = []

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in another process, which is to be as quiet as this one."""
        self.__dict__.update(state)
        silence()

    def run(self, fabric: Fabric) -> None:
        """Train until the run is finished; every process of several calls this."""
        device, training = fabric.device, self.config.training
        self._load(fabric)
        self._total = torch.zeros((), device=device)
        update = self._recorded_update(fabric) or self._plain_update(fabric)
        self._average_weights()
        self._restored = {}
        with EpochLog(self.folder, self.history, training.epochs, self.progress, fabric.is_global_zero) as log:
            last_saved = -math.inf  # the first epoch is saved at once
            best_written = -1
            while not self.history.finished:
                started = time.perf_counter()
                self._begin_epoch(fabric)
                for batch in self.batches["train"]:
                    update(batch)
                    if self._average is not None:
                        self._average.update()
                    log.step(len(self.batches["train"]))
                self._end_epoch(fabric, started)
                log.epoch()
                due = self.history.finished or time.monotonic() - last_saved >= checkpoints.SAVE_EVERY_SECONDS
                if self.folder is not None and fabric.broadcast(due):
                    if fabric.is_global_zero:
                        if self.history.best_epoch != best_written:
                            write_checkpoint(self._best_checkpoint(), self.folder / BEST)
                            best_written = self.history.best_epoch
                        write_checkpoint(self._last_checkpoint(fabric), self.folder / LAST)
                    last_saved = time.monotonic()
                if self.report is not None:
                    self.report(self.history.epochs - 1, self.history.rows[-1]["val"])

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Go on from what ``last.ckpt`` holds."""
        self.history = RunHistory.from_state(checkpoint[OWN]["history"])
        self.best = checkpoint[OWN]["best"]
        self.model.load_state_dict(checkpoint["state_dict"])
        self._restored = {key: checkpoint[key] for key in ("optimizer", "precision", "average") if key in checkpoint}

    def _load(self, fabric: Fabric) -> None:
        """Bring model and data to the device of this process; its encodings are drawn there."""
        self.loaded = self.loaded.to(fabric.device)
        size = self.config.training.batch_size
        if self.loaded.held_out is not None:
            self.batches = self._pairs(fabric, size)
            return
        share = (fabric.global_rank, fabric.world_size)
        self.batches = {
            "train": training_batches(
                self.model, self.loaded, self.split, batch_size=size, seed=self.seed, share=share
            ),
            "val": validation_batches(self.model, self.loaded, self.split, batch_size=size),
        }

    def _pairs(self, fabric: Fabric, batch_size: int) -> dict[str, PartBatches]:
        encode = partial(self._fixed, x=self.loaded.graphs.x)
        share = (fabric.global_rank, fabric.world_size)
        negatives = METRICS[self.loaded.task.metric].negatives
        return {
            "train": TrainingPairs(self.loaded, batch_size=batch_size, seed=self.seed, share=share, encode=encode),
            "val": HeldOutPairs(self.loaded, "val", negatives=negatives, encode=encode),
        }

    def _fixed(self, graph: Graph, x: Tensor | None) -> dict[str, Tensor]:
        return fixed_encodings(self.model, graph, x)

    def _make_optimizer(self, device: torch.device, capturable: bool) -> torch.optim.Optimizer:
        training = self.config.training
        self.model.to(device)  # first: what a checkpoint holds of the optimizer goes to where the parameters are
        kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
        groups = [{"params": list(self.model.parameters()), "factor": 1.0}]
        if training.operator_lr != 1.0:
            own = set(self.model.drawn.parameters())
            groups[0]["params"] = [p for p in self.model.parameters() if p not in own]
            groups.append({"params": list(self.model.drawn.parameters()), "factor": training.operator_lr})
        # The scaler of float16 wants to see the gradients before they are used.
        fused = True if device.type == "cuda" and training.precision != "16-mixed" else None
        how: dict[str, Any] = {"lr": training.lr, "fused": fused, "capturable": capturable}
        optimizer = kind([g for g in groups if g["params"]], weight_decay=training.weight_decay, **how)
        if self._restored:
            optimizer.load_state_dict(self._restored["optimizer"])
            for group in optimizer.param_groups:  # a run may go on on another device
                group.update(how)
        self.optimizer = optimizer
        return optimizer

    def _recorded_update(self, fabric: Fabric) -> Callable[[Batch], None] | None:
        """Updates on padded batches that are recorded as a CUDA graph; ``None`` where a step cannot be recorded."""
        training, device = self.config.training, fabric.device
        allowed = device.type in self.record_on and recordable(
            self.model, self.loaded, training.precision, fabric.world_size, training.batch_size
        )
        if not allowed:
            return None
        optimizer = self._make_optimizer(device, device.type == "cuda")
        for group in optimizer.param_groups:  # where a recorded step can read it
            group["lr"] = torch.tensor(training.lr, device=device)
        static = StaticStep(
            self.model,
            self.loss,
            optimizer,
            self._total,
            cast("Batches", self.batches["train"]),
            gradient_clip=training.gradient_clip,
            ascent=self._ascent(),
            half=training.precision == "bf16-mixed",
        )
        return lambda batch: static.run(batch) if static.fits(batch) else static.run_as_it_is(batch)

    def _plain_update(self, fabric: Fabric) -> Callable[[Batch], None]:
        """Updates one call at a time, in any precision and on any number of devices."""
        clip, total, ascent = self.config.training.gradient_clip, self._total, self._ascent()
        if self._restored:
            fabric.strategy.precision.load_state_dict(self._restored["precision"])
        step, optimizer = fabric.setup(_Loss(self.model, self.loss), self._make_optimizer(fabric.device, False))

        def gradients(batch: Batch) -> Tensor:
            loss: Tensor = step(SimpleNamespace(batch=batch))
            optimizer.zero_grad()
            fabric.backward(loss)
            return loss.detach()

        def update(batch: Batch) -> None:
            loss = gradients(batch)
            if ascent is not None:
                with ascent.climb():
                    gradients(batch)
            if clip:
                fabric.clip_gradients(step, optimizer, max_norm=clip, error_if_nonfinite=False)
            optimizer.step()
            total.add_(loss)

        return update

    def _ascent(self) -> Ascent | None:
        radius = self.config.training.sharpness
        return Ascent(self.model, radius) if radius else None

    def _average_weights(self) -> None:
        """Begin a moving average of the weights, or go on with it, where the config asks for one."""
        decay = self.config.training.weight_average
        self._average = WeightAverage(self.model, decay) if decay else None
        if self._average is not None and self._restored:
            self._average.load_state_dict(self._restored["average"])

    def _begin_epoch(self, fabric: Fabric) -> None:
        epoch = self.history.epochs
        self.model.train()
        self.batches["train"].epoch = epoch
        torch.manual_seed(training_seed(self.seed, epoch * fabric.world_size + fabric.global_rank))
        for group in self.optimizer.param_groups:
            lr = self.history.lr(self.config.training) * group["factor"]
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        self._total.zero_()

    def _end_epoch(self, fabric: Fabric, started: float) -> None:
        """Look at the validation part and take note."""
        train_loss = float(self._total) / len(self.batches["train"])  # waits for the steps
        self.seconds_of_steps.append(time.perf_counter() - started)
        if not math.isfinite(train_loss):
            raise self._not_a_number(f"the training loss is {train_loss}")
        with nullcontext() if self._average is None else self._average.in_place():
            prediction, label = predict_batches(self.model, self.batches["val"], self.loaded.task.kind)
            try:
                val = score(self.loaded.task, prediction, label, f"epoch {self.history.epochs}")
            except NumericalError as error:
                raise self._not_a_number("a prediction for the validation part is NaN or infinite") from error
            row = {"train_loss": train_loss, "val_loss": float(self.loss(prediction, label))}
            # One process decides for all: their running statistics may differ in the last digit.
            val, row, seconds = fabric.broadcast((val, row, time.perf_counter() - started))
            if self.history.observe(self.config.training, val, row, seconds):
                self.best = {name: _copy(value) for name, value in self.model.state_dict().items()}

    def _not_a_number(self, what: str) -> NumericalError:
        path = None if self.folder is None else self.folder / LAST
        kept = f"; the last good checkpoint is {path}" if path is not None and path.exists() else ""
        return NumericalError(
            f"epoch {self.history.epochs}: {what}; lower training.lr (now {self.config.training.lr:g}) or set "
            f"training.gradient_clip{kept}"
        )

    def _best_checkpoint(self) -> dict[str, Any]:
        """The weights of the best epoch and what they are of."""
        own = identity(self.config, self.seed, self.split, self.loaded.digest)
        own |= {"epoch": self.history.best_epoch, "val": self.history.best_score}
        return {OWN: own, "state_dict": self.best}

    def _last_checkpoint(self, fabric: Fabric) -> dict[str, Any]:
        """All that the epochs to come depend on."""
        own = identity(self.config, self.seed, self.split, self.loaded.digest)
        average = {} if self._average is None else {"average": self._average.state_dict()}
        return {
            OWN: {**own, "history": self.history.state_dict(), "best": self.best},
            "state_dict": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "precision": fabric.strategy.precision.state_dict(),
            **average,
        }


class _Loss(nn.Module):
    """A model with its loss, as one module: what Fabric wraps sees a step as a whole.

    The batch comes held by a plain object, into which Fabric does not look to convert numbers.
    """

    def __init__(self, model: RFPModel, loss: MeanLoss) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, held: SimpleNamespace) -> Tensor:
        batch: Batch = held.batch
        prediction = self.model(batch.data, graph=batch.graph, **{batch.drawn_as: batch.drawn})
        return self.loss(prediction.float(), batch.label, batch.counted)


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
