"""DSS layers: any PyG convolution over a set of B trajectories, equivariant to their order."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import (
    MLP,
    GCNConv,
    GINConv,
    GINEConv,
    GraphConv,
    LEConv,
    MessagePassing,
    SAGEConv,
    SGConv,
    TAGConv,
)
from torch_geometric.nn.aggr import MaxAggregation, MeanAggregation, MinAggregation, SumAggregation
from torch_geometric.nn.dense import Linear

from rfp.errors import ArgumentError, unknown_choice

# Convolutions that take [B, n, d] as they are (each is held against one call a trajectory in the tests).
BROADCASTING = (GCNConv, GINConv, GINEConv, GraphConv, LEConv, SAGEConv, SGConv, TAGConv)
# What else may be inside them. A batch normalisation, say, would take the trajectories for a batch and the nodes for
# channels; a module that nobody knows might do anything.
_INSIDE = (
    *(nn.Sequential, nn.ModuleList, nn.Identity, MLP, nn.Linear, Linear, nn.LayerNorm, nn.Dropout),
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh, nn.Softplus),
    *(SumAggregation, MeanAggregation, MaxAggregation, MinAggregation),
)

AGGREGATIONS = ("sum", "mean")


class DSS(nn.Module):
    r"""One DSS-GNN layer (section 3.4 of the paper):

    .. math:: L(F)_b = \mathrm{GNN}_1(f_b) + \mathrm{GNN}_2\Big(\sum_{b'} f_{b'}\Big)

    The first convolution is shared by the B trajectories, the second sees their sum (or mean) once. The graph is never
    copied: a convolution that broadcasts over leading dimensions gets ``[B, n, d]`` in one call; any other one
    (``GPSConv``, attention) is called once a trajectory.

    Args:
        conv: GNN₁: any module called as ``conv(x, edge_index, ...)``.
        shared: GNN₂; by default a copy of ``conv`` with newly drawn parameters.
        aggregation: ``"sum"``, or ``"mean"``, whose scale does not grow with B.
        broadcast: Whether both convolutions take ``[B, n, d]``; by default known for the types in
            :data:`BROADCASTING`, as far as nothing inside them mixes nodes, and otherwise taken to be false.

    Shapes:
        ``[..., B, n, d] -> [..., B, n, d']``. Costs B + 1 convolutions.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> layer = DSS(GraphConv(8, 4))
        >>> layer(torch.randn(5, 3, 8), path).shape
        torch.Size([5, 3, 4])

    References:
        B. Bevilacqua et al. Equivariant subgraph aggregation networks. ICLR 2022.
    """

    def __init__(
        self,
        conv: nn.Module,
        *,
        shared: nn.Module | None = None,
        aggregation: str = "sum",
        broadcast: bool | None = None,
    ) -> None:
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise unknown_choice("aggregation", aggregation, AGGREGATIONS)
        self.each = conv
        self.shared = _fresh_copy(conv) if shared is None else shared
        self.aggregation = aggregation
        self.broadcast = _broadcasts(self.each) and _broadcasts(self.shared) if broadcast is None else broadcast

    def forward(self, x: Tensor, edge_index: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """``x`` ``[..., B, n, d]``; everything after ``edge_index`` (weights, edge features, ...) goes to both
        convolutions as it is."""
        if x.dim() < 3:
            raise ArgumentError(f"x must have shape [..., B, n, d], got {list(x.shape)}; one trajectory is x[None]")
        total = x.sum(-3, keepdim=True) if self.aggregation == "sum" else x.mean(-3, keepdim=True)
        each = call_over_leading(self.each, x, edge_index, *args, broadcast=self.broadcast, **kwargs)
        return each + call_over_leading(self.shared, total, edge_index, *args, broadcast=self.broadcast, **kwargs)

    def extra_repr(self) -> str:
        return f"aggregation={self.aggregation!r}, broadcast={self.broadcast}"


def call_over_leading(conv: nn.Module, x: Tensor, *args: Any, broadcast: bool, **kwargs: Any) -> Tensor:
    """``conv`` on ``[..., n, d]``: in one call if it broadcasts, else one call for each leading index."""
    matrix = bool(args) and isinstance(args[0], Tensor) and args[0].layout != torch.strided  # multiplies [n, d] alone
    if x.dim() == 2 or (broadcast and not matrix):
        out: Tensor = conv(x, *args, **kwargs)
        return out
    leading = x.shape[:-2]
    parts = [conv(one, *args, **kwargs) for one in x.reshape(-1, *x.shape[-2:])]
    return torch.stack(parts).view(*leading, *parts[0].shape)


def _broadcasts(conv: nn.Module) -> bool:
    """Whether a convolution is known to take ``[B, n, d]``; of another class, derived ones too, nobody knows."""
    return type(conv) in BROADCASTING and all(type(part) in _INSIDE for part in conv.modules() if part is not conv)


def _fresh_copy(conv: nn.Module) -> nn.Module:
    twin = copy.deepcopy(conv)
    _reset(twin)
    return twin


def _reset(module: nn.Module) -> None:
    reset = getattr(type(module), "reset_parameters", None)
    # The one MessagePassing defines resets its aggregation only, never a subclass's own parameters.
    if reset is not None and reset is not MessagePassing.reset_parameters:
        reset(module)
        return
    if any(True for _ in module.parameters(recurse=False)):
        raise ArgumentError(
            f"{type(module).__name__} has no reset_parameters, so the second convolution cannot be drawn anew; "
            "give one as shared="
        )
    for child in module.children():
        _reset(child)
