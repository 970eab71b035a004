"""Adam with a learning rate and a weight decay for each replica, which keeps the weights of the best epoch of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from rfp.available import triton_available

_BETAS = (0.9, 0.999)
_EPS = 1e-8


class ReplicaAdam:
    r"""The update of ``torch.optim.Adam`` (or ``AdamW``), replica by replica, in one pass over parameters ``[R, ...]``.

    .. math:: g \leftarrow g + \lambda_r p, \quad m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad
              v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
              p \leftarrow p - \eta_r \hat m / (\sqrt{\hat v} + \epsilon)

    All that changes from step to step is in tensors, so a step may be recorded as a CUDA graph. On a GPU one kernel for
    each parameter can do all of it, the keeping too (:mod:`rfp.train.triton_replica_adam`).

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
        self.kept: list[Tensor] = []  # of each parameter, once keep() was called

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def keep(self, which: Tensor | None = None) -> None:
        """Keep the weights as they are of some replicas, ``[R]`` bool, in place of those kept before; or of all."""
        if which is None:
            self.kept = [p.detach().clone() for p in self.parameters]
            return
        for old, p in zip(self.kept, self.parameters, strict=True):
            torch.where(_spread(which, p), p.detach(), old, out=old)

    @torch.no_grad()
    def restore(self) -> None:
        """Make the kept weights those of the model."""
        for old, p in zip(self.kept, self.parameters, strict=True):
            p.copy_(old)

    def end(self) -> None:
        """Let go of moments, gradients and kept weights: three times the memory of the weights, or four."""
        self.zero_grad()
        self.first, self.second, self.kept = [], [], []

    @torch.no_grad()
    def step(self, better: Tensor | None = None, *, by_kernel: bool = False) -> None:
        """One update, with the learning rates multiplied by :attr:`factor` (a schedule's).

        Args:
            better: Replicas whose weights are kept before they change, ``[R]`` bool: as :meth:`keep`, but where a
                kernel updates it has them at hand, and nothing is read or written twice.
            by_kernel: Whether a kernel updates: :func:`~rfp.train.adam_agrees.kernel_updates` says where one can.
        """
        self.steps += 1
        corrections = [1 - beta**self.steps for beta in _BETAS]
        rate = self.lr * (self.factor / corrections[0])  # of the uncorrected first moment
        root = corrections[1].sqrt()
        if by_kernel:
            self._step_by_kernel(rate, root, better)
            return
        if better is not None:
            self.keep(better)
        for p, m, v in zip(self.parameters, self.first, self.second, strict=True):
            if p.grad is None:
                continue
            g, slower = p.grad, self.slower.get(p, 1.0)
            # One place beside the parameter for all that comes between: wide inputs of many replicas are gigabytes.
            if self.decoupled:
                p.mul_(1 - _spread(self.lr * self.factor * self.weight_decay * slower, p))
                change = torch.empty_like(p)
            else:
                g = change = torch.addcmul(g, p, _spread(self.weight_decay, p))
            m.lerp_(g, 1 - _BETAS[0])
            v.mul_(_BETAS[1]).addcmul_(g, g, value=1 - _BETAS[1])
            torch.sqrt(v, out=change).div_(root).add_(_EPS)
            torch.div(m, change, out=change)
            p.addcmul_(change, _spread(rate, p), value=-slower)

    def _step_by_kernel(self, rate: Tensor, root: Tensor, better: Tensor | None) -> None:
        from rfp.train.triton_replica_adam import launch_replica_adam

        decay = self.weight_decay
        if self.decoupled:
            decay = self.lr * self.factor * decay
        for number, (p, m, v) in enumerate(zip(self.parameters, self.first, self.second, strict=True)):
            if p.grad is None:  # nor has it changed since it was kept
                continue
            launch_replica_adam(
                p,
                (m, v),
                None if better is None else (self.kept[number], better),
                rate=rate,
                decay=decay,
                root=root,
                slower=self.slower.get(p, 1.0),
                betas=_BETAS,
                eps=_EPS,
                decoupled=self.decoupled,
            )


def kernel_takes(parameters: Sequence[Tensor]) -> bool:
    """Whether there is a kernel for parameters and gradients like these: float32 on a GPU, without gaps."""
    return triton_available() and all(
        p.is_cuda
        and p.dtype == torch.float32
        and p.is_contiguous()
        and (p.grad is None or (p.grad.is_contiguous() and p.grad.dtype == p.dtype))
        for p in parameters
    )


def _spread(values: Tensor, like: Tensor) -> Tensor:
    return values.view(-1, *[1] * (like.dim() - 1))
