"""Node tasks on one graph: all splits, (lr, weight decay) pairs and seeds train together as one tensor program."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rfp.backends.sparse.orthonormal import asks_for_no_rank
from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, NumericalError
from rfp.nn import RFPModel
from rfp.nn.encoder import RandomFeaturePropagation
from rfp.nn.kinds import KINDS
from rfp.nn.replicated import DropoutMasks, dropout_masks, set_weights
from rfp.precision import matmul_precision
from rfp.train.adam_agrees import kernel_updates
from rfp.train.draws import EvaluationDraws, TrainingDraws, TrainingSigns
from rfp.train.fixed_encodings import fixed_encodings
from rfp.train.optimizer import ReplicaAdam
from rfp.train.recorded import Recorded
from rfp.train.run_config import RunConfig
from rfp.train.run_history import scheduled_factor
from rfp.train.trained_replicas import Replica, TrainedReplica, accuracy_within

# Epochs between two looks at the device: whether all replicas have stopped, and whether a loss is not a number.
_LOOK_EVERY = 20
# Columns of inputs and weights on a GPU are a multiple of this: 32 bytes, where the fast kernels of products want 16.
_ALIGNMENT = 8
# TF32 in the network on a GPU; the encodings keep their precision whatever this says.
_PRECISION = "high"


class ReplicaProgram:
    """R replicas of one model on one graph.

    Weights, draws and dropout masks are functions of a replica's seed and of the epoch, alike on every device, so the
    loss and the gradient of each are those it would have alone, whatever stands beside it, up to rounding: sums may be
    taken in another order. Adam divides a gradient by its own size, so where one is nothing but rounding (a bias before
    a normalisation, a learned operator of nearly rank one) whole runs may drift apart, as they do between two machines.
    A program has no test part: see :func:`~rfp.train.trained_replicas.examine`.

    Args:
        config: Config of the run; ``training.lr`` and ``training.weight_decay`` are taken from the replicas.
        loaded: A node classification task on one graph.
        replicas: One for each model to train, seed by seed, as many of each; models with a learned operator
            or with eigenvectors have one seed only.
        device: Where to train.
        encodings: Those that do not change, by the text of their transform: taken from here, or put here.
    """

    def __init__(
        self,
        config: RunConfig,
        loaded: LoadedTask,
        replicas: Sequence[Replica],
        *,
        device: torch.device,
        encodings: dict[str, Tensor] | None = None,
    ) -> None:
        if reason := unfit(loaded) or config.training.only_alone:
            raise ArgumentError(f'engine="replicas" cannot train {loaded.task.name!r}: {reason}; use "lightning"')
        for split in {replica.split for replica in replicas}:
            loaded.check_parts(split, tested=False)
        self.training, self.replicas, self.device = config.training, list(replicas), device
        self.labels = loaded.y.to(device)
        self.split = torch.tensor([r.split for r in self.replicas], device=device)
        self._masks = {part: loaded.masks[part].T.contiguous().to(device) for part in ("train", "val")}  # [splits, n]
        self.seeds = _seeds(self.replicas)
        models = [_model(config, loaded, seed) for seed in self.seeds]
        self.num_parameters = models[0].num_parameters
        self.data = loaded.graphs.data(0).to(device)
        self.graph = loaded.graphs.graph.to(device)
        for name, value in fixed_encodings(models[0], self.graph, self.data.x, encodings).items():
            self.data[name] = value
        self.model = _model(config, loaded, self.seeds[0]).replicate(len(self.replicas))
        set_weights(self.model, models)
        self.model.to(device)
        if device.type == "cuda":
            self.model.align(_ALIGNMENT)
        alone = one_seed_a_program(self.model)
        if alone and len(models) > 1:
            raise ArgumentError("a model with a learned operator or eigenvectors has one seed in a program")
        sources = [self.model] if alone else [model.to(device) for model in models]
        self._training_draws = TrainingDraws(sources, self.graph, self.training.epochs)
        self._signs = TrainingSigns(self.model, self.data, self.graph)
        self._evaluation_draws = EvaluationDraws(sources, self.graph)
        self._dropout = DropoutMasks(self.seeds, self.training.epochs, device)
        self._recordable = all(_learns_without_waiting(e, len(self.replicas)) for e in self.model.encoders)
        self.optimizer = self._adam()
        self.epochs_run = 0
        self.seconds = 0.0
        self.not_recorded = ""  # why the epochs were launched kernel by kernel

    def _adam(self) -> ReplicaAdam:
        lr = torch.tensor([r.lr for r in self.replicas], device=self.device)
        decay = torch.tensor([r.weight_decay for r in self.replicas], device=self.device)
        slower = {}
        if self.training.operator_lr != 1.0:
            slower = dict.fromkeys(self.model.drawn.parameters(), self.training.operator_lr)
        decoupled = self.training.optimizer == "adamw"
        return ReplicaAdam(self.model.parameters(), lr, decay, decoupled=decoupled, slower=slower)

    def fit(self, tick: Callable[[int], None] = lambda epoch: None) -> None:
        """Train all replicas; keep the weights of each one's best epoch.

        Args:
            tick: Told the number of each epoch that is done; what it raises ends the training.
        """
        started = time.perf_counter()
        epochs, shape = self.training.epochs, (len(self.replicas),)
        self.optimizer.keep()
        self._better = torch.zeros(shape, dtype=torch.bool, device=self.device)
        self._best = torch.full(shape, -math.inf, dtype=torch.float64, device=self.device)
        self._best_loss = torch.full(shape, math.inf, device=self.device)
        self._best_epoch = torch.zeros(shape, dtype=torch.long, device=self.device)
        self._finite = torch.ones(shape, dtype=torch.bool, device=self.device)
        self._ended = torch.full(shape, epochs, device=self.device)
        self._now = torch.zeros((), dtype=torch.long, device=self.device)
        with matmul_precision(_PRECISION), dropout_masks(self._dropout):
            self._fixed_draw = self._evaluation_draws.number(0)
            # Not kept: a recording holds the memory of a whole epoch, and through `_epoch` this program.
            recorded = Recorded(self._epoch, self.device, allowed=self._recordable)
            for epoch in range(epochs):
                self._training_draws.begin(epoch)
                self._signs.begin()
                self._dropout.begin(epoch)
                self._now.fill_(epoch)
                self.optimizer.factor.fill_(scheduled_factor(self.training, epoch))
                recorded()
                self.epochs_run = epoch + 1
                tick(epoch)
                if (epoch + 1) % _LOOK_EVERY == 0 or epoch + 1 == epochs:
                    self._check(epoch)
                    if bool((self._ended < epochs).all()):
                        break
            self.optimizer.keep(self._better)
            self.optimizer.restore()
        self._end()
        self.not_recorded = recorded.refused
        self.best_val, self.best_epoch = self._best.tolist(), self._best_epoch.tolist()
        self.epochs_each = [min(e, self.epochs_run) for e in self._ended.tolist()]
        self.seconds = time.perf_counter() - started

    def _end(self) -> None:
        """Keep the weights alone: programs that were trained stay, and those to come need the memory."""
        self.optimizer.end()
        self._training_draws.end()
        self._dropout.end()
        self._fixed_draw = []

    def trained(self, *, predict: bool = True) -> list[TrainedReplica]:
        """What stays of the replicas when this program is let go.

        Args:
            predict: Whether their predictions will be asked for.
        """
        classes = self.predictions().cpu() if predict else [None] * len(self.replicas)
        share = self.seconds / len(self.replicas)
        each = zip(self.replicas, self.best_val, self.best_epoch, self.epochs_each, classes, strict=True)
        return [
            TrainedReplica(replica, val, best, epochs, share, self.num_parameters, predicted)
            for replica, val, best, epochs, predicted in each
        ]

    def _epoch(self) -> None:
        """One update and one look at the validation part; reads and writes tensors alone, so it can be recorded."""
        epochs, patience = self.training.epochs, self.training.patience or self.training.epochs
        self._dropout.rewind()  # what was counted while a recording failed
        self._finite.logical_and_(self._step(self._better).isfinite())
        score, loss = self._validate()
        with torch.no_grad():
            running = self._ended == epochs
            active = (self._now - self._best_epoch <= patience) & running
            self._ended.copy_(torch.where(running & ~active, self._now, self._ended))
            # The accuracy of NaN is a number: the loss must be one too.
            better = active & loss.isfinite() & self._is_better(score, loss)
            self._best.copy_(torch.where(better, score, self._best))
            self._best_loss.copy_(torch.where(better, loss, self._best_loss))
            self._best_epoch.copy_(torch.where(better, self._now, self._best_epoch))
            self._better.copy_(better)  # whose weights are kept when the next step reads them

    def _is_better(self, score: Tensor, loss: Tensor) -> Tensor:
        if self.training.choose_by == "loss":
            return loss < self._best_loss
        return (score > self._best) | ((score == self._best) & (loss < self._best_loss))

    def _check(self, epoch: int) -> None:
        # A replica with a hopeless learning rate may diverge without harm to the others; if none is left, say so.
        if not bool(self._finite.any()):
            raise NumericalError(
                f"the loss of every replica is NaN or infinite by epoch {epoch}; lower training.lr "
                f"(tried {sorted({r.lr for r in self.replicas})})"
            )

    def _step(self, better: Tensor | None = None) -> Tensor:
        """One update of all replicas; returns the loss of each, ``[R]``.

        Args:
            better: Replicas whose weights are kept before they change, ``[R]`` bool.
        """
        self.model.train()
        logits = self.model(self._signs.data, graph=self.graph, drawn=self._training_draws.current)
        loss = self._loss(logits, "train")
        self.optimizer.zero_grad()
        # The replicas share no parameter: the gradient of the sum is the gradient of each.
        loss.sum().backward()  # type: ignore[no-untyped-call]
        if self.training.gradient_clip:
            self._clip()
        self.optimizer.step(better, by_kernel=kernel_updates(self.optimizer))
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
        loss = KINDS["classification"].loss
        each = loss(logits.reshape(-1, classes), self.labels.repeat(num_replicas), reduction="none")
        mask = self._masks[part][self.split].to(logits.dtype)
        return (each.view(num_replicas, n) * mask).sum(1) / mask.sum(1)

    @torch.no_grad()
    def _validate(self) -> tuple[Tensor, Tensor]:
        self.model.eval()
        logits = self.model(self.data, graph=self.graph, drawn=self._fixed_draw)
        score = accuracy_within(logits.argmax(-1), self.labels, self._masks["val"][self.split])
        return score, self._loss(logits, "val")

    @torch.no_grad()
    def predictions(self) -> Tensor:
        """The class of every node by every replica's best weights, ``[R, n]``, over ``eval_draws`` draws."""
        self.model.eval()
        total = torch.zeros((), device=self.device)
        with matmul_precision(_PRECISION):
            for number in range(self.training.eval_draws):
                drawn = self._evaluation_draws.number(number)
                total = total + self.model(self.data, graph=self.graph, drawn=drawn).softmax(-1)
        return total.argmax(-1)


