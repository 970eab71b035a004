"""The kernel of Adam is looked at before it counts (:mod:`rfp.kernel_looks`): made-up replicas, both ways."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rfp.kernel_looks import KernelLooks
from rfp.train.optimizer import ReplicaAdam, kernel_takes

# What may be lost by a few steps, relative to the numbers and to the largest step: each is rounded a few times.
_LOST = 2e-6
# Weights of one replica: a single one; a few; several blocks, as they usually are, and at an odd place.
_SIZES = (1, 7, 2 * 1024 + 16, 1024 + 3)
_STEPS = 3
_looks = KernelLooks("the kernel of Adam is", "the plain form is used")


def kernel_updates(adam: ReplicaAdam) -> bool:
    """Whether the kernel takes these parameters and their gradients, and computes what the plain form does."""
    return kernel_takes(adam.parameters) and adam_agrees(adam.lr.device, decoupled=adam.decoupled)


def adam_agrees(device: torch.device, *, decoupled: bool) -> bool:
    """Whether the kernel of :class:`~rfp.train.optimizer.ReplicaAdam` computes on a device what the plain form does.

    See :meth:`rfp.kernel_looks.KernelLooks.agree`.
    """
    return _looks.agree(device, (decoupled,), lambda: _disagreeing(device, decoupled))


def _disagreeing(device: torch.device, decoupled: bool) -> list[str]:
    found = _updated(device, decoupled, by_kernel=True)
    right = _updated(device, decoupled, by_kernel=False)
    close = [torch.allclose(one, other, rtol=_LOST, atol=_LOST) for one, other in zip(found, right, strict=True)]
    return [] if all(close) else ["made-up replicas"]  # what is not a number does not agree


def _updated(device: torch.device, decoupled: bool, *, by_kernel: bool) -> list[Tensor]:
    """Weights, moments and what is kept after a few steps from the same weights by the same gradients."""
    generator = torch.Generator().manual_seed(0)
    parameters = [nn.Parameter(torch.randn(3, size, generator=generator).to(device)) for size in _SIZES]
    lr, decay = torch.tensor([0.1, 0.01, 0.3], device=device), torch.tensor([0.0, 0.1, 0.01], device=device)
    adam = ReplicaAdam(parameters, lr, decay, decoupled=decoupled, slower={parameters[1]: 0.5})
    adam.keep()
    for step in range(_STEPS):
        for number, p in enumerate(parameters):
            drawn = torch.randn(3, p.size(1), generator=generator).to(device)
            # The last of them does not begin at a multiple of 16 bytes.
            p.grad = torch.cat([drawn.new_zeros(number % 4), drawn.flatten()])[number % 4 :].view_as(p)
        adam.factor.fill_(1 - 0.2 * step)
        better = torch.tensor([step == 0, step == 1, False], device=device) if step < _STEPS - 1 else None
        adam.step(better, by_kernel=by_kernel)
    return [tensor.detach() for tensor in (*parameters, *adam.first, *adam.second, *adam.kept)]
