"""Runs written out plainly: torch's own optimiser, no engine, scores counted by hand. Both engines are held to it."""

from __future__ import annotations

import math
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.data import Data

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.tasks import Task
from rfp.nn import RFPModel
from rfp.nn.counted_draws import training_seed
from rfp.nn.replicated import DropoutMasks, dropout_masks
from rfp.train.batches import Batches
from rfp.train.run_config import RunConfig


@dataclass
class PlainRun:
    """What a run should give, epoch by epoch and at the end."""

    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    val: list[float] = field(default_factory=list)
    best_epoch: int = -1
    scores: dict[str, float] = field(default_factory=dict)
    scores_of_last_epoch: dict[str, float] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)


def two_circles(nodes: int = 90, num_splits: int = 3) -> LoadedTask:
    """Three classes on one random graph whose features say the class only roughly; the splits are unalike."""
    generator = torch.Generator().manual_seed(7)
    y = torch.randint(0, 3, (nodes,), generator=generator)
    near = (y[:, None] == y).float() * 0.06 + 0.02
    upper = (torch.rand(nodes, nodes, generator=generator) < near).triu(1)
    edge_index = (upper | upper.T).nonzero().T
    x = functional.one_hot(y, 3) + 1.2 * torch.randn(nodes, 3, generator=generator)
    part = torch.stack([torch.randperm(nodes, generator=generator) for _ in range(num_splits)], dim=1) * 3 // nodes
    masks = {name: part == number for number, name in enumerate(("train", "val", "test"))}
    task = Task("circles", "node", "classification", "accuracy", 3)
    graphs = GraphCollection.from_data_list([Data(x=x, edge_index=edge_index, num_nodes=nodes)])
    return LoadedTask(task, graphs, y, masks, "made by hand")


def many_graphs(level: str = "graph", count: int = 26, num_splits: int = 2) -> LoadedTask:
    """Random graphs with a number to predict for each graph or node; nothing in them is a round number."""
    generator = torch.Generator().manual_seed(3)
    graphs = []
    for g in range(count):
        n = 3 + g % 5
        upper = (torch.rand(n, n, generator=generator) < 0.6).triu(1)
        edges = (upper | upper.T).nonzero().T
        graphs.append(Data(x=torch.randn(n, 2, generator=generator), edge_index=edges, num_nodes=n))
    collection = GraphCollection.from_data_list(graphs)
    rows = count if level == "graph" else collection.num_nodes
    y = torch.randn(rows, 1, generator=generator) + 1
    part = torch.stack([torch.randperm(rows, generator=generator) for _ in range(num_splits)], dim=1) * 3 // rows
    masks = {name: part == number for number, name in enumerate(("train", "val", "test"))}
    return LoadedTask(Task("numbers", level, "regression", "mae", 1), collection, y, masks, "made by hand")


def plain_run(config: RunConfig, loaded: LoadedTask, *, seed: int, split: int, replica: bool = False) -> PlainRun:
    """Train as the docs say: weights from the seed, a new draw and new masks in every epoch, the best epoch by
    validation on the fixed draw, scores of its weights from predictions averaged over the evaluation draws.

    A ``replica`` takes its dropout masks from :class:`DropoutMasks`, every other run from torch's generator.
    """
    masks = DropoutMasks([seed], config.training.epochs, torch.device("cpu"))
    with pytest.MonkeyPatch.context() as patch, dropout_masks(masks) if replica else nullcontext():
        if replica:
            patch.setattr(functional, "dropout", lambda x, p, training, inplace: _masked(x, p, training, masks))
        return _plain_run(config, loaded, seed, split, masks)


def _masked(x: Tensor, p: float, training: bool, masks: DropoutMasks) -> Tensor:
    return x * masks.keep(x.shape, p)[0] / (1 - p) if training and p else x