def one_seed_a_program(model: RFPModel) -> bool:
    """Whether replicas of several seeds cannot stand in one program: their trajectories, or signs, are drawn inside."""
    return model.flips_signs or any(encoder.learned for encoder in model.encoders)


def _learns_without_waiting(encoder: RandomFeaturePropagation, num_replicas: int) -> bool:
    """Whether the host decides nothing by what learned operators compute, so that an epoch can be recorded."""
    settings = encoder.settings
    if not encoder.learned or settings.normalization in ("none", "l2"):
        return True
    if settings.normalization != "qr" or settings.backend == "reference" or num_replicas == 1:
        return False
    return asks_for_no_rank(settings.dtype, settings.num_channels)


def unfit(loaded: LoadedTask) -> str:
    """Why a task cannot be trained in replicas; empty if it can."""
    if not loaded.task.level.shares_graphs:
        return "it is no node task"
    if loaded.task.kind != "classification":
        return "it is no classification"
    return "" if loaded.graphs.num_graphs == 1 else "it has several graphs"


def replicable(config: RunConfig, loaded: LoadedTask) -> bool:
    """Whether the model of a config can be trained in replicas: batch normalisation, say, mixes rows.

    One that cannot be built at all, such as one of too many parameters, is no matter of replicas.
    """
    with torch.device("meta"):
        try:
            model = RFPModel(config.model_config(loaded))
        except ArgumentError:
            return True
        try:
            model.replicate(1)
        except ArgumentError:
            return False
    return True


def _seeds(replicas: Sequence[Replica]) -> list[int]:
    seeds = list(dict.fromkeys(replica.seed for replica in replicas))
    members = len(replicas) // len(seeds)
    if [replica.seed for replica in replicas] != [seed for seed in seeds for _ in range(members)]:
        raise ArgumentError("replicas must come seed by seed, as many of each")
    return seeds


def _model(config: RunConfig, loaded: LoadedTask, seed: int) -> RFPModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return RFPModel(config.model_config(loaded, seed))
