r"""K_embed: from node features and trajectories to the first hidden state, :math:`K(f^{in} \oplus t)` (Eq. 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rfp.nn.replicas import each_affine, input_dropout, shared_affine, shared_dropout


@dataclass(frozen=True)
class EmbeddingOptions:
    """What a K_embed is told about its inputs and its output.

    Args:
        shared_channels: Width of what all trajectories share: node features and unchanging encodings.
        drawn_channels: C of each random encoding, for one trajectory.
        drawn_trajectories: B of each random encoding.
        out_channels: d.
        joined: Whether the trajectories of a node are laid side by side.
        num_trajectories: B, the largest over the encodings; the others are repeated.
        dropout: Probability, on all inputs.
    """

    shared_channels: int
    drawn_channels: tuple[int, ...]
    drawn_trajectories: tuple[int, ...]
    out_channels: int
    joined: bool = True
    num_trajectories: int = 1
    dropout: float = 0.0


class LinearEmbedding(nn.Module):
    r"""One linear map of everything a node has, shared by the trajectories: :math:`W (f^{in} \oplus t_b) + b`.

    Node features are multiplied once and added to each trajectory, never copied. In a replicated model
    (:mod:`rfp.nn.replicas`) what the replicas share is multiplied with the weights of all of them at once.

    Shapes:
        See :meth:`forward`; ``weight`` is ``[d, shared_channels + sum of drawn_channels]``, with B times the drawn ones
        if the trajectories are joined.

    Example:
        >>> embed = LinearEmbedding(EmbeddingOptions(2, (6,), (3,), 8, joined=False, num_trajectories=3))
        >>> embed([torch.randn(5, 2)], [torch.randn(3, 5, 6)]).shape
        torch.Size([3, 5, 8])
    """

    # Read with a leading dimension of replicas (:func:`rfp.nn.replicas.replicate`).
    stacked_parameters = ("weight", "bias")

    def __init__(self, options: EmbeddingOptions) -> None:
        super().__init__()
        self.options = options
        times = options.drawn_trajectories if options.joined else [1] * len(options.drawn_channels)
        drawn = sum(c * b for c, b in zip(options.drawn_channels, times, strict=True))
        self.in_features = options.shared_channels + drawn
        linear = nn.Linear(self.in_features, options.out_channels)
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, shared: Sequence[Tensor], drawn: Sequence[Tensor]) -> Tensor:
        """The first hidden state, before σ.

        Args:
            shared: ``[n, c]`` each.
            drawn: ``[B, n, C]`` each, or ``[R, B, n, C]`` where R replicas (or groups of them: ``[S, B, n, C]``) have
                trajectories of their own.

        Returns:
            ``[n, d]`` if the trajectories are joined, else ``[B, n, d]``; with a leading R in a replicated model.
        """
        weight, bias, joined = self.weight, self.bias, self.options.joined
        split = self.options.shared_channels
        h: Tensor | None = None
        if shared:
            x = self._dropped(torch.cat(list(shared), dim=-1))
            # With replicas of several seeds dropout makes an input for each seed.
            h = (shared_affine if x.dim() == 2 else each_affine)(x, weight[..., :split], bias)
            h = h if joined else h.unsqueeze(-3)
        start = split
        for t in drawn:
            t = t.to(weight.dtype)
            if joined:
                t = t.transpose(-3, -2).flatten(-2)  # [B, n, C] -> [n, B C]
            columns = weight[..., start : start + t.size(-1)]
            start += t.size(-1)
            # A learned operator makes a trajectory for each replica, with one more dimension.
            each = weight.dim() == 3 and t.dim() > (2 if joined else 3)
            t = self._dropped(t, each)
            part = each_affine(t, columns) if each else shared_affine(t, columns)
            h = part if h is None else h + part
        assert h is not None  # the config refuses a model without any input
        if not shared:
            h = h + (bias if weight.dim() == 2 else bias.view(len(bias), *[1] * (h.dim() - 2), -1))
        b = self.options.num_trajectories
        return h if joined or h.size(-3) == b else h.expand(*h.shape[:-3], b, -1, -1)

    def _dropped(self, x: Tensor, each: bool = False) -> Tensor:
        p = self.options.dropout
        return shared_dropout(x, p, self.training) if each else input_dropout(x, p, self.training)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.options.out_channels}"


# The choices of ``ModelConfig.embed``.
EMBEDDINGS: dict[str, Callable[[EmbeddingOptions], nn.Module]] = {"linear": LinearEmbedding}
