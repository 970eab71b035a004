r"""One model, many replicas: R copies of all weights that train side by side as one tensor program.

The graph and its features are the same for all replicas; they may differ in their loss (the split), learning rate and
weight decay. What is drawn at random (encodings, dropout masks) is shared by the replicas of a seed: with S seeds the
replicas come in S groups of R / S, seed by seed, and what is drawn has a leading dimension S. Every tensor of the
network gets a leading dimension R, and the replicas never meet: each computes what it would compute alone, up
to the rounding of sums taken in another order.

``torch.func.stack_module_state`` with ``vmap`` was tried in its place. It gives the same numbers for MLP, GraphConv and
PyG's GCN, but it does not fit: the sparse product of a kept graph has a derivative of its own, for which ``vmap`` wants
a second set of rules; its randomness is one mask for all or one for each, not one for each seed; and what all replicas
share would be multiplied replica by replica instead of once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, layer_norm, linear, pad
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.dense.linear import Linear as PyGLinear

from rfp.errors import ArgumentError
from rfp.hashing import GOLDEN, mix, signed


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
        x: ``[R, ..., c]``, or ``[G, ..., c]`` with an input for each of G equal groups of successive replicas.
        weight: ``[R, d, c]``.
        bias: ``[R, d]``.
    """
    replicas, width, _ = weight.shape
    if x.dim() < 3 or replicas % len(x):
        raise ArgumentError(f"expected a leading dimension of {replicas} replicas, got shape {list(x.shape)}")
    groups, members = len(x), replicas // len(x)
    joined = weight.reshape(groups, members * width, -1)
    shift = None if bias is None else bias.reshape(groups, 1, -1)
    if not rows_come_first(weight):
        out = _grouped_product(x.flatten(1, -2), joined, shift)
        if members > 1:
            out = out.view(groups, -1, members, width).transpose(1, 2)
        return out.reshape(replicas, *x.shape[1:-1], width)
    order = [0, *as_they_lie(x, range(1, x.dim() - 1)), x.dim() - 1]
    rows = x.permute(order)
    product: Callable[..., Tensor] = _GroupedProduct.apply
    out = product(rows.flatten(1, -2), joined, shift).view(groups, -1, members, width).transpose(1, 2)
    return put_back(out.reshape(replicas, *rows.shape[1:-1], width), order)


_ROWS_FIRST_ON = ("cuda",)


def rows_come_first(x: Tensor) -> bool:
    """Whether the rows of all replicas (nodes, or trajectories of nodes) are laid side by side where this tensor is.

    Sparse products read them so, and then nothing is copied between two of them. On a CPU replicas lie one by one.
    """
    return x.device.type in _ROWS_FIRST_ON


def as_they_lie(x: Tensor, dims: Iterable[int]) -> list[int]:
    """Dimensions in the order in which they lie in memory, the one of the longest stride first."""
    strides = x.stride()
    return sorted(dims, key=lambda dim: -strides[dim])


def put_back(x: Tensor, order: Sequence[int]) -> Tensor:
    """The tensor whose ``permute(order)`` this is."""
    return x.permute([order.index(dim) for dim in range(x.dim())])


def _grouped_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    r""":math:`x_g W_g^\top + b_g`: ``[G, n, c]``, ``[G, m, c]`` and ``[G, 1, m]`` to ``[G, n, m]``."""
    return torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias, x, weight.mT)


