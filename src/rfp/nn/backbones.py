"""Stacks of layers that keep leading dimensions: MLP, GCN, GraphConv, GIN, GINE, GPS, each plain or inside DSS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GINEConv, GraphConv

from rfp.errors import ArgumentError, unknown_choice
from rfp.graph import Graph
from rfp.nn.dss import DSS
from rfp.nn.gcn import GCNMatrix
from rfp.nn.layers import MLP, FeatureNorm, activation
from rfp.nn.neighbors import add_neighbors
from rfp.nn.node_attention import NodeAttention
from rfp.nn.readout import aggregate_trajectories
from rfp.ragged import offsets


@dataclass(frozen=True)
class Edges:
    """What a layer may read of the graph beside node features.

    Args:
        index: ``[2, m]``.
        attr: Encoded edge features ``[m, d]``.
        weight: ``[m]``.
        batch: Graph number of each node ``[n]``.
        gcn: The matrix of GCN layers, if the graph is kept between calls.
        graph: With which layers keep the order of its edges, if a GPU has to sort them; made where it is not given.
    """

    index: Tensor
    attr: Tensor | None = None
    weight: Tensor | None = None
    batch: Tensor | None = None
    gcn: GCNMatrix | None = None
    graph: Graph | None = None


class _Layer(nn.Module):
    """A PyG convolution that takes ``[..., n, d]``, called with the part of :class:`Edges` it understands."""

    def __init__(self, conv: nn.Module) -> None:
        super().__init__()
        self.conv = conv

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        out: Tensor = self.conv(x, edges.index)
        return out


class _Perceptron(_Layer):
    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        out: Tensor = self.conv(x)
        return out


class _Weighted(_Layer):
    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        out: Tensor = self.conv(x, edges.index, edges.weight)
        return out


class _GCN(_Weighted):
    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        if edges.gcn is None:
            return super().forward(x, edges)
        conv: Any = self.conv
        out: Tensor = edges.gcn.propagate(conv.lin(x)) + conv.bias
        return out


class _GIN(_Layer):
    """PyG's GIN or GINE with its sum over neighbours in one kernel; on ``[..., n, d]`` as it is."""

    reads_edge_features = False

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        conv: Any = self.conv
        if self.reads_edge_features and edges.attr is None:
            raise ArgumentError(
                "this backbone reads edge features: set edge_encoder (or give edge_attr), or use backbone='gin'"
            )
        attr = edges.attr if self.reads_edge_features else None
        out: Tensor = conv.nn(add_neighbors(x, edges.index, conv.eps, attr, edges.graph))
        return out


class _GINE(_GIN):
    reads_edge_features = True


@dataclass(frozen=True)
class LayerOptions:
    """What a layer's constructor may use."""

    channels: int
    norm: str
    act: str
    dropout: float
    num_heads: int
    attention_dropout: float
    edge_features: bool


class _GPS(nn.Module):
    r"""GraphGPS: message passing and attention to all nodes of the graph, side by side, then a perceptron.

    .. math:: y = \mathrm{norm}_1(x + \mathrm{conv}(x)) + \mathrm{norm}_2(x + \mathrm{attention}(x)), \qquad
              \mathrm{norm}_3(y + \mathrm{MLP}(y))
    """

    def __init__(self, local: _GIN, o: LayerOptions) -> None:
        super().__init__()
        self.local = local
        self.attention = NodeAttention(o.channels, o.num_heads, o.attention_dropout)
        self.norms = nn.ModuleList(FeatureNorm(o.norm, o.channels) for _ in range(3))
        self.mlp = MLP(o.channels, o.channels, hidden_channels=2 * o.channels, act=o.act, dropout=o.dropout)
        self.dropout = nn.Dropout(o.dropout)

    def reset_parameters(self) -> None:
        for part in (self.local, self.attention, *self.norms, self.mlp):
            part.reset_parameters()

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        graph = edges.graph if edges.graph is not None else _graph_of(x, edges)
        first, second, third = self.norms
        y = first(x + self.dropout(self.local(x, edges)))
        y = y + second(x + self.dropout(self.attention(x, graph)))
        out: Tensor = third(y + self.dropout(self.mlp(y)))
        return out


def _graph_of(x: Tensor, edges: Edges) -> Graph:
    """A graph of these edges, with the graphs of a batch apart."""
    ptr = None if edges.batch is None else offsets(torch.bincount(edges.batch))
    return Graph.unchecked(edges.index, x.size(-2), ptr=ptr)


def _mlp(o: LayerOptions) -> _Layer:
    return _Perceptron(nn.Linear(o.channels, o.channels))


def _gcn(o: LayerOptions) -> _Layer:
    return _GCN(GCNConv(o.channels, o.channels))


def _graph_conv(o: LayerOptions) -> _Layer:
    return _Weighted(GraphConv(o.channels, o.channels))


def _update(o: LayerOptions) -> MLP:
    return MLP(o.channels, o.channels, norm=o.norm, act=o.act)


def _gin(o: LayerOptions) -> _Layer:
    return _GIN(GINConv(_update(o), train_eps=True))


