r"""One model, many replicas: R copies of all weights that train side by side as one tensor program.

The graph, the features and everything drawn at random (encodings, dropout masks) are the same for all replicas; they
may differ in their loss (the split), learning rate and weight decay. Every tensor of the network gets a leading
dimension R, and the replicas never meet: each computes what it would compute alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from rfp.errors import ArgumentError


def shared_affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r""":math:`x W^\top + b` of an input that all replicas share: ``[..., c] -> [..., d]``, or ``[R, ..., d]``.

    All replicas are one matrix product, whose result is node-first in memory as the sparse product wants it.

    Args:
        x: ``[..., c]``.
        weight: ``[d, c]``, or ``[R, d, c]`` of a replicated model.
        bias: ``[d]``, or ``[R, d]``.
    """
    if weight.dim() == 2:
        return linear(x, weight, bias)
    replicas, width, _ = weight.shape
    out = linear(x, weight.flatten(0, 1), None if bias is None else bias.flatten())
    return out.view(*x.shape[:-1], replicas, width).movedim(-2, 0)


def each_affine(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    r""":math:`x_r W_r^\top + b_r` for each replica: ``[R, ..., c] -> [R, ..., d]``.

    Args:
        x: ``[R, ..., c]``.
        weight: ``[R, d, c]``.
        bias: ``[R, d]``.
    """
    if x.dim() < 3 or len(x) != len(weight):
        raise ArgumentError(f"expected a leading dimension of {len(weight)} replicas, got shape {list(x.shape)}")
    flat = x.flatten(1, -2)
    out = torch.bmm(flat, weight.mT) if bias is None else torch.baddbmm(bias[:, None], flat, weight.mT)
    return out.view(*x.shape[:-1], -1)


class ReplicaLinear(nn.Module):
    """R linear maps, ``[R, ..., c] -> [R, ..., d]``, each replica by its own; ``in_features`` as of ``nn.Linear``."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)  # [R, d, c]
        self.bias = None if bias is None else nn.Parameter(bias)  # [R, d]
        self.in_features, self.out_features = weight.size(2), weight.size(1)

    def forward(self, x: Tensor) -> Tensor:
        return each_affine(x, self.weight, self.bias)


class ReplicaLayerNorm(nn.Module):
    """R layer normalisations, ``[R, ..., d]``."""

    def __init__(self, norm: nn.LayerNorm, replicas: int) -> None:
        super().__init__()
        self.eps, self.shape = norm.eps, norm.normalized_shape
        self.weight = nn.Parameter(_repeat(norm.weight, replicas))  # [R, d]
        self.bias = nn.Parameter(_repeat(norm.bias, replicas))

    def forward(self, x: Tensor) -> Tensor:
        ones = [1] * (x.dim() - 2)
        place = (self.weight.size(0), *ones, self.weight.size(1))
        return layer_norm(x, self.shape, eps=self.eps) * self.weight.view(place) + self.bias.view(place)


class SharedDropout(nn.Module):
    """Dropout with one mask for all replicas: the one that each of them would draw alone."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return shared_dropout(x, self.p, self.training)


def shared_dropout(x: Tensor, p: float, training: bool) -> Tensor:  # [R, ...] -> [R, ...]
    """Dropout of what each replica has for itself, with one mask for all of them."""
    if not training or p == 0:
        return x
    kept = torch.empty(x.shape[1:], dtype=x.dtype, device=x.device).bernoulli_(1 - p)
    return x * kept.div_(1 - p)


def replicate(module: nn.Module, replicas: int, leading: int = 0) -> nn.Module:
    """Turn every weight of a module into R equal ones, in place.

    Args:
        module: Of linear maps, layer normalisations, dropout and convolutions that broadcast over leading dimensions.
        replicas: R.
        leading: Number of dimensions between R and the nodes (1 with trajectories).

    Raises:
        ArgumentError: A part has weights of another kind (batch normalisation mixes rows in its statistics).
    """
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear | PyGLinear):
            bias = None if child.bias is None else _repeat(child.bias, replicas)
            setattr(module, name, ReplicaLinear(_repeat(child.weight, replicas), bias))
        elif isinstance(child, nn.LayerNorm):
            setattr(module, name, ReplicaLayerNorm(child, replicas))
        elif isinstance(child, nn.Dropout):
            setattr(module, name, SharedDropout(child.p))
        else:
            _replicate_own(child, replicas, leading)
            replicate(child, replicas, leading)
    return module


def _replicate_own(module: nn.Module, replicas: int, leading: int) -> None:
    """The parameters a module holds itself: the bias of a convolution, which is added to ``[R, ..., n, d]``.

    A module that reads its parameters with a leading R itself names them in ``stacked_parameters``.
    """
    stacked = getattr(module, "stacked_parameters", ())
    for name, value in list(module.named_parameters(recurse=False)):
        if name in stacked:
            module.register_parameter(name, nn.Parameter(_repeat(value, replicas)))
            continue
        if not (isinstance(module, MessagePassing) and name == "bias"):
            raise ArgumentError(
                f"{type(module).__name__} cannot be trained in replicas (its {name} is not of a linear map); use "
                'norm="layer" or "none" and backbone="mlp", "gcn" or "graph_conv", or engine="lightning"'
            )
        spread = _repeat(value, replicas).view(replicas, *[1] * (leading + 1), -1)
        module.register_parameter(name, nn.Parameter(spread))


def _repeat(value: Tensor, replicas: int) -> Tensor:
    return value.detach().expand(replicas, *value.shape).clone()
