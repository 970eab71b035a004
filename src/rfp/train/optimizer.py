"""Adam with a learning rate and a weight decay for each replica."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_BETAS = (0.9, 0.999)
_EPS = 1e-8


class ReplicaAdam:
    r"""The update of ``torch.optim.Adam`` (or ``AdamW``), replica by replica, in one pass over parameters ``[R, ...]``.

    .. math:: g \leftarrow g + \lambda_r p, \quad m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
              v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
              p \leftarrow p - \eta_r \hat m / (\sqrt{\hat v} + \epsilon)

    Args:
        parameters: Each ``[R, ...]``.
        lr: η, ``[R]``.
        weight_decay: λ, ``[R]``.
        decoupled: As in AdamW: :math:`p \leftarrow (1 - \eta_r \lambda_r) p` instead of the change of g.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: Tensor, weight_decay: Tensor, *, decoupled: bool = False
    ) -> None:
        self.parameters = list(parameters)
        self.lr, self.weight_decay, self.decoupled = lr, weight_decay, decoupled
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.steps = 0

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self, factor: float = 1.0) -> None:
        """One update with the learning rates multiplied by ``factor`` (a schedule's)."""
        self.steps += 1
        corrections = tuple(1 - beta**self.steps for beta in _BETAS)
        for p, m, v in zip(self.parameters, self.first, self.second, strict=True):
            if p.grad is None:
                continue
            lr, decay = _spread(self.lr * factor, p), _spread(self.weight_decay, p)
            g = p.grad
            if self.decoupled:
                p.mul_(1 - lr * decay)
            else:
                g = torch.addcmul(g, p, decay)
            m.lerp_(g, 1 - _BETAS[0])
            v.mul_(_BETAS[1]).addcmul_(g, g, value=1 - _BETAS[1])
            scale = v.sqrt().div_(corrections[1] ** 0.5).add_(_EPS)
            p.addcmul_(m.div(scale), lr, value=-1 / corrections[0])


def _spread(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
