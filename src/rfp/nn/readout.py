"""From nodes to graphs and from trajectories to one answer: reductions that are deterministic on every device."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rfp.errors import unknown_choice
from rfp.graph import Graph
from rfp.nn.layers import MLP

READOUTS = ("sum", "mean", "max")


def pool_nodes(x: Tensor, ptr: Tensor, kind: str = "sum") -> Tensor:
    """Reduce the nodes of each graph, ``[..., n, d] -> [..., num_graphs, d]``; a graph without nodes gives zeros.

    A segmented reduction in a fixed order, not a scatter with atomics: the same bits at every run.

    Args:
        x: ``[..., n, d]``.
        ptr: ``[num_graphs + 1]`` node offsets.
        kind: ``"sum"``, ``"mean"`` or ``"max"``.

    Example:
        >>> pool_nodes(torch.tensor([[1.0], [2.0], [5.0]]), torch.tensor([0, 2, 3]), "mean")
        tensor([[1.5000],
                [5.0000]])
    """
    if kind not in READOUTS:
        raise unknown_choice("readout", kind, READOUTS)
    sizes = ptr.diff()
    node_first = x.movedim(-2, 0).contiguous()
    shape = (-1, *(1 for _ in node_first.shape[1:]))
    if kind == "max":
        out = torch.segment_reduce(node_first, "max", lengths=sizes, axis=0, unsafe=True)
        out = torch.where(sizes.view(shape) > 0, out, 0.0)
    else:
        out = torch.segment_reduce(node_first, "sum", lengths=sizes, axis=0, unsafe=True, initial=0)
        if kind == "mean":
            out = out / sizes.clamp_min(1).view(shape)
    return out.movedim(0, -2)


def aggregate_trajectories(x: Tensor, kind: str = "mean") -> Tensor:
    """An invariant reduction over B, ``[..., B, n, d] -> [..., n, d]`` (section 3.4, node-level tasks)."""
    if kind not in READOUTS:
        raise unknown_choice("trajectory_readout", kind, READOUTS)
    if kind == "max":
        return x.amax(-3)
    return x.sum(-3) if kind == "sum" else x.mean(-3)


class DeepSets(nn.Module):
    r"""An invariant network over B: :math:`\rho(\mathrm{agg}_b\, \phi(x_b))` (section 3.4, graph-level tasks).

    Args:
        channels: Width of input, hidden layers and output.
        aggregation: ``"sum"``, ``"mean"`` or ``"max"``.
        act: Activation.

    Shapes:
        ``[B, num_graphs, d] -> [num_graphs, d]``.

    References:
        M. Zaheer et al. Deep sets. NeurIPS 2017.
    """

    def __init__(self, channels: int, *, aggregation: str = "mean", act: str = "relu") -> None:
        super().__init__()
        if aggregation not in READOUTS:
            raise unknown_choice("trajectory_readout", aggregation, READOUTS)
        self.aggregation = aggregation
        self.phi = MLP(channels, channels, act=act)
        self.rho = MLP(channels, channels, act=act)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.rho(aggregate_trajectories(self.phi(x), self.aggregation))
        return out


class GraphReadout(nn.Module):
    """From nodes to graphs, then from trajectories to one answer: ``[..., B, n, d] -> [..., num_graphs, d]``.

    Args:
        channels: d.
        nodes: ``"sum"``, ``"mean"`` or ``"max"`` over the nodes of a graph.
        trajectories: The same, inside a :class:`DeepSets`, over trajectories; ``None`` if there is no dimension B.
        act: Activation.
    """

    def __init__(
        self, channels: int, *, nodes: str = "sum", trajectories: str | None = None, act: str = "relu"
    ) -> None:
        super().__init__()
        self.nodes = nodes
        self.deep_sets: nn.Module | None = None
        if trajectories is not None:
            self.deep_sets = DeepSets(channels, aggregation=trajectories, act=act)

    def forward(self, h: Tensor, graph: Graph) -> Tensor:
        pooled = pool_nodes(h, graph.offsets, self.nodes)
        return pooled if self.deep_sets is None else self.deep_sets(pooled)

    def extra_repr(self) -> str:
        return f"nodes={self.nodes!r}"


class NodeReadout(nn.Module):
    """Nodes stay as they are, trajectories become one: ``[..., B, n, d] -> [..., n, d]``.

    Args:
        trajectories: ``"sum"``, ``"mean"`` or ``"max"``; ``None`` if there is no dimension B.
    """

    def __init__(self, trajectories: str | None = None) -> None:
        super().__init__()
        self.trajectories = trajectories

    def forward(self, h: Tensor, graph: Graph) -> Tensor:
        return h if self.trajectories is None else aggregate_trajectories(h, self.trajectories)

    def extra_repr(self) -> str:
        return f"trajectories={self.trajectories!r}"
