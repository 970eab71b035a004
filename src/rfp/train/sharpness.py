"""Updates by the gradient at the worst weights nearby, which lead to where the loss is flat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# η of the paper: how far a weight of 0 may go, so that it is not stuck there.
_LEAST = 0.01


class Ascent:
    r"""Adaptive sharpness-aware minimisation: one climb before each update.

    .. math:: w \leftarrow w + \rho \frac{T_w^2 g}{\|T_w g\|}, \quad T_w = |w| + \eta

    The update is then made from the weights as they were, by the gradient that was found up there. A weight may go
    as far as it is large, so the climb does not depend on the scale of a layer.

    Args:
        model: On its device; its tensors are changed in place from here on, as optimisers do.
        radius: ρ.

    Example:
        >>> line = nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.constant_(line.weight, 2.0)
        >>> line(torch.ones(1, 1)).backward()
        >>> with Ascent(line, 0.5).climb():  # by 0.5 times 2.01
        ...     print(f"{line.weight.item():.3f}")
        3.005
        >>> line.weight.item()
        2.0

    References:
        J. Kwon, J. Kim, H. Park, I. K. Choi. ASAM: adaptive sharpness-aware minimization. ICML 2021.
    """

    def __init__(self, model: nn.Module, radius: float) -> None:
        self.radius = radius
        self._model = model

    @contextmanager
    def climb(self) -> Iterator[None]:
        """A block in which the model has the worst weights nearby, by the gradients it holds now.

        After it weights and buffers are as before: what a normalisation counted up there is of no model that is kept.
        Gradients stay as the block leaves them.
        """
        moved = [p for p in self._model.parameters() if p.grad is not None]
        held: list[Tensor] = [*moved, *self._model.buffers()]
        before = [value.detach().clone() for value in held]
        self._move(moved)
        try:
            yield
        finally:
            with torch.no_grad():
                for value, old in zip(held, before, strict=True):
                    value.copy_(old)

    @torch.no_grad()
    def _move(self, parameters: list[nn.Parameter]) -> None:
        gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
        reach = torch._foreach_abs(list[Tensor](parameters))
        torch._foreach_add_(reach, _LEAST)
        scaled = torch._foreach_mul(gradients, reach)
        norm = torch.stack([one.norm() for one in scaled]).norm()
        # Where no weight has a gradient there is nowhere to climb to.
        step = torch.where(norm > 0, self.radius / norm, torch.zeros_like(norm))
        torch._foreach_mul_(scaled, reach)
        torch._foreach_mul_(scaled, step)
        for p, way in zip(parameters, scaled, strict=True):
            p.add_(way)
