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
        used = [i for i, p in enumerate(self.parameters) if p.grad is not None]
        ps = [self.parameters[i] for i in used]
        gs = [p.grad for p in ps]
        ms, vs = [self.first[i] for i in used], [self.second[i] for i in used]
        lr = [_spread(self.lr * factor, p) for p in ps]
        decay = [_spread(self.weight_decay, p) for p in ps]
        if self.decoupled:
            torch._foreach_mul_(ps, torch._foreach_neg(torch._foreach_sub(torch._foreach_mul(lr, decay), 1.0)))
        else:
            gs = torch._foreach_add(gs, torch._foreach_mul(ps, decay))
        torch._foreach_lerp_(ms, gs, 1 - _BETAS[0])
        torch._foreach_mul_(vs, _BETAS[1])
        torch._foreach_addcmul_(vs, gs, gs, 1 - _BETAS[1])
        scale = torch._foreach_sqrt(vs)
        torch._foreach_div_(scale, (1 - _BETAS[1] ** self.steps) ** 0.5)
        torch._foreach_add_(scale, _EPS)
        update = torch._foreach_div(ms, scale)
        torch._foreach_mul_(update, lr)
        torch._foreach_add_(ps, update, alpha=-1 / (1 - _BETAS[0] ** self.steps))


def _spread(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
