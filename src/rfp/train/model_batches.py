"""The batches of a training on many graphs as its model reads them: what is drawn with them, and in which form."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from rfp.data.loaded import LoadedTask
from rfp.graph import Graph
from rfp.nn import RFPModel
from rfp.nn.backbones import SUM_NEIGHBORS
from rfp.train.batches import Batches

# Without gradients to keep, a batch may be larger: fewer calls for the same work.
EVALUATION_BATCH = 8


def training_batches(
    model: RFPModel, loaded: LoadedTask, split: int, *, batch_size: int, seed: int, share: tuple[int, int] = (0, 1)
) -> Batches:
    """The training part, with the random encodings of many steps drawn at once.

    Args:
        model: Which reads them; its seeds are counted on.
        loaded: The task, on the device.
        split: Number of the split.
        batch_size: Graphs in a batch.
        seed: Of their order.
        share: See :class:`~rfp.train.batches.Batches`.
    """
    # Learned operators sum over neighbours too.
    sorted_edges = model.config.backbone in SUM_NEIGHBORS or any(encoder.learned for encoder in model.encoders)
    return Batches(
        loaded,
        "train",
        split,
        batch_size=batch_size,
        seed=seed,
        share=share,
        draw=partial(_draw, model) if model.encoders else None,
        drawn_as=_drawn_as(model),
        bytes_per_node=_bytes_per_node(model),
        draw_signs=partial(_flip_signs, model) if model.flips_signs else None,
        sort=sorted_edges and loaded.y.is_cuda,
    )


def validation_batches(model: RFPModel, loaded: LoadedTask, split: int, *, batch_size: int) -> Batches:
    """The validation part; what evaluations draw is the same each time, and kept."""
    return Batches(
        loaded,
        "val",
        split,
        batch_size=batch_size * EVALUATION_BATCH,
        draw=partial(_draw, model) if model.encoders else None,
        drawn_as=_drawn_as(model),
        draw_once=True,
        bytes_per_node=_bytes_per_node(model) * max((encoder.eval_draws for encoder in model.encoders), default=1),
    )


@torch.no_grad()
def _draw(model: RFPModel, data: Any, graph: Graph) -> list[Tensor]:
    # What learned operators add to a draw needs gradients: the model does that at each step itself.
    return (model.draw_grams if model.reads_grams else model.draw)(data, graph=graph)


@torch.no_grad()
def _flip_signs(model: RFPModel, data: Any, graph: Graph) -> None:
    model.draw_signs(data, graph)


def _drawn_as(model: RFPModel) -> str:
    return "grams" if model.reads_grams else "drawn"


def _bytes_per_node(model: RFPModel) -> int:
    return 4 * sum(encoder.drawn_channels * encoder.settings.num_trajectories for encoder in model.encoders)
