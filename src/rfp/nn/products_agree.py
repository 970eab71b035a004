"""Kernels of products are looked at before they count (:mod:`rfp.kernel_looks`): made-up states, in both directions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rfp.kernel_looks import KernelLooks
from rfp.nn.multiplied_states import gram_products, weighted_products

# What may be lost, as a part of the sums of absolute values: float32 loses some 1e-7, TF32 alone 1e-5.
LOST = 4e-6
# More than a tile of rows.
_ROWS = 70
_looks = KernelLooks("the kernels of products are", "the plain form is used")


def products_agree(states: Tensor, first: Tensor, alpha: Tensor | None, *, of_pairs: bool) -> bool:
    """Whether kernels on this device compute what the plain form does, for trajectories of this form.

    See :meth:`rfp.kernel_looks.KernelLooks.agree`.

    Args:
        states: ``[n, T, k]`` or ``[L, n, T, k]``.
        first: W₁, ``[m, T]`` or ``[R, m, T]``.
        alpha: α ``[k, m]``; ``None`` without channel weights.
        of_pairs: Whether pairs are multiplied, not nodes.
    """
    weighted = alpha is not None
    form = (states.dim(), *states.shape[-2:], *first.shape[:-1], weighted, of_pairs)
    return _looks.agree(states.device, form, lambda: _disagreeing(states, first.shape, weighted, of_pairs))


@torch.inference_mode(False)
@torch.enable_grad()
def _disagreeing(states: Tensor, weight_shape: torch.Size, weighted: bool, of_pairs: bool) -> list[str]:
    generator = torch.Generator(states.device).manual_seed(0)

    def made_up(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=states.device)

    num_states, num_channels = states.shape[-2:]
    sample = made_up(*([2] if states.dim() == 4 else []), _ROWS, num_states, num_channels)
    weights = [made_up(*weight_shape), made_up(*weight_shape)]
    if weighted:
        weights.append(made_up(num_channels, weight_shape[-2]))
    nodes = torch.arange(_ROWS, device=states.device)
    pairs = torch.stack([nodes, nodes.flip(0)]) if of_pairs else None
    multiply: Callable[..., Tensor] = weighted_products if weighted else gram_products
    found = _with_gradients(multiply, sample, weights, pairs)
    right = _with_gradients(_defined, sample.double(), [w.double() for w in weights], pairs)
    sizes = _with_gradients(_defined, sample.double().abs(), [w.double().abs() for w in weights], pairs)
    lost = [(one - other).norm() / size.norm() for one, other, size in zip(found, right, sizes, strict=True)]
    # What is not a number does not agree.
    return [] if bool((torch.stack(lost) <= LOST).all()) else ["made-up states"]


def _with_gradients(
    multiply: Callable[..., Tensor], states: Tensor, weights: list[Tensor], pairs: Tensor | None
) -> list[Tensor]:
    """The products, and the gradients of their sum, each times its own number between 1 and 2."""
    learned = [weight.requires_grad_() for weight in weights]
    y = multiply(states, *learned, pairs)
    given = torch.linspace(1, 2, y.numel(), dtype=y.dtype, device=y.device).view_as(y)
    return [y.detach(), *torch.autograd.grad((y * given).sum(), learned)]


def _defined(states: Tensor, first: Tensor, second: Tensor, *others: Tensor | None) -> Tensor:
    """The definition, with ``alpha`` if there is one and ``pairs``, which come last."""
    *alpha, pairs = others
    u, v = (states, states) if pairs is None else (states.index_select(-3, nodes) for nodes in pairs)
    if first.dim() == 3:  # replicas lead
        u, v = u[None], v[None]
        first, second = (w.view(len(w), *[1] * (states.dim() - 2), *w.shape[-2:]) for w in (first, second))
    y = (u.mT @ first.mT) * (v.mT @ second.mT)  # [(R), ..., rows, k, m]
    return (y * alpha[0] if alpha and alpha[0] is not None else y).mean(-2)