def _gine(o: LayerOptions) -> _Layer:
    return _GINE(GINEConv(_update(o), train_eps=True))


def _gps(o: LayerOptions) -> _GPS:
    return _GPS(_GINE(GINEConv(_update(o))) if o.edge_features else _GIN(GINConv(_update(o))), o)


# A new backbone is one function and one line here.
BACKBONES: dict[str, Callable[[LayerOptions], nn.Module]] = {
    "mlp": _mlp,
    "gcn": _gcn,
    "graph_conv": _graph_conv,
    "gin": _gin,
    "gine": _gine,
    "gps": _gps,
}
# Those that read edge features; `gps` also works without.
READ_EDGE_FEATURES = ("gine", "gps")
# Those whose sums over neighbours are a kernel that reads sorted edges.
SUM_NEIGHBORS = ("gin", "gine", "gps")
# Those in which a node attends to all nodes of its graph.
ATTEND = ("gps",)


class Backbone(nn.Module):
    r"""Layers :math:`h \leftarrow h + \mathrm{dropout}(\sigma(\mathrm{norm}(\mathrm{conv}(h))))` of one kind and width.

    Args:
        name: A key of :data:`BACKBONES`. ``"gine"`` reads edge features; ``"gcn"`` and ``"graph_conv"`` edge weights.
        channels: Width d.
        num_layers: Depth.
        dss: ``None`` treats leading indices independently; ``"sum"`` or ``"mean"`` puts every convolution inside
            :class:`~rfp.nn.DSS` with that aggregation.
        residual: Whether the input of a layer is added to its output.
        norm: ``"batch"``, ``"layer"`` or ``"none"``.
        act: A key of :data:`~rfp.nn.layers.ACTIVATIONS`.
        dropout: Probability.
        num_heads: Number of heads of the attention in ``"gps"``.
        attention_dropout: Probability of its weights to be left out.
        edge_features: Whether ``"gps"`` uses GINE (with edge features) or GIN as its local part.
        apart: Layers that see B trajectories apart (or inside DSS); those after them see one state a node, the
            trajectories pooled. ``None`` for all, without pooling.
        pooling: ``"sum"``, ``"mean"`` or ``"max"`` over trajectories after ``apart`` layers.

    Shapes:
        ``[..., n, d] -> [..., n, d]``; with ``dss``, ``[..., B, n, d]``; with ``apart``, ``[..., B, n, d] ->
        [..., n, d]``.

    Example:
        >>> import torch
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> Backbone("gin", 8, 2, dss="sum")(torch.randn(5, 3, 8), Edges(path)).shape
        torch.Size([5, 3, 8])
    """

    def __init__(
        self,
        name: str,
        channels: int,
        num_layers: int,
        *,
        dss: str | None = None,
        residual: bool = True,
        norm: str = "batch",
        act: str = "relu",
        dropout: float = 0.0,
        num_heads: int = 4,
        attention_dropout: float = 0.0,
        edge_features: bool = False,
        apart: int | None = None,
        pooling: str = "mean",
    ) -> None:
        super().__init__()
        if name not in BACKBONES:
            raise unknown_choice("backbone", name, BACKBONES)
        if channels < 1 or num_layers < 0:
            raise ArgumentError(
                f"channels must be at least 1 and num_layers at least 0, got {channels} and {num_layers}"
            )
        if apart is not None and not 0 <= apart <= num_layers:
            raise ArgumentError(f"trajectory_layers must be from 0 to num_layers={num_layers}, got {apart}")
        self.apart, self.pooling = apart, pooling
        self._attends = name in ATTEND
        options = LayerOptions(channels, norm, act, dropout, num_heads, attention_dropout, edge_features)
        layers = [BACKBONES[name](options) for _ in range(num_layers)]
        self.layers = nn.ModuleList(
            # All layers take leading dimensions, so DSS may always hand them all trajectories at once.
            layer
            if dss is None or (apart is not None and number >= apart)
            else DSS(layer, aggregation=dss, broadcast=True)
            for number, layer in enumerate(layers)
        )
        self.norms = nn.ModuleList(FeatureNorm(norm, channels) for _ in range(num_layers))
        self.act = activation(act)
        self.dropout = nn.Dropout(dropout)
        self.residual = residual

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        if edges.graph is None and (x.is_cuda or self._attends) and not torch.compiler.is_compiling():
            graph = _graph_of(x, edges) if self._attends else Graph.unchecked(edges.index, x.size(-2))
            edges = replace(edges, graph=graph)
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            if number == self.apart:
                x = self._pooled(x)
            h = self.dropout(self.act(norm(layer(x, edges))))
            x = x + h if self.residual else h
        if self.apart is None:
            return x
        return (self._pooled(x) if self.apart == len(self.layers) else x).squeeze(-3)

    def _pooled(self, x: Tensor) -> Tensor:
        """One state of all trajectories; it keeps their dimension, so that replicas stay where layers expect them."""
        return aggregate_trajectories(x, self.pooling).unsqueeze(-3)
