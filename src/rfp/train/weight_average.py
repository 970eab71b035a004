"""A moving average of a model's weights, which varies less from epoch to epoch than the weights do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

# After t steps no more than the last t or so count, lest the first epochs be those of weights as they were drawn.
_FIRST_STEPS = 10


class WeightAverage:
    r"""The average :math:`\bar w` of all that a model has learned, running statistics included, over its last steps.

    .. math:: \bar w \leftarrow d_t \bar w + (1 - d_t) w, \quad d_t = \min\left(d, \frac{1 + t}{10 + t}\right)

    Args:
        model: On its device; its tensors are changed in place from here on, as optimisers do.
        decay: d, from 0 to 1.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._model = model
        self._weights = _learned(model)  # where the model has them
        self._averages = [value.clone() for value in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        """Take note of the weights after a step."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (_FIRST_STEPS + self.steps))
        torch._foreach_lerp_(self._averages, self._weights, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A block in which the model has the averages; after it, the weights as they were."""
        now = [value.data_ptr() for value in _learned(self._model)]
        assert now == [value.data_ptr() for value in self._weights], "a tensor of the model was replaced by another"
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for weight, average in zip(self._weights, self._averages, strict=True):
            held = weight.clone()
            weight.copy_(average)
            average.copy_(held)

    def state_dict(self) -> dict[str, Any]:
        """Tensors and numbers that :meth:`load_state_dict` reads back."""
        return {"steps": self.steps, "averages": self._averages}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state_dict` gave."""
        self.steps = state["steps"]
        for average, value in zip(self._averages, state["averages"], strict=True):
            average.copy_(value)


def _learned(model: nn.Module) -> list[Tensor]:
    """Parameters and running statistics; not what counts."""
    values = [value for value in model.state_dict().values() if isinstance(value, Tensor)]
    return [value for value in values if value.is_floating_point()]