class _GroupedProduct(torch.autograd.Function):
    """:func:`_grouped_product` whose results lie rows first, ``[n, G, m]``, and gradients of weights as the weights do.

    torch's own gradient of a batched product with a transposed matrix is transposed too, and is copied to lie as the
    optimiser wants it: the slowest of all passes over the gradient of a wide map.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = _rows_first(x, weight.size(1))
        return torch.bmm(x, weight.mT, out=out) if bias is None else torch.baddbmm(bias, x, weight.mT, out=out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        # What is written into a given place cannot be recorded, for a derivative of the gradient.
        place = None if torch.is_grad_enabled() else _rows_first(grad, weight.size(2))
        return (
            torch.bmm(grad, weight, out=place) if of_x else None,
            torch.bmm(grad.mT, x) if of_weight else None,
            grad.sum(1, keepdim=True) if of_bias else None,
        )


def _rows_first(like: Tensor, width: int) -> Tensor:
    """An empty ``[G, n, width]``, in memory ``[n, G, width]``."""
    groups, rows, _ = like.shape
    return like.new_empty(rows, groups, width).transpose(0, 1)


def padded_columns(x: Tensor, columns: int) -> Tensor:  # [..., c] -> [..., columns]
    """With zeros after its own columns, as the input of weights with so many."""
    return x if x.size(-1) == columns else pad(x, (0, columns - x.size(-1)))


def spread_columns(weight: Tensor, widths: Sequence[int], multiple: int) -> tuple[Tensor, list[int]]:
    """The parts of a weight, so many columns wide, each with zeros after it up to a multiple: and their new widths.

    With inputs padded alike (:func:`padded_columns`) products stay what they are, and the zeros zero: their gradient is
    the product with the input's zeros.

    Example:
        >>> spread_columns(torch.ones(1, 5), [3, 2], 4)
        (tensor([[1., 1., 1., 0., 1., 1., 0., 0.]]), [4, 4])
    """
    wider = [-(-width // multiple) * multiple for width in widths]
    parts = zip(torch.split(weight, list(widths), dim=-1), wider, strict=True)
    return torch.cat([padded_columns(part, columns) for part, columns in parts], dim=-1), wider


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
        last = x.dim() - 1
        order = [*as_they_lie(x, range(last)), last] if rows_come_first(x) else list(range(x.dim()))
        normalized = put_back(layer_norm(x.permute(order), self.shape, eps=self.eps), order)
        return normalized * self.weight.view(place) + self.bias.view(place)


class DropoutMasks:
    r"""Masks as a pure function of (seed, epoch, place in the network, entry): the same on every device.

    The bits of an epoch are one long row of 16-bit lanes, four to a word :math:`mix(key(seed, epoch) + i G)`; each mask
    takes the next lanes. The rows of several epochs are made at once, as soon as their length is known.

    Args:
        seeds: One for each group of replicas.
        num_epochs: How many there will be.
        device: Where the masks are.
    """

    def __init__(self, seeds: Sequence[int], num_epochs: int, device: torch.device) -> None:
        self.num_seeds = len(seeds)
        roots = [mix(signed(seed + _DROPOUT_STREAM)) for seed in seeds]
        keys = [[mix(signed(root + (epoch + 1) * GOLDEN)) for root in roots] for epoch in range(num_epochs)]
        self._keys = torch.tensor(keys, dtype=torch.int64, device=device)  # [epochs, S]
        self._row: Tensor | None = None  # [S, lanes] of this epoch, once their number is known
        self._block: Tensor | None = None  # [epochs at once, S, lanes]
        self._first = self._epoch = self._used = self._lanes = 0

    def rewind(self) -> None:
        """The masks that follow are those of the epoch from its first on: what is called twice gets the same twice."""
        self._lanes, self._used = max(self._lanes, self._used), 0

    def begin(self, epoch: int) -> None:
        """The masks that follow are those of an epoch."""
        self.rewind()
        self._epoch = epoch
        if not self._lanes:
            return
        block = self._block
        if block is None or block.size(2) < self._lanes or not self._first <= epoch < self._first + len(block):
            words = self._lanes // _LANES
            at_once = _WORDS_AT_ONCE_ON_A_CPU if self._keys.device.type == "cpu" else _WORDS_AT_ONCE
            ahead = max(1, at_once // (words * self.num_seeds))
            self._first = epoch
            self._block = block = _lanes_of(self._keys[epoch : epoch + ahead], 0, words)
        row = block[epoch - self._first]
        # One place in memory for all epochs, which a recorded step needs.
        self._row = row.clone() if self._row is None or self._row.shape != row.shape else self._row.copy_(row)

    def end(self) -> None:
        """Let go of what was made ahead."""
        self._row = self._block = None

    def keep(self, shape: Sequence[int], p: float) -> Tensor:
        """Which entries are kept, ``[S, *shape]``, each with probability 1 - p."""
        count = torch.Size(shape).numel()
        first, self._used = self._used, self._used + -(-count // _LANES) * _LANES
        if self._row is not None and self._used <= self._row.size(1):
            lanes = self._row[:, first : self._used]
        else:  # in the first epoch
            lanes = _lanes_of(self._keys[self._epoch], first // _LANES, (self._used - first) // _LANES)
        return (lanes[:, :count] >= round(p * 2**16) - 2**15).view(self.num_seeds, *shape)


# Lanes of 16 bits in a word.
_LANES = 4
# Words made at once: 128 MB, and several times as much while they are mixed. On a CPU 8 MB, which stay in its cache:
# half the time.
_WORDS_AT_ONCE, _WORDS_AT_ONCE_ON_A_CPU = 1 << 24, 1 << 20
# Separates the masks from the features that the same seed draws.
_DROPOUT_STREAM = signed(0x2545F4914F6CDD1D)


def _lanes_of(keys: Tensor, first: int, words: int) -> Tensor:
    """Lanes of the words from ``first`` on, ``[*keys.shape, 4 words]`` int16."""
    numbers = torch.arange(first + 1, first + words + 1, device=keys.device) * GOLDEN
    return mix(keys[..., None] + numbers).view(torch.int16)


_MASKS: ContextVar[DropoutMasks | None] = ContextVar("dropout masks", default=None)


@contextmanager
def dropout_masks(masks: DropoutMasks) -> Iterator[None]:
    """Within the block, dropout of replicated models takes its masks from here instead of torch's generator."""
    before = _MASKS.set(masks)
    try:
        yield
    finally:
        _MASKS.reset(before)


