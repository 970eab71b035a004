r"""K_embed: from node features and trajectories to the first hidden state, :math:`K(f^{in} \oplus t)` (Eq. 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from rfp.nn.replicated import (
    each_affine,
    input_dropout,
    padded_columns,
    rows_come_first,
    shared_affine,
    shared_dropout,
    spread_columns,
)
from rfp.nn.trajectory_products import TrajectoryProducts


@dataclass(frozen=True)
class DrawnShape:
    """The size of a random encoding at a node.

    Args:
        num_states: T = O (P + 1), operators times steps.
        num_channels: k.
        num_trajectories: B.
    """

    num_states: int
    num_channels: int
    num_trajectories: int = 1

    @property
    def width(self) -> int:
        """C = T k, of one trajectory."""
        return self.num_states * self.num_channels


@dataclass(frozen=True)
class ProductOptions:
    """Of :class:`~rfp.nn.TrajectoryProducts` inside a model; see there.

    Args:
        num_products: m.
        channel_weights: Whether to learn α.
        norm: Over nodes or pairs.
        act: Activation.
        num_layers: Linear maps of the perceptron.
    """

    num_products: int = 64
    channel_weights: bool = False
    norm: str = "batch"
    act: str = "relu"
    num_layers: int = 2

    def build(self, drawn: DrawnShape, out_channels: int, *, joined: bool) -> TrajectoryProducts:
        """For one random encoding; the channels of joined trajectories are so many more samples."""
        channels = drawn.num_channels * (drawn.num_trajectories if joined else 1)
        return TrajectoryProducts(
            channels,
            drawn.num_states,
            out_channels,
            num_products=self.num_products,
            channel_weights=self.channel_weights,
            norm=self.norm,
            act=self.act,
            num_layers=self.num_layers,
        )


@dataclass(frozen=True)
class EmbeddingOptions:
    """What a K_embed is told about its inputs and its output.

    Args:
        shared_channels: Width of what all trajectories share: node features and unchanging encodings.
        drawn: Width of each random encoding.
        out_channels: d.
        joined: Whether the trajectories of a node are laid side by side.
        num_trajectories: B, the largest over the encodings; the others are repeated.
        dropout: Probability, on all inputs of linear maps.
        products: Options of the products, where there are any.
    """

    shared_channels: int
    drawn: tuple[DrawnShape, ...]
    out_channels: int
    joined: bool = True
    num_trajectories: int = 1
    dropout: float = 0.0
    products: ProductOptions = ProductOptions()


class LinearEmbedding(nn.Module):
    r"""One linear map of everything a node has, shared by the trajectories: :math:`W (f^{in} \oplus t_b) + b`.

    Node features are multiplied once and added to each trajectory, never copied. In a replicated model
    (:mod:`rfp.nn.replicated`) what the replicas share is multiplied with the weights of all of them at once.

    Shapes:
        See :meth:`forward`; ``weight`` is ``[d, shared_channels + sum of the drawn widths]``, those B times if the
        trajectories are joined.

    Example:
        >>> embed = LinearEmbedding(EmbeddingOptions(2, (DrawnShape(3, 2, 3),), 8, joined=False, num_trajectories=3))
        >>> embed([torch.randn(5, 2)], [torch.randn(3, 5, 6)]).shape
        torch.Size([3, 5, 8])
    """

    # Read with a leading dimension of replicas (:func:`rfp.nn.replicated.replicate`).
    stacked_parameters = ("weight", "bias")

    def __init__(self, options: EmbeddingOptions) -> None:
        super().__init__()
        self.options = options
        drawn = sum(one.width * (one.num_trajectories if options.joined else 1) for one in options.drawn)
        self.in_features = options.shared_channels + drawn
        linear = nn.Linear(self.in_features, options.out_channels)
        self.weight, self.bias = linear.weight, linear.bias
        # Columns of the weight for what is shared and for each random encoding; more than theirs after `align`.
        times = [one.num_trajectories if options.joined else 1 for one in options.drawn]
        widths = [one.width * number for one, number in zip(options.drawn, times, strict=True)]
        self.columns = [options.shared_channels, *widths]
        self.aligned = False

    def align(self, multiple: int) -> None:
        """Pad the columns of each part with zeros to a multiple, as fast matrix products want it; results stay.

        Inputs are padded as they come in. Those that all replicas (or all of a seed) share are then laid side by side
        and multiplied at once.
        """
        weight, self.columns = spread_columns(self.weight.detach(), self.columns, multiple)
        self.weight, self.aligned = nn.Parameter(weight), True

    def forward(self, shared: Sequence[Tensor], drawn: Sequence[Tensor], scale: Tensor | None = None) -> Tensor:
        """The first hidden state, before σ.

        Args:
            shared: ``[n, c]`` each.
            drawn: ``[B, n, C]`` each, or ``[R, B, n, C]`` where R replicas (or groups of them: ``[S, B, n, C]``) have
                trajectories of their own.
            scale: ``[n, 1]``, multiplies the products of a node, where there are any.

        Returns:
            ``[n, d]`` if the trajectories are joined, else ``[B, n, d]``; with a leading R in a replicated model.
        """
        bias, joined = self.bias, self.options.joined
        x = self._dropped(torch.cat(list(shared), dim=-1)) if shared else None
        own: list[Tensor] = []
        for t in drawn:
            t = t.to(self.weight.dtype)
            each = t.dim() == 4  # a learned operator makes a trajectory for each replica
            if joined:
                t = t.transpose(-3, -2).flatten(-2)  # [B, n, C] -> [n, B C]
            own.append(self._dropped(t, each))
        if self.aligned:
            x = None if x is None else padded_columns(x, self.columns[0])
            own = [padded_columns(t, width) for t, width in zip(own, self.columns[1:], strict=True)]
        if (everything := self._side_by_side(x, own)) is not None:
            return (shared_affine if everything.dim() == 2 else each_affine)(everything, self.weight, bias)
        of_shared, *of_drawn = torch.split(self.weight, self.columns, dim=-1) if own else [self.weight]
        h: Tensor | None = None
        if x is not None:
            # With replicas of several seeds dropout makes an input for each seed.
            h = (shared_affine if x.dim() == 2 else each_affine)(x, of_shared, bias)
            h = h if joined else h.unsqueeze(-3)
        for t, columns in zip(own, of_drawn, strict=True):
            affine = each_affine if t.dim() == (3 if joined else 4) else shared_affine
            if joined or not rows_come_first(t):
                part = affine(t, columns)
            else:  # nodes before trajectories, as the layers that follow read them: copied here, where it is small
                part = affine(t.transpose(-3, -2).contiguous(), columns).transpose(-3, -2)
            h = part if h is None else h + part
        assert h is not None  # the config refuses a model without any input
        if x is None:
            h = h + (bias if bias.dim() == 1 else bias.view(len(bias), *[1] * (h.dim() - 2), -1))
        b = self.options.num_trajectories
        return h if joined or h.size(-3) == b else h.expand(*h.shape[:-3], b, -1, -1)

    def _side_by_side(self, x: Tensor | None, own: list[Tensor]) -> Tensor | None:
        """All inputs as one, ``[n, c]`` or ``[S, n, c]``; ``None`` if they are to be multiplied one by one.

        Parts of the weight have gradients of their own, which would have to be brought together: of a wide map in many
        replicas that is more memory to move than the inputs.
        """
        if not self.aligned or not self.options.joined or not own:
            return None
        parts = own if x is None else [x, *own]
        groups = {len(part) for part in parts if part.dim() == 3}
        if not groups:
            return torch.cat(parts, dim=-1)
        # What differs from replica to replica leaves no input that they share: it would be copied for each.
        if len(groups) > 1 or (max(groups) == len(self.weight) and any(part.dim() == 2 for part in parts)):
            return None
        return torch.cat([part.expand(max(groups), *part.shape[-2:]) for part in parts], dim=-1)

    def _dropped(self, x: Tensor, each: bool = False) -> Tensor:
        p = self.options.dropout
        return shared_dropout(x, p, self.training) if each else input_dropout(x, p, self.training)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.options.out_channels}"


class ProductEmbedding(nn.Module):
    r"""Products of the trajectories (:class:`~rfp.nn.TrajectoryProducts`) instead of the trajectories themselves.

    .. math:: W f^{in} + b + \mathrm{MLP}(\mathrm{norm}(y(t_b)))

    Channels of joined trajectories are so many samples of one product. What the trajectories share has its linear map
    as in :class:`LinearEmbedding`.

    Args:
        options: Widths of inputs and output.
        beside_linear: Whether the linear map reads the trajectories too.

    Shapes:
        See :meth:`LinearEmbedding.forward`.

    Example:
        >>> embed = ProductEmbedding(EmbeddingOptions(2, (DrawnShape(3, 2, 3),), 8, joined=False, num_trajectories=3))
        >>> embed([torch.randn(5, 2)], [torch.randn(3, 5, 6)]).shape
        torch.Size([3, 5, 8])
    """

    def __init__(self, options: EmbeddingOptions, *, beside_linear: bool = False) -> None:
        super().__init__()
        self.options = options
        linear = options if beside_linear else replace(options, drawn=())
        self.linear = LinearEmbedding(linear) if beside_linear or options.shared_channels else None
        self.beside_linear = beside_linear
        self.products = nn.ModuleList(
            options.products.build(one, options.out_channels, joined=options.joined) for one in options.drawn
        )

    def forward(self, shared: Sequence[Tensor], drawn: Sequence[Tensor], scale: Tensor | None = None) -> Tensor:
        """The first hidden state, before σ: as :meth:`LinearEmbedding.forward`."""
        of_drawn = []
        for products, t in zip(self._products, drawn, strict=True):
            each = t.dim() == 4
            t = side_by_side(t, products.num_states) if self.options.joined else t
            of_drawn.append(products(t, scale=scale, each=each))
        return self._sum(shared, drawn if self.beside_linear else (), of_drawn)

    @property
    def by_grams(self) -> bool:
        """Whether nothing but Gram matrices is read of the trajectories."""
        return not self.beside_linear and all(products.by_grams for products in self._products)

    def grams(self, drawn: Sequence[Tensor], scale: Tensor | None = None) -> list[Tensor]:
        """Gram matrices of trajectories ``[B, n, C]``: ``[B, n, row_stride(T)]``, ``[1, n, …]`` of joined ones."""
        rows = []
        for products, t in zip(self._products, drawn, strict=True):
            t = side_by_side(t, products.num_states)[None] if self.options.joined else t
            rows.append(products.grams(t, scale=scale))
        return rows

    def of_grams(self, shared: Sequence[Tensor], grams: Sequence[Tensor]) -> Tensor:
        """What :meth:`forward` makes of the trajectories whose :meth:`grams` these are."""
        joined = self.options.joined
        of_drawn = [
            products.of_grams(rows.squeeze(0) if joined else rows)
            for products, rows in zip(self._products, grams, strict=True)
        ]
        return self._sum(shared, (), of_drawn)

    @property
    def _products(self) -> list[TrajectoryProducts]:
        return cast("list[TrajectoryProducts]", self.products)

    def _sum(self, shared: Sequence[Tensor], drawn: Sequence[Tensor], of_drawn: Sequence[Tensor]) -> Tensor:
        """The linear map of what it reads and the products of every random encoding."""
        h: Tensor | None = None if self.linear is None else self.linear(shared, drawn)
        for part in of_drawn:
            h = part if h is None else h + part
        assert h is not None  # the config refuses a model without any input
        joined, b = self.options.joined, self.options.num_trajectories
        return h if joined or h.size(-3) == b else h.expand(*h.shape[:-3], b, -1, -1)


def side_by_side(t: Tensor, num_states: int) -> Tensor:  # [..., B, n, T k] -> [..., n, T B k]
    """The trajectories of a node as one with B times as many channels."""
    if t.size(-3) == 1:
        return t.squeeze(-3)
    return t.view(*t.shape[:-1], num_states, -1).movedim(-4, -2).flatten(-3)


# The choices of ``ModelConfig.embed``: one linear map (the paper's), products in its place, or both.
EMBEDDINGS: dict[str, Callable[[EmbeddingOptions], nn.Module]] = {
    "linear": LinearEmbedding,
    "products": ProductEmbedding,
    "both": partial(ProductEmbedding, beside_linear=True),
}
