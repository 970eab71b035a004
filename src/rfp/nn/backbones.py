"""Stacks of layers that keep leading dimensions: MLP, GCN, GCNII, GraphConv, GIN, GINE, GPS, plain or inside DSS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, GINEConv, GraphConv, SimpleConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

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
        gcn: The matrix of layers that :data:`PROPAGATE_AS_GCN`, if the graph is kept between calls.
        graph: With which layers keep the order of its edges, if a GPU has to sort them; made where it is not given.
        start: What the first layer of the stack read, ``[..., n, d]``; the stack itself fills it in.
    """

    index: Tensor
    attr: Tensor | None = None
    weight: Tensor | None = None
    batch: Tensor | None = None
    gcn: GCNMatrix | None = None
    graph: Graph | None = None
    start: Tensor | None = None


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


class _GCNII(nn.Module):
    r"""Layer number l of GCNII, whose states stay near those of the first layer and whose map stays near the identity:

    .. math:: h = (1 - \alpha) \hat A x + \alpha x^{(0)}, \qquad
              y = (1 - \beta_l) h + \beta_l W h, \qquad \beta_l = \log(\lambda / l + 1)

    PyG's ``GCN2Conv`` is the same for one matrix ``[n, d]``; this one keeps leading dimensions.

    Args:
        channels: Width d.
        initial_residual: α.
        identity_mapping: λ.
        number: l, from 1.
        of_the_sum: Whether it is the convolution of the sum of trajectories inside DSS: :math:`\beta_l W \hat A x`.
            What the other one adds unchanged would multiply the states by B in each layer.

    References:
        M. Chen et al. Simple and deep graph convolutional networks. ICML 2020.
    """

    def __init__(
        self, channels: int, initial_residual: float, identity_mapping: float, number: int, *, of_the_sum: bool = False
    ) -> None:
        super().__init__()
        self.lin = nn.Linear(channels, channels, bias=False)
        self.sum = SimpleConv(aggr="sum")
        self.initial_residual, self.of_the_sum = initial_residual, of_the_sum
        self.strength = math.log(identity_mapping / number + 1)

    def reset_parameters(self) -> None:
        self.lin.reset_parameters()

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        h: Tensor = self._propagated(x, edges)
        if self.of_the_sum:
            scaled: Tensor = self.strength * self.lin(h)
            return scaled
        assert edges.start is not None  # the stack fills it in
        h = torch.lerp(h, edges.start, self.initial_residual)
        return torch.lerp(h, self.lin(h), self.strength)

    def _propagated(self, x: Tensor, edges: Edges) -> Tensor:
        if edges.gcn is not None:
            return edges.gcn.propagate(x)
        index, weight = gcn_norm(edges.index, edges.weight, x.size(-2), dtype=x.dtype)
        out: Tensor = self.sum(x, index, weight)
        return out

    def extra_repr(self) -> str:
        return f"initial_residual={self.initial_residual}, strength={self.strength:.3g}, of_the_sum={self.of_the_sum}"


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
    initial_residual: float
    identity_mapping: float
    number: int = 1


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


def _gcnii(o: LayerOptions, *, of_the_sum: bool = False) -> _GCNII:
    return _GCNII(o.channels, o.initial_residual, o.identity_mapping, o.number, of_the_sum=of_the_sum)


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


# α and λ of GCNII, as usual for its shallower stacks.
INITIAL_RESIDUAL, IDENTITY_MAPPING = 0.2, 0.5

# A new backbone is one function and one line here.
BACKBONES: dict[str, Callable[[LayerOptions], nn.Module]] = {
    "mlp": _mlp,
    "gcn": _gcn,
    "gcnii": _gcnii,
    "graph_conv": _graph_conv,
    "gin": _gin,
    "gine": _gine,
    "gps": _gps,
}
# Their convolution of the sum of trajectories inside DSS, where it is not the same one drawn anew.
OF_THE_SUM: dict[str, Callable[[LayerOptions], nn.Module]] = {"gcnii": partial(_gcnii, of_the_sum=True)}
# Those that propagate with the GCN's matrix, which is kept with a graph that is kept.
PROPAGATE_AS_GCN = ("gcn", "gcnii")
# Those that mix what the first layer read into every other.
KEEP_START = ("gcnii",)
# Those that read edge features; `gps` also works without.
READ_EDGE_FEATURES = ("gine", "gps")
# Those whose sums over neighbours are a kernel that reads sorted edges.
SUM_NEIGHBORS = ("gin", "gine", "gps")
# Those in which a node attends to all nodes of its graph.
ATTEND = ("gps",)


class Backbone(nn.Module):
    r"""Layers :math:`h \leftarrow h + \mathrm{dropout}(\sigma(\mathrm{norm}(\mathrm{conv}(h))))` of one kind and width.

    Args:
        name: A key of :data:`BACKBONES`. ``"gine"`` reads edge features; ``"gcn"``, ``"gcnii"`` and
            ``"graph_conv"`` edge weights.
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
        initial_residual: α of ``"gcnii"``: the part of what the first layer read in the input of every layer's map.
        identity_mapping: λ of ``"gcnii"``: how far the map of a layer is from the identity, the less the deeper.
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
        initial_residual: float = INITIAL_RESIDUAL,
        identity_mapping: float = IDENTITY_MAPPING,
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
        self._keeps_start = name in KEEP_START
        options = LayerOptions(
            *(channels, norm, act, dropout, num_heads, attention_dropout, edge_features),
            *(initial_residual, identity_mapping),
        )
        own = [replace(options, number=number + 1) for number in range(num_layers)]
        inside = [dss is not None and (apart is None or o.number <= apart) for o in own]
        convs = [
            (BACKBONES[name](o), OF_THE_SUM[name](o) if within and name in OF_THE_SUM else None)
            for o, within in zip(own, inside, strict=True)
        ]
        self.layers = nn.ModuleList(
            # All layers take leading dimensions, so DSS may always hand them all trajectories at once.
            DSS(conv, shared=shared, aggregation=str(dss), broadcast=True) if within else conv
            for (conv, shared), within in zip(convs, inside, strict=True)
        )
        self.norms = nn.ModuleList(FeatureNorm(norm, channels) for _ in range(num_layers))
        self.act = activation(act)
        self.dropout = nn.Dropout(dropout)
        self.residual = residual

    def forward(self, x: Tensor, edges: Edges) -> Tensor:
        if edges.graph is None and (x.is_cuda or self._attends) and not torch.compiler.is_compiling():
            graph = _graph_of(x, edges) if self._attends else Graph.unchecked(edges.index, x.size(-2))
            edges = replace(edges, graph=graph)
        start = x
        for number, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            if number == self.apart:
                x, start = self._pooled(x), self._pooled(start)
            if self._keeps_start:
                edges = replace(edges, start=start)
            h = self.dropout(self.act(norm(layer(x, edges))))
            x = x + h if self.residual else h
        if self.apart is None:
            return x
        return (self._pooled(x) if self.apart == len(self.layers) else x).squeeze(-3)

    def _pooled(self, x: Tensor) -> Tensor:
        """One state of all trajectories; it keeps their dimension, so that replicas stay where layers expect them."""
        return aggregate_trajectories(x, self.pooling).unsqueeze(-3)
