"""The Lightning module: one optimiser step, and what happens when an epoch is over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from rfp.data.loaded import LoadedTask
from rfp.errors import NumericalError
from rfp.graph import Graph
from rfp.nn import RFPModel
from rfp.nn.encoder import RandomFeaturePropagation, training_seed
from rfp.train.batches import Batch, Batches
from rfp.train.checkpoints import LAST, OWN, identity
from rfp.train.config import RunConfig
from rfp.train.course import Course
from rfp.train.evaluation import predict, score
from rfp.train.losses import MeanLoss
from rfp.train.quiet import silence
from rfp.train.static_step import StaticStep, recordable

# Without gradients to keep, a batch may be larger: fewer calls for the same work.
EVALUATION_BATCH = 8


class TrainingModule(LightningModule):  # type: ignore[misc]  # read without its types
    """A model with its data and its config.

    All randomness is a function of the seed and the epoch (order, dropout) or of counters in the state (draws of the
    encodings), so a run that is continued from the end of an epoch does what it would have done anyway. Nothing waits
    for the device between the first and the last step of an epoch but the draws of many steps at once.

    Args:
        model: On any device.
        config: Of the run.
        loaded: The data, with unchanging encodings stored as node attributes.
        seed: Of order, dropout and draws.
        split: Number of the split.
        report: Told the epoch and its validation score; what it raises ends the run.
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
        report: Callable[[int, float], None] | None = None,
    ) -> None:
        super().__init__()
        self.report = report
        self.model = model
        self.config, self.loaded, self.seed, self.split = config, loaded, seed, split
        self.course = Course(loaded.task.higher_is_better)
        self.best: dict[str, Any] | None = None
        self.loss = MeanLoss.of(loaded)
        self.batches: dict[str, Batches] = {}
        self.static: StaticStep | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in another process, which is to be as quiet as this one."""
        super().__setstate__(state)
        silence()

    def prepare(self, device: torch.device, num_devices: int) -> None:
        """Decide, before there is a trainer, whether steps are recorded; then this module updates by itself."""
        precision = self.config.training.precision
        size = self.config.training.batch_size
        allowed = device.type in self.record_on and recordable(self.model, self.loaded, precision, num_devices, size)
        self.automatic_optimization = not allowed

    def setup(self, stage: str) -> None:
        """Bring the data to the device of this process; its encodings are drawn there."""
        self.loaded = self.loaded.to(self.trainer.strategy.root_device)
        share = (self.trainer.global_rank, self.trainer.world_size)
        size = self.config.training.batch_size
        # What learned operators add to a draw needs gradients: the model does that at each step itself.
        beforehand = len(self.model.drawn) > 0
        encoders = cast("Iterable[RandomFeaturePropagation]", self.model.drawn)
        width = sum(encoder.drawn_channels * encoder.settings.num_trajectories for encoder in encoders)
        self.batches = {
            "train": Batches(
                self.loaded,
                "train",
                self.split,
                batch_size=size,
                seed=self.seed,
                share=share,
                draw=self._draw if beforehand else None,
                bytes_per_node=4 * width if beforehand else 0,
                draw_signs=self._draw_signs if self.model.flips_signs else None,
                sort=self._reads_sorted_edges and self.loaded.y.is_cuda,
            ),
            "val": Batches(self.loaded, "val", self.split, batch_size=size * EVALUATION_BATCH),
        }

    @property
    def _reads_sorted_edges(self) -> bool:
        learned = any(encoder.learned for encoder in self.model.drawn)  # which sum over neighbours too
        return learned or self.model.config.backbone in ("gin", "gine")

    @torch.no_grad()
    def _draw(self, data: Any, graph: Graph) -> list[Tensor]:
        return self.model.draw(data, graph=graph)

    @torch.no_grad()
    def _draw_signs(self, data: Any, graph: Graph) -> None:
        self.model.draw_signs(data, graph)

    def train_dataloader(self) -> Batches:
        return self.batches["train"]

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch  # it is there

    def configure_optimizers(self) -> torch.optim.Optimizer:
        training = self.config.training
        kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
        device = self.trainer.strategy.root_device
        on_gpu = device.type == "cuda"
        return kind(
            self.model.parameters(),
            lr=training.lr,
            weight_decay=training.weight_decay,
            # The scaler of float16 wants to see the gradients before they are used.
            fused=True if on_gpu and training.precision != "16-mixed" else None,
            capturable=on_gpu and not self.automatic_optimization,
        )

    def on_train_start(self) -> None:
        self._total = torch.zeros((), device=self.trainer.strategy.root_device)
        if self.automatic_optimization:
            return
        training, optimizer = self.config.training, self.trainer.optimizers[0]
        for group in optimizer.param_groups:  # where a recorded step can read it
            group["lr"] = torch.tensor(training.lr, device=self._total.device)
        self.static = StaticStep(
            self.model,
            self.loss,
            optimizer,
            self._total,
            self.batches["train"],
            gradient_clip=training.gradient_clip,
            half=training.precision == "bf16-mixed",
        )

    def on_train_epoch_start(self) -> None:
        epoch = self.course.epochs
        self.batches["train"].epoch = epoch
        torch.manual_seed(training_seed(self.seed, epoch * self.trainer.world_size + self.trainer.global_rank))
        lr = self.course.lr(self.config.training)
        for group in self.trainer.optimizers[0].param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr
        self._total.zero_()
        self._started = time.perf_counter()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor | None:
        if self.static is not None:
            if self.static.fits(batch):
                self.static.run(batch)
            else:
                self.static.run_as_it_is(batch)
            return None
        prediction = self.model(batch.data, graph=batch.graph, drawn=batch.drawn)
        loss = self.loss(prediction.float(), batch.label, batch.counted)
        self._total += loss.detach()
        return loss

    def on_train_epoch_end(self) -> None:
        epoch = self.course.epochs
        train_loss = float(self._total) / len(self.batches["train"])
        if not math.isfinite(train_loss):
            raise self._not_a_number(f"the training loss is {train_loss}")
        prediction, label = predict(self.model, self.batches["val"], self.loaded.task.kind)
        try:
            val = score(self.loaded.task, prediction, label, f"epoch {epoch}")
        except NumericalError as error:
            raise self._not_a_number("a prediction for the validation part is NaN or infinite") from error
        row = {"train_loss": train_loss, "val_loss": float(self.loss(prediction, label))}
        # One process decides for all: their running statistics may differ in the last digit.
        val, row, seconds = self.trainer.strategy.broadcast((val, row, time.perf_counter() - self._started))
        if self.course.observe(self.config.training, val, row, seconds):
            self.best = {name: _copy(value) for name, value in self.model.state_dict().items()}
        if self.trainer.loggers:
            for logger in self.trainer.loggers:
                logger.log_metrics({k: v for k, v in self.course.history[-1].items() if k != "epoch"}, step=epoch)
        self.trainer.should_stop = self.course.finished
        if self.report is not None:
            self.report(epoch, val)

    def on_train_end(self) -> None:
        self.static = None  # with the memory of its recording

    def _not_a_number(self, what: str) -> NumericalError:
        path = Path(self.trainer.default_root_dir) / LAST
        kept = f"; the last good checkpoint is {path}" if self.trainer.checkpoint_callbacks and path.exists() else ""
        return NumericalError(
            f"epoch {self.course.epochs}: {what}; lower training.lr (now {self.config.training.lr:g}) or set "
            f"training.gradient_clip{kept}"
        )

    def best_checkpoint(self) -> dict[str, Any]:
        """What ``best.ckpt`` holds: the weights of the best epoch and what they are of."""
        own = identity(self.config, self.seed, self.split)
        own |= {"epoch": self.course.best_epoch, "val": self.course.best_score}
        return {OWN: own, "state_dict": self.best}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        own = identity(self.config, self.seed, self.split)
        checkpoint[OWN] = {**own, "course": self.course.state_dict(), "best": self.best}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.restore(checkpoint)

    def restore(self, checkpoint: dict[str, Any]) -> None:
        """Take over the course and the best weights; Lightning restores the rest."""
        self.course = Course.from_state(checkpoint[OWN]["course"])
        self.best = checkpoint[OWN]["best"]


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
