"""Small parts that keep leading dimensions ``[..., n, d]``: activations, normalisation of features, a perceptron."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from torch import Tensor, nn

from rfp.errors import ArgumentError, unknown_choice
from rfp.nn.masked_norm import masked_batch_norm
from rfp.nn.settled_norm import SettledNorm

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
    "none": nn.Identity,
}

LAYER_NORMS = ("batch", "layer", "none")
# What products of a trajectory may be normalised by.
PRODUCT_NORMS = (*LAYER_NORMS, "settled")


def activation(name: str) -> nn.Module:
    """An activation by name."""
    if name not in ACTIVATIONS:
        raise unknown_choice("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]()


class FeatureNorm(nn.Module):
    """Batch normalisation over all leading dimensions (trajectories and nodes alike), layer normalisation, or none.

    Args:
        kind: ``"batch"``, ``"layer"``, ``"none"``, or ``"settled"`` (:class:`~rfp.nn.settled_norm.SettledNorm`).
        channels: d.
        eps: Added to the variance.
    """

    # Set for a while by `real_rows`: ``[n, 1]``, 1 where a row is a node and 0 where it is padding.
    real: Tensor | None = None

    def __init__(self, kind: str, channels: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        if kind not in PRODUCT_NORMS:
            raise unknown_choice("norm", kind, PRODUCT_NORMS)
        self.norm: nn.Module = nn.Identity()
        if kind == "batch":
            self.norm = nn.BatchNorm1d(channels, eps=eps)
        elif kind == "layer":
            self.norm = nn.LayerNorm(channels, eps=eps)
        elif kind == "settled":
            self.norm = SettledNorm(channels, eps=eps)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, as a copy of a layer needs it."""
        if not isinstance(self.norm, nn.Identity):
            self.norm.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:  # [..., d] -> [..., d]
        """Normalise; ``real`` stands in for what :func:`real_rows` says where the rows are not nodes (but pairs)."""
        real = self.real if real is None else real
        if isinstance(self.norm, nn.BatchNorm1d):
            if self.training and real is not None:
                return masked_batch_norm(x, real, self.norm)
            norm, rows = self.norm, x.reshape(-1, x.size(-1))
            # Not `norm(rows)`, which launches a kernel to count the batches, a number nothing reads.
            return nn.functional.batch_norm(
                rows,
                norm.running_mean,
                norm.running_var,
                norm.weight,
                norm.bias,
                # With a single row there is no variance: use the running statistics instead of raising.
                training=self.training and len(rows) > 1,
                momentum=0.1 if norm.momentum is None else norm.momentum,
                eps=norm.eps,
            ).view(x.shape)
        normalized: Tensor = self.norm(x, real) if isinstance(self.norm, SettledNorm) else self.norm(x)
        return normalized


@contextmanager
def real_rows(model: nn.Module, real: Tensor) -> Iterator[None]:
    """Within the block, batch normalisations of a model leave padding out of their statistics in training.

    Args:
        model: Has :class:`FeatureNorm` parts, wherever they are.
        real: ``[n, 1]``, 1 where a row is a node and 0 where it is padding.
    """
    norms = [module for module in model.modules() if isinstance(module, FeatureNorm)]
    try:
        for norm in norms:
            norm.real = real
        yield
    finally:
        for norm in norms:
            norm.real = None


class MLP(nn.Module):
    """A perceptron on the last dimension: Linear, then (norm, activation, dropout, Linear) for each further layer.

    Args:
        in_channels: Width of the input.
        out_channels: Width of the output.
        hidden_channels: Width between; the wider of the two by default.
        num_layers: Number of linear maps.
        norm: See :class:`FeatureNorm`.
        act: See :data:`ACTIVATIONS`.
        dropout: Probability.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int | None = None,
        num_layers: int = 2,
        norm: str = "none",
        act: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_layers < 1:
            raise ArgumentError(f"num_layers must be at least 1, got {num_layers}")
        hidden = hidden_channels or max(in_channels, out_channels)
        widths = [in_channels, *[hidden] * (num_layers - 1), out_channels]
        parts: list[nn.Module] = [nn.Linear(widths[0], widths[1])]
        for before, after in pairwise(widths[1:]):
            parts += [FeatureNorm(norm, before), activation(act), nn.Dropout(dropout), nn.Linear(before, after)]
        self.parts = nn.Sequential(*parts)

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for part in self.parts:
            if isinstance(part, nn.Linear | FeatureNorm):
                part.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.parts(x)
        return out
