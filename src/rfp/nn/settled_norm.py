"""Batch normalisation without the noise of batches: statistics that settle in the first of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rfp.nn.counted_draws import in_backward

# Batches over which the statistics are averaged.
SETTLED_AFTER = 100


class SettledNorm(nn.Module):
    r"""A shift and a scale of every feature by averages over the first 100 batches of training, then fixed.

    .. math:: y = \gamma \frac{x - \mu_t}{\sqrt{\sigma_t^2 + \epsilon}} + \beta, \qquad
              \mu_t = \frac{1}{\min(t, 100)} \sum_{s \le \min(t, 100)} \mathrm{mean}(x_s),
              \quad \sigma_t^2 \text{ likewise of the variances}

    Training and evaluation compute the same function, so that what is exact can be learned exactly: under batch
    normalisation every batch has statistics of its own, which no later layer knows. No gradient goes through them.

    Args:
        channels: d.
        eps: Added to the variance.
    """

    weight: nn.Parameter
    bias: nn.Parameter
    mean: Tensor
    var: Tensor
    batches: Tensor

    def __init__(self, channels: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("var", torch.ones(channels))
        self.register_buffer("batches", torch.zeros(()))

    def reset_parameters(self) -> None:
        """As at the beginning."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.mean.zero_()
        self.var.fill_(1)
        self.batches.zero_()

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:  # [..., d] -> [..., d]
        """Normalise over all leading dimensions; ``real`` ``[n, 1]`` is 0 at rows that are padding."""
        # Within torch.utils.checkpoint a batch comes again in the backward pass; it is learned from once.
        if self.training and x.numel() and not in_backward():
            self._learn(x.detach(), real)
        return (x - self.mean) * (self.var + self.eps).rsqrt() * self.weight + self.bias

    def _learn(self, x: Tensor, real: Tensor | None) -> None:
        """Nothing is looked at on the host: a step that is recorded as a CUDA graph goes on learning."""
        share = torch.ones_like(x[..., :1]) if real is None else real.to(x.dtype).expand(*x.shape[:-1], 1)
        rows, share = x.reshape(-1, x.size(-1)), share.reshape(-1, 1)
        share = share / share.sum().clamp_min(1)
        mean = (share * rows).sum(0)
        var = (share * (rows - mean).square()).sum(0)
        weight = torch.where(self.batches < SETTLED_AFTER, 1 / (self.batches + 1), 0.0)
        self.mean.add_(weight * (mean - self.mean))
        self.var.add_(weight * (var - self.var))
        self.batches.add_(1)
