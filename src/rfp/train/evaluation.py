"""Predictions for a whole part of a task, and their score."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext

import torch
from torch import Tensor

from rfp.data.metrics import METRICS
from rfp.data.tasks import Task
from rfp.errors import NumericalError
from rfp.nn import RFPModel
from rfp.nn.kinds import ALL_KINDS
from rfp.train.batches import Batch


@torch.no_grad()
def predict_batches(model: RFPModel, batches: Iterable[Batch], kind: str, draws: int = 1) -> tuple[Tensor, Tensor]:
    """Predictions and labels of all counted rows, on the device.

    Args:
        model: Left in the mode (training or evaluation) it was in.
        batches: Batches of the part; what they have drawn is taken for the first draw.
        kind: Kind of the task. Classes are averaged as probabilities, yes/no answers too (and given back as logits),
            numbers as they are.
        draws: Draws of the random encodings that predictions are averaged over.

    Returns:
        ``[rows, outputs]`` in float32 and the labels of the same rows.
    """
    was_training = model.training
    model.eval()
    predictions: list[Tensor] = []
    labels: list[Tensor] = []
    for batch in batches:
        total = None
        for number in range(draws):
            drawn = {batch.drawn_as: batch.drawn} if number == 0 and batch.drawn is not None else {}
            with nullcontext() if number == 0 else model.evaluation_draw(number):
                out = model(batch.data, graph=batch.graph, **drawn).float()
            if draws > 1:
                out = ALL_KINDS[kind].averaged(out)
            total = out if total is None else total + out
        assert total is not None  # draws is at least 1
        mean = total if draws == 1 else ALL_KINDS[kind].answer(total / draws)
        predictions.append(mean if batch.counted is None else mean[batch.counted])
        labels.append(batch.label if batch.counted is None else batch.label[batch.counted])
    model.train(was_training)
    return torch.cat(predictions), torch.cat(labels)


def score(task: Task, prediction: Tensor, label: Tensor, where: str) -> float:
    """The task's metric; raises if a prediction is NaN or infinite.

    Args:
        task: Task of the data.
        prediction: ``[rows, outputs]``.
        label: Label of the same rows.
        where: Said in the error, such as ``"epoch 3"``.
    """
    if not bool(prediction.isfinite().all()):
        bad = int((~prediction.isfinite()).flatten(1).any(1).sum())
        raise NumericalError(f"{where}: {bad} of {len(prediction)} predictions are NaN or infinite")
    return METRICS[task.metric](prediction, label, task.kind)