def _plain_run(config: RunConfig, loaded: LoadedTask, seed: int, split: int, masks: DropoutMasks) -> PlainRun:
    training = config.training
    torch.manual_seed(seed)
    model = RFPModel(config.model_config(loaded, seed))
    kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
    optimizer = kind(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
    found, best = PlainRun(), (-math.inf, -math.inf)
    shown = deepcopy(model)  # which is validated: the model, or one with the averages of its weights
    steps = 0
    higher = loaded.task.kind == "classification"
    for epoch in range(training.epochs):
        torch.manual_seed(training_seed(seed, epoch))
        masks.begin(epoch)
        for group in optimizer.param_groups:
            group["lr"] = training.lr * min(1.0, (epoch + 1) / max(training.warmup_epochs, 1))
        model.train()
        losses = []
        for data, rows in _training_batches(loaded, config, seed, split, epoch):
            loss = _loss(model(data)[rows], data.y[rows])
            optimizer.zero_grad()
            loss.backward()
            if training.sharpness:
                _gradients_up_there(model, data, rows, training.sharpness)
            if training.gradient_clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), training.gradient_clip)
            optimizer.step()
            steps += 1
            _average(shown, model, min(training.weight_average, (1 + steps) / (10 + steps)))
            losses.append(loss.item())
        found.train_loss.append(sum(losses) / len(losses))
        prediction, label = _predicted(shown, loaded, "val", split)
        found.val.append(_score(prediction, label))
        found.val_loss.append(float(_loss(prediction, label)))
        score = found.val[-1] if higher else -found.val[-1]
        rank = (-found.val_loss[-1], 0.0) if training.choose_by == "loss" else (score, -found.val_loss[-1])
        if rank > best:
            best, found.best_epoch, weights = rank, epoch, deepcopy(shown.state_dict())
    found.scores_of_last_epoch = _final(shown, loaded, split, training.eval_draws)
    shown.load_state_dict(weights)
    found.weights = {name: p.detach().clone() for name, p in shown.named_parameters()}
    found.scores = _final(shown, loaded, split, training.eval_draws)
    return found


def _gradients_up_there(model: RFPModel, data: Any, rows: Tensor, radius: float) -> None:
    """The gradients of a copy whose weights lie where the loss rises most, each within its own size of here."""
    moved = deepcopy(model)
    reached = [
        (p, (q.detach().abs() + 0.01), q.grad) for p, q in zip(moved.parameters(), model.parameters(), strict=True)
    ]
    norm = math.sqrt(sum(float((reach * g).double().pow(2).sum()) for _, reach, g in reached if g is not None))
    with torch.no_grad():
        for p, reach, g in reached:
            if g is not None:
                p += radius * reach**2 * g / norm
    moved.zero_grad()
    _loss(moved(data)[rows], data.y[rows]).backward()
    for p, q in zip(moved.parameters(), model.parameters(), strict=True):
        q.grad = p.grad


def _average(shown: RFPModel, model: RFPModel, share: float) -> None:
    """Of the numbers of one model keep a share, and take the rest from the other; all else of it is as there."""
    before = shown.state_dict()
    now = deepcopy(model.state_dict())
    for name, value in now.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            now[name] = share * before[name] + (1 - share) * value
    shown.load_state_dict(now)


def _training_batches(
    loaded: LoadedTask, config: RunConfig, seed: int, split: int, epoch: int
) -> list[tuple[Any, Tensor]]:
    """The batches of an epoch in its order, made by PyG, and which of their rows are trained on."""
    order = Batches(loaded, "train", split, batch_size=config.training.batch_size, seed=seed)
    order.epoch = epoch
    return [_batch(loaded, chosen, "train", split) for chosen in order.order().split(config.training.batch_size)]


def _batch(loaded: LoadedTask, chosen: Tensor, part: str, split: int) -> tuple[Any, Tensor]:
    graphs = []
    for g in chosen.tolist():
        nodes = slice(int(loaded.graphs.ptr[g]), int(loaded.graphs.ptr[g + 1]))
        rows = nodes if loaded.task.level.name == "node" else slice(g, g + 1)
        data = loaded.graphs.data(g)
        data.y, data.counted = loaded.y[rows], loaded.masks[part][rows, split]
        graphs.append(data)
    batch = PyGBatch.from_data_list(graphs) if loaded.graphs.num_graphs > 1 else graphs[0]
    return batch, batch.counted


def _loss(prediction: Tensor, label: Tensor) -> Tensor:
    if label.dim() == 1:
        return functional.nll_loss(prediction.log_softmax(-1), label)
    return (prediction - label).abs().mean()


def _score(prediction: Tensor, label: Tensor) -> float:
    if label.dim() == 1:
        return sum(row.index(max(row)) == y for row, y in zip(prediction.tolist(), label.tolist(), strict=True)) / len(
            label
        )
    return sum(abs(p - y) for p, y in zip(prediction.flatten().tolist(), label.flatten().tolist(), strict=True)) / len(
        label
    )


@torch.no_grad()
def _predicted(model: RFPModel, loaded: LoadedTask, part: str, split: int, draws: int = 1) -> tuple[Tensor, Tensor]:
    """The mean over draws, of which 0 is the usual one; of classes it is one of probabilities."""
    model.eval()
    data, rows = _batch(loaded, torch.arange(loaded.graphs.num_graphs), part, split)
    answers = []
    for number in range(draws):
        with model.evaluation_draw(number):
            out = model(data)[rows]
        answers.append(out.softmax(-1) if data.y.dim() == 1 and draws > 1 else out)
    return torch.stack(answers).mean(0), data.y[rows]


def _final(model: RFPModel, loaded: LoadedTask, split: int, draws: int) -> dict[str, float]:
    return {part: _score(*_predicted(model, loaded, part, split, draws)) for part in ("val", "test")}
