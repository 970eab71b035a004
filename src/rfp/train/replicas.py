"""Node tasks on one graph: all splits and all (lr, weight decay) pairs train together as one tensor program."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, NumericalError
from rfp.nn import RFPModel
from rfp.nn.encoder import training_seed
from rfp.precision import matmul_precision
from rfp.train.config import RunConfig
from rfp.train.course import scheduled_factor
from rfp.train.encodings import fixed_encodings
from rfp.train.optimizer import ReplicaAdam

# Epochs between two looks at the device: whether all replicas have stopped, and whether a loss is not a number.
_LOOK_EVERY = 20
# TF32 in the network on a GPU; the encodings keep their precision whatever this says.
_PRECISION = "high"


@dataclass(frozen=True)
class Replica:
    """What sets a replica apart from the others of its program."""

    split: int
    lr: float
    weight_decay: float


class ReplicaProgram:
    """R replicas of one model on one graph.

    All of them see the same draws and dropout masks, a function of the seed and the epoch, so the loss and the gradient
    of each are those it would have alone with that seed, whatever stands beside it, up to rounding: sums may be taken
    in another order. Adam divides a gradient by its own size, so where one is nothing but rounding (a bias before a
    normalisation, a learned operator of nearly rank one) whole runs may drift apart, as they do between two machines.

    Args:
        config: Of the run; ``training.lr`` and ``training.weight_decay`` are taken from the replicas.
        loaded: A node classification task on one graph.
        replicas: One for each model to train.
        seed: Of weights, draws and dropout.
        device: Where to train.
        encodings: Those that do not change, by the text of their transform: taken from here, or put here.
    """

    def __init__(
        self,
        config: RunConfig,
        loaded: LoadedTask,
        replicas: Sequence[Replica],
        *,
        seed: int,
        device: torch.device,
        encodings: dict[str, Tensor] | None = None,
    ) -> None:
        if reason := unfit(loaded):
            raise ArgumentError(f'engine="replicas" cannot train {loaded.task.name!r}: {reason}; use "lightning"')
        self.training, self.replicas, self.seed, self.device = config.training, list(replicas), seed, device
        self.labels = loaded.y.to(device)
        self.masks = {part: mask.T.contiguous().to(device) for part, mask in loaded.masks.items()}  # [splits, n]
        self.split = torch.tensor([r.split for r in self.replicas], device=device)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = RFPModel(config.model_config(loaded, seed))
        self.num_parameters = model.num_parameters
        self.data = loaded.data().to(device)
        self.graph = loaded.graphs.graph.to(device)
        for name, value in fixed_encodings(model, self.graph, self.data.x, encodings).items():
            self.data[name] = value
        self.model = model.replicate(len(self.replicas)).to(device)
        lr = torch.tensor([r.lr for r in self.replicas], device=device)
        decay = torch.tensor([r.weight_decay for r in self.replicas], device=device)
        self.optimizer = ReplicaAdam(self.model.parameters(), lr, decay, decoupled=self.training.optimizer == "adamw")
        self.epochs_run = 0
        self.seconds = 0.0

    def fit(self, tick: Callable[[int], None] = lambda epoch: None) -> None:
        """Train all replicas; keep the weights of each one's best epoch."""
        started = time.perf_counter()
        epochs, patience = self.training.epochs, self.training.patience or self.training.epochs
        kept = [p.detach().clone() for p in self.model.parameters()]
        shape = (len(self.replicas),)
        best = torch.full(shape, -math.inf, device=self.device)
        best_loss = torch.full(shape, math.inf, device=self.device)
        best_epoch = torch.zeros(shape, dtype=torch.long, device=self.device)
        finite = torch.ones(shape, dtype=torch.bool, device=self.device)
        ended = torch.full(shape, epochs, device=self.device)
        with matmul_precision(_PRECISION), torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            fixed_draw = self._draw(training=False)
            for epoch in range(epochs):
                torch.manual_seed(training_seed(self.seed, epoch))
                finite &= self._step(epoch).isfinite()
                score, loss = self._validate(fixed_draw)
                active = (epoch - best_epoch <= patience) & (ended == epochs)
                ended = torch.where((ended == epochs) & ~active, epoch, ended)
                # The accuracy of NaN is a number: the loss must be one too.
                better = active & loss.isfinite() & self._is_better(score, loss, best, best_loss)
                best, best_loss = torch.where(better, score, best), torch.where(better, loss, best_loss)
                best_epoch = torch.where(better, epoch, best_epoch)
                for old, p in zip(kept, self.model.parameters(), strict=True):
                    old.copy_(torch.where(better.view(-1, *[1] * (p.dim() - 1)), p.detach(), old))
                self.epochs_run = epoch + 1
                tick(epoch)
                if (epoch + 1) % _LOOK_EVERY == 0 or epoch + 1 == epochs:
                    self._check(finite, epoch)
                    if bool((ended < epochs).all()):
                        break
            with torch.no_grad():
                for old, p in zip(kept, self.model.parameters(), strict=True):
                    p.copy_(old)
        self.best_val, self.best_epoch = best.tolist(), best_epoch.tolist()
        self.epochs_each = [min(e, self.epochs_run) for e in ended.tolist()]
        self.seconds = time.perf_counter() - started

    def _is_better(self, score: Tensor, loss: Tensor, best: Tensor, best_loss: Tensor) -> Tensor:
        if self.training.choose_by == "loss":
            return loss < best_loss
        return (score > best) | ((score == best) & (loss < best_loss))

    def _check(self, finite: Tensor, epoch: int) -> None:
        # A replica with a hopeless learning rate may diverge without harm to the others; if none is left, say so.
        if not bool(finite.any()):
            raise NumericalError(
                f"the loss of every replica is NaN or infinite by epoch {epoch}; lower training.lr "
                f"(tried {sorted({r.lr for r in self.replicas})})"
            )

    def _step(self, epoch: int) -> Tensor:
        """One update of all replicas; returns the loss of each, ``[R]``."""
        self.model.train()
        drawn = self._draw(training=True)
        logits = self.model(self.data, graph=self.graph, drawn=drawn)
        loss = self._loss(logits, "train")
        self.optimizer.zero_grad()
        # The replicas share no parameter: the gradient of the sum is the gradient of each.
        loss.sum().backward()  # type: ignore[no-untyped-call]
        if self.training.gradient_clip:
            self._clip()
        self.optimizer.step(scheduled_factor(self.training, epoch))
        return loss.detach()

    def _clip(self) -> None:
        """Bound the norm of each replica's own gradient."""
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = torch.stack([g.flatten(1).norm(dim=1) for g in grads]).norm(dim=0)
        scale = (self.training.gradient_clip / (norm + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(scale.view(-1, *[1] * (g.dim() - 1)))

    def _loss(self, logits: Tensor, part: str) -> Tensor:
        """Cross entropy of each replica over its own split's part, ``[R]``."""
        num_replicas, n, classes = logits.shape
        each = cross_entropy(logits.reshape(-1, classes), self.labels.repeat(num_replicas), reduction="none")
        mask = self.masks[part][self.split].to(logits.dtype)
        return (each.view(num_replicas, n) * mask).sum(1) / mask.sum(1)

    @torch.no_grad()
    def _validate(self, drawn: list[Tensor | None]) -> tuple[Tensor, Tensor]:
        self.model.eval()
        logits = self.model(self.data, graph=self.graph, drawn=drawn)
        return self._accuracy(logits, "val"), self._loss(logits, "val")

    def _accuracy(self, scores: Tensor, part: str) -> Tensor:
        mask = self.masks[part][self.split]
        right = (scores.argmax(-1) == self.labels) & mask
        return right.sum(1).double() / mask.sum(1)

    @torch.no_grad()
    def scores(self, part: str) -> list[float]:
        """Accuracy of every replica's best weights on a part, from predictions averaged over ``eval_draws`` draws."""
        self.model.eval()
        with matmul_precision(_PRECISION):
            total = torch.zeros((), device=self.device)
            for number in range(self.training.eval_draws):
                with self.model.evaluation_draw(number):
                    total = total + self.model(self.data, graph=self.graph).softmax(-1)
        return self._accuracy(total, part).tolist()

    def _draw(self, training: bool) -> list[Tensor | None]:
        """The encodings without a learned operator: they need no gradient, and in evaluation they stay the same."""
        self.model.train(training)
        return self.model.draw_predefined(self.graph)


def unfit(loaded: LoadedTask) -> str:
    """Why a task cannot be trained in replicas; empty if it can."""
    if loaded.task.level != "node":
        return "it is no node task"
    if loaded.task.kind != "classification":
        return "it is no classification"
    return "" if loaded.graphs.num_graphs == 1 else "it has several graphs"
