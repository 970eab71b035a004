"""What a training on one graph draws at random, before an epoch needs it: encodings, and signs of eigenvectors.

An epoch may be recorded as a CUDA graph, so all of it is brought to where it was the epoch before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from copy import copy
from typing import Any

import torch
from torch import Tensor

from rfp.graph import Graph
from rfp.nn import RFPModel
from rfp.nn.encoder import RandomFeaturePropagation
from rfp.transforms import AddEigenvectorPE

# Bytes of encodings drawn ahead; twice as many are held while they are drawn. A few epochs keep a CPU as busy as many.
_BYTES_AHEAD, _BYTES_AHEAD_ON_A_CPU = 1 << 30, 1 << 26


class TrainingDraws:
    """The encodings of each epoch, for models of one kind that differ in their seed.

    Those without a learned operator are drawn for many epochs in one propagation.

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
        self._blocks: list[Tensor | None] = []  # [epochs, S, B, n, C] of each encoding, None of learned ones
        self._first = self._length = 0

    def begin(self, epoch: int) -> None:
        """Make the draws of an epoch the current ones; epochs are begun in order."""
        for model in self._models:
            model.train()
        if epoch >= self._first + self._length:
            self._draw(epoch)
        encoders = zip(*(model.encoders for model in self._models), strict=True)
        values = []
        for block, same in zip(self._blocks, encoders, strict=True):
            if block is None:
                values.append(same[0].draw(self._graph))
            else:
                value = block[epoch - self._first]
                values.append(value.squeeze(0) if len(self._models) == 1 else value)
        if not self.current:
            self.current = [value.clone(memory_format=torch.contiguous_format) for value in values]
        for place, value in zip(self.current, values, strict=True):
            place.copy_(value)

    def end(self) -> None:
        """Let go of what was drawn ahead."""
        self.current, self._blocks, self._length = [], [], 0

    def _draw(self, epoch: int) -> None:
        ahead = [encoder for encoder in self._models[0].encoders if not encoder.learned]
        numbers = sum(e.out_channels * e.settings.num_trajectories for e in ahead)
        size = max(1, 4 * len(self._models) * self._graph.num_nodes * numbers)
        self._blocks = []  # freed before the next are drawn
        most = _BYTES_AHEAD_ON_A_CPU if self._graph.device.type == "cpu" else _BYTES_AHEAD
        self._first, self._length = epoch, max(1, min(self._num_epochs - epoch, most // size))
        encoders = zip(*(model.encoders for model in self._models), strict=True)
        self._blocks = [self._block(same) for same in encoders]

    def _block(self, same: Sequence[RandomFeaturePropagation]) -> Tensor | None:
        if same[0].learned:
            return None
        return torch.stack([encoder.draw_ahead(self._graph, self._length) for encoder in same], dim=1)


class TrainingSigns:
    """The data of a training step with eigenvectors, whose signs each epoch draws anew.

    Args:
        model: Which reads them.
        data: Has all of its fixed encodings.
        graph: Whose they are.

    :attr:`data` is ``data`` itself for a model without eigenvectors, else one with eigenvectors of its own, which stay
    at one place in memory.
    """

    def __init__(self, model: RFPModel, data: Any, graph: Graph) -> None:
        self._model, self._unsigned, self._graph = model, data, graph
        names = [t.attr_name for t in model.fixed if isinstance(t, AddEigenvectorPE)]
        self._names = [name for name in names if name is not None]
        self.data = data
        if self._names:
            self.data = copy(data)
            for name in self._names:
                self.data[name] = data[name].clone()
            self.data.signs_drawn = True

    def begin(self) -> None:
        """Draw the signs of the next epoch: those that a step would have drawn."""
        if not self._names:
            return
        drawn = copy(self._unsigned)
        self._model.draw_signs(drawn, self._graph)
        for name in self._names:
            self.data[name].copy_(drawn[name])


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
