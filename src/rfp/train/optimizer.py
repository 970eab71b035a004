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

    All that changes from step to step is in tensors, so a step may be recorded as a CUDA graph.

    Args:
        parameters: Each ``[R, ...]``.
        lr: η, ``[R]``.
        weight_decay: λ, ``[R]``.
        decoupled: As in AdamW: :math:`p \leftarrow (1 - \eta_r \lambda_r) p` instead of the change of g.
        slower: What η is multiplied by for some of the parameters, where it is not 1.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: Tensor,
        weight_decay: Tensor,
        *,
        decoupled: bool = False,
        slower: dict[nn.Parameter, float] | None = None,
    ) -> None:
        self.parameters = list(parameters)
        self.lr, self.weight_decay, self.decoupled = lr, weight_decay, decoupled
        self.slower = slower or {}
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.factor = torch.ones((), dtype=torch.float64, device=lr.device)
        self.steps = torch.zeros((), dtype=torch.float64, device=lr.device)

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One update, with the learning rates multiplied by :attr:`factor` (a schedule's)."""
        self.steps += 1
        corrections = [1 - beta**self.steps for beta in _BETAS]
        rate = self.lr * (self.factor / corrections[0])  # of the uncorrected first moment
        root = corrections[1].sqrt()
        for p, m, v in zip(self.parameters, self.first, self.second, strict=True):
            if p.grad is None:
                continue
            g, slower = p.grad, self.slower.get(p, 1.0)
            if self.decoupled:
                p.mul_(1 - _spread(self.lr * self.factor * self.weight_decay * slower, p))
            else:
                g = torch.addcmul(g, p, _spread(self.weight_decay, p))
            m.lerp_(g, 1 - _BETAS[0])
            v.mul_(_BETAS[1]).addcmul_(g, g, value=1 - _BETAS[1])
            p.addcmul_(m / (v.sqrt() / root).add_(_EPS), _spread(rate, p), value=-slower)


def _spread(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
