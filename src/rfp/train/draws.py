"""The random encodings of a training on one graph, drawn before they are needed: many epochs in one propagation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from rfp.graph import Graph
from rfp.nn import RFPModel

# Bytes of encodings drawn ahead.
_BYTES_AHEAD = 1 << 30


class TrainingDraws:
    """The encodings of each epoch, for models of one kind that differ in their seed.

    Args:
        models: One for each seed, not replicated; a model with learned operators stands alone.
        graph: What they encode.
        num_epochs: How many there will be.

    :attr:`current` is what :meth:`rfp.nn.RFPModel.forward` takes as ``drawn``: ``[B, n, C]`` for each encoding, with a
    leading S for several seeds. It stays at one place in memory, as a recorded step needs it.
    """

    def __init__(self, models: Sequence[RFPModel], graph: Graph, num_epochs: int) -> None:
        self._models, self._graph, self._num_epochs = models, graph, num_epochs
        self.current: list[Tensor] = []
        self._blocks: list[Tensor] = []  # [epochs, S, B, n, C] of each encoding
        self._first = self._length = 0

    def begin(self, epoch: int) -> None:
        """Make the draws of an epoch the current ones; epochs are begun in order."""
        if any(encoder.learned for encoder in self._models[0].encoders):
            self._models[0].train()
            self.current = [encoder.draw(self._graph) for encoder in self._models[0].encoders]
            return
        if epoch >= self._first + self._length:
            self._draw(epoch)
        values = [block[epoch - self._first] for block in self._blocks]
        values = [value.squeeze(0) if len(self._models) == 1 else value for value in values]
        if not self.current:
            self.current = [value.clone(memory_format=torch.contiguous_format) for value in values]
        for place, value in zip(self.current, values, strict=True):
            place.copy_(value)

    def _draw(self, epoch: int) -> None:
        numbers = sum(e.out_channels * e.settings.num_trajectories for e in self._models[0].encoders)
        size = max(1, 4 * len(self._models) * self._graph.num_nodes * numbers)
        self._blocks = []  # freed before the next are drawn
        self._first, self._length = epoch, max(1, min(self._num_epochs - epoch, _BYTES_AHEAD // size))
        for model in self._models:
            model.train()
        encoders = zip(*(model.encoders for model in self._models), strict=True)
        self._blocks = [
            torch.stack([encoder.draw_ahead(self._graph, self._length) for encoder in same], dim=1) for same in encoders
        ]


class EvaluationDraws:
    """The fixed draws of evaluations, for the same models.

    Args:
        models: As for :class:`TrainingDraws`.
        graph: What they encode.
    """

    def __init__(self, models: Sequence[RFPModel], graph: Graph) -> None:
        self._models, self._graph = models, graph

    @torch.no_grad()
    def number(self, number: int) -> list[Tensor]:
        """Draw ``number`` of every encoding, in the form of :attr:`TrainingDraws.current`; 0 is the usual one."""
        with ExitStack() as stack:
            drawn = []
            for model in self._models:
                model.eval()
                stack.enter_context(model.evaluation_draw(number))
                drawn.append([encoder.draw(self._graph) for encoder in model.encoders])
        if len(drawn) == 1:
            return drawn[0]
        return [torch.stack(same) for same in zip(*drawn, strict=True)]
