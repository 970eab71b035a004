"""What stays of replicas that were trained: their scores and what they predict, in memory and on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from rfp.data.loaded import LoadedTask
from rfp.errors import FileError
from rfp.train.checkpoints import CHECKPOINT_FORMAT, OWN, read_checkpoint, write_checkpoint
from rfp.train.run_config import RunConfig


@dataclass(frozen=True)
class Replica:
    """What sets a replica apart from the others of its program.

    Args:
        split: Whose training part it learns from.
        lr: Learning rate.
        weight_decay: Weight decay of the optimiser.
        seed: Seed of its weights, draws and dropout.
    """

    split: int
    lr: float
    weight_decay: float
    seed: int = 0


@dataclass(frozen=True)
class TrainedReplica:
    """One of them.

    Args:
        replica: Which.
        best_val: Its best validation score while it was trained.
        best_epoch: The epoch of that score.
        epochs: How many epochs it ran.
        seconds: Its share of the time of its program.
        num_parameters: Of its model.
        predictions: The class of every node by the weights of the best epoch, ``[n]`` on the CPU; ``None`` of a short
            trial, of which the score is all that is asked for.
    """

    replica: Replica
    best_val: float
    best_epoch: int
    epochs: int
    seconds: float
    num_parameters: int
    predictions: Tensor | None = None


def validation_scores(trained: Sequence[TrainedReplica], loaded: LoadedTask) -> list[float]:
    """Accuracy of each replica's predictions on its validation part."""
    return _on_part("val", trained, loaded)


def examine(chosen: Sequence[TrainedReplica], loaded: LoadedTask) -> list[float]:
    """The test accuracy of replicas whose choice was made on validation scores.

    This is the only place in node tasks that reads the test part.
    """
    return _on_part("test", chosen, loaded)


def _on_part(part: str, trained: Sequence[TrainedReplica], loaded: LoadedTask) -> list[float]:
    masks = loaded.masks[part][:, [one.replica.split for one in trained]].T
    return accuracy_within(_predictions(trained), loaded.y, masks).tolist()


def accuracy_within(predicted: Tensor, labels: Tensor, mask: Tensor) -> Tensor:  # [R, n], [n], [R, n] -> [R]
    """The part of each replica's nodes whose class is right."""
    return ((predicted == labels) & mask).sum(1).double() / mask.sum(1)


def _predictions(trained: Sequence[TrainedReplica]) -> Tensor:
    return torch.stack([cast(Tensor, one.predictions) for one in trained])


class KeptReplicas:
    """A folder of replicas that were trained to their end, for a search that is cut before its runs are recorded.

    Args:
        folder: Made when something is put into it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, config: RunConfig, trained: Sequence[TrainedReplica]) -> None:
        """Keep the replicas of a program, all with predictions."""
        replicas = [astuple(one.replica) for one in trained]
        name = f"{config.key}-{hashlib.sha256(repr(replicas).encode()).hexdigest()[:16]}.ckpt"
        numbers = [(one.best_val, one.best_epoch, one.epochs, one.seconds, one.num_parameters) for one in trained]
        own = {"format": CHECKPOINT_FORMAT, "replicas": replicas, "numbers": numbers}
        write_checkpoint({OWN: own, "predictions": _predictions(trained).to(torch.int32)}, self._folder / name)

    def find(self, config: RunConfig, wanted: Iterable[Replica]) -> list[TrainedReplica]:
        """Those of ``wanted`` that were trained with this config.

        Raises:
            FileError: A file is damaged, or of something else.
        """
        there: dict[Replica, TrainedReplica] = {}
        for path in sorted(self._folder.glob(f"{config.key}-*.ckpt")):
            content = read_checkpoint(path)
            own: dict[str, Any] = content[OWN]
            if "replicas" not in own:
                raise FileError(f"{path}: not a checkpoint of trained replicas; remove it, or choose another folder")
            rows = zip(own["replicas"], own["numbers"], content["predictions"].long(), strict=True)
            for replica, (val, best, epochs, seconds, size), classes in rows:
                one = TrainedReplica(Replica(*replica), val, best, epochs, seconds, size, classes)
                there[one.replica] = one
        return [there[replica] for replica in wanted if replica in there]

    def clear(self) -> None:
        """Forget all: their runs are recorded."""
        for path in self._folder.glob("*.ckpt"):
            path.unlink()
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()