class SharedDropout(nn.Module):
    """Dropout with one mask for all replicas of a seed: the one that each of them would draw alone."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return shared_dropout(x, self.p, self.training)


def shared_dropout(x: Tensor, p: float, training: bool) -> Tensor:  # [R, ...] -> [R, ...]
    """Dropout of what each replica (or each seed) has for itself, with one mask for all replicas of a seed."""
    if not training or p == 0:
        return x
    masks = _MASKS.get()
    if masks is None:
        kept = torch.empty(x.shape[1:], dtype=x.dtype, device=x.device).bernoulli_(1 - p)
        return x * kept.div_(1 - p)
    scale = masks.keep(x.shape[1:], p).to(x.dtype).div_(1 - p)  # [S, ...]
    if masks.num_seeds == 1:
        return x * scale
    grouped = x.view(masks.num_seeds, -1, *x.shape[1:])
    return (grouped * scale[:, None]).flatten(0, 1)


def input_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout of what all replicas share, ``[...]``; with several seeds ``[S, ...]`` comes out, by their own masks."""
    masks = _MASKS.get()
    if masks is None or not training or p == 0:
        return dropout(x, p, training)
    scale = masks.keep(x.shape, p).to(x.dtype).div_(1 - p)
    return x * (scale[0] if masks.num_seeds == 1 else scale)


def replicate(module: nn.Module, replicas: int, leading: int = 0) -> nn.Module:
    """Turn every weight of a module into R equal ones, in place.

    Args:
        module: Made of linear maps, layer normalisations, dropout and convolutions that broadcast over leading
            dimensions.
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
                f"{type(module).__name__} cannot be trained in replicas (its {name} is not of a linear map); use norm="
                '"layer" or "none" and backbone="mlp", "gcn", "gcnii", "graph_conv" or "gps", or training.engine='
                '"lightning"'
            )
        spread = _repeat(value, replicas).view(replicas, *[1] * (leading + 1), -1)
        module.register_parameter(name, nn.Parameter(spread))


def _repeat(value: Tensor, replicas: int) -> Tensor:
    return value.detach().expand(replicas, *value.shape).clone()


def set_weights(module: nn.Module, sources: Sequence[nn.Module]) -> None:
    """Give each of S equal groups of successive replicas the weights of one module that is not replicated."""
    states = [dict(source.named_parameters()) for source in sources]
    with torch.no_grad():
        for name, p in module.named_parameters():
            for number, group in enumerate(p.view(len(sources), -1, *p.shape[1:])):
                group.copy_(states[number][name].view_as(group[0]))
