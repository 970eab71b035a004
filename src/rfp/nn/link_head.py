r"""The head of link prediction: products of trajectories, of hidden states, and degrees of two nodes, to one logit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rfp.graph import Graph
from rfp.nn.embeddings import DrawnShape
from rfp.nn.layers import MLP, FeatureNorm
from rfp.precision import matmul_precision

# Without gradients to keep, pairs are scored in blocks whose gathered states take about as much.
_PAIR_BYTES = 1 << 28


@dataclass(frozen=True)
class LinkHeadOptions:
    """What a link head is made of.

    Args:
        channels: d, width of the hidden states.
        num_layers: Linear maps of the perceptron at the end.
        drawn: Shapes of the trajectories that are multiplied; none leaves them out.
        degrees: Whether the degrees of both nodes are read.
        norm: Norm of the features: ``"batch"``, ``"layer"`` or ``"none"``.
        act: Activation.
        dropout: Probability.
    """

    channels: int
    num_layers: int = 2
    drawn: tuple[DrawnShape, ...] = ()
    degrees: bool = True
    norm: str = "batch"
    act: str = "relu"
    dropout: float = 0.0


class LinkHead(nn.Module):
    r"""One logit for each pair of nodes, the same for (u, v) and (v, u).

    .. math:: z(u, v) = W_h (h_u \odot h_v) + \mathrm{MLP}(\mathrm{norm}(g(u, v))) + W_d\, d(u, v), \qquad
              y = \mathrm{MLP}(z)

    :math:`g` are the products of the trajectory: with :math:`x_t(u) \in R^k` the state of operator and step t,
    :math:`G_{st} = s \langle x_s(u), x_t(v) \rangle`, made symmetric, of which unnormalised steps give walks between u
    and v (:mod:`rfp.products`): (A²) are common neighbours, and :math:`\sqrt{d_u d_v} (\hat A^2)_{uv}` is all but the
    resource allocation index. Each is read as it is and times :math:`\sqrt{d_u d_v}`, both as
    :math:`\mathrm{sign}(g) \log(1 + |g|)`: counts span decades. s is n / k for columns of unit length and 1 / k for
    features as they are drawn, so that products estimate the entries of powers of S themselves. :math:`d` are the
    logarithms of the degrees: their sum, and how far they are apart.

    Args:
        options: See :class:`LinkHeadOptions`.
        starts: How each trajectory begins (:class:`rfp.Settings`).

    Shapes:
        Hidden states ``[n, d]``, pairs ``[2, p]``, trajectories ``[B, n, T k]``; to ``[p, 1]``.
        O(p (T² k + d²)) operations.

    Example:
        >>> head = LinkHead(LinkHeadOptions(8, drawn=(DrawnShape(3, 4),)), starts=("drawn",))
        >>> ring = Graph(torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]]), 4)
        >>> pairs = torch.tensor([[0, 1], [2, 3]])
        >>> head(torch.randn(4, 8), pairs, ring, [torch.randn(1, 4, 12)]).shape
        torch.Size([2, 1])
    """

    def __init__(self, options: LinkHeadOptions, *, starts: Sequence[str] = ()) -> None:
        super().__init__()
        self.options, self.starts = options, tuple(starts)
        d = options.channels
        self.hidden = nn.Linear(d, d)
        numbers = sum(one.num_states * (one.num_states + 1) for one in options.drawn)  # each once and by the degrees
        self.norm = FeatureNorm(options.norm, numbers) if numbers else None
        self.products: nn.Module | None = None
        if numbers:
            self.products = MLP(numbers, d, hidden_channels=max(d, 64), act=options.act, dropout=options.dropout)
        self.degrees = nn.Linear(2, d) if options.degrees else None
        self.answer = MLP(
            d,
            1,
            hidden_channels=d,
            num_layers=options.num_layers,
            norm="none" if options.norm == "batch" else options.norm,
            act=options.act,
            dropout=options.dropout,
        )

    def forward(self, h: Tensor, pairs: Tensor, graph: Graph, trajectories: Sequence[Tensor] = ()) -> Tensor:
        """Logits of pairs, ``[p, 1]``.

        Args:
            h: ``[n, d]``.
            pairs: ``[2, p]``.
            graph: Whose degrees are read: the one that was encoded, without the pairs that are asked about.
            trajectories: ``[B, n, T k]`` each, as many as there are shapes.
        """
        degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes).to(h.dtype)
        if torch.is_grad_enabled():
            return self._scores(h, pairs, degree, trajectories)
        width = sum(t.size(0) * t.size(-1) for t in trajectories) + h.size(-1)
        size = max(1, _PAIR_BYTES // (8 * width))
        parts = [self._scores(h, some, degree, trajectories) for some in torch.split(pairs, size, dim=1)]
        return torch.cat(parts) if parts else h.new_zeros(0, 1)

    def _scores(self, h: Tensor, pairs: Tensor, degree: Tensor, trajectories: Sequence[Tensor]) -> Tensor:
        u, v = pairs
        z: Tensor = self.hidden(h.index_select(-2, u) * h.index_select(-2, v))
        of_degrees = degree.index_select(0, u) * degree.index_select(0, v)
        if self.products is not None and self.norm is not None:
            z = z + self.products(self.norm(self.pair_features(trajectories, pairs, of_degrees)))
        if self.degrees is not None:
            log_u, log_v = (degree.index_select(0, side).log1p() for side in (u, v))
            z = z + self.degrees(torch.stack([log_u + log_v, (log_u - log_v).abs()], dim=-1))
        out: Tensor = self.answer(nn.functional.relu(z))
        return out

    def pair_features(self, trajectories: Sequence[Tensor], pairs: Tensor, of_degrees: Tensor) -> Tensor:
        """g as the perceptron reads it, ``[p, sum of T (T + 1)]``; ``of_degrees`` is d_u d_v, ``[p]``."""
        u, v = pairs
        root = of_degrees.clamp_min(1).sqrt()[:, None]
        features = []
        for t, shape, start in zip(trajectories, self.options.drawn, self.starts, strict=True):
            T, k = shape.num_states, shape.num_channels
            states = t.to(self.hidden.weight.dtype).view(*t.shape[:-1], T, k).movedim(-4, -2)  # [n, T, B, k]
            states = states.flatten(-2)
            n, samples = states.size(0), k * shape.num_trajectories
            if start == "orthonormal":  # columns beyond the n-th are zero
                samples = min(k, n) * shape.num_trajectories
            scale = (1 if start == "drawn" else n) / max(samples, 1)
            # In full precision: where states of several steps nearly cancel, ten bits are not enough.
            with torch.autocast(states.device.type, enabled=False), matmul_precision("highest"):
                gram = states.index_select(0, u) @ states.index_select(0, v).mT * scale  # [p, T, T]
            row, column = torch.triu_indices(T, T, device=gram.device)
            both = (gram + gram.mT)[:, row, column] / 2
            features += [both, both * root]
        whole = torch.cat(features, dim=-1)
        return whole.sign() * whole.abs().log1p()
