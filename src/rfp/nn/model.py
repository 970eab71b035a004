r"""The whole network: encodings, :math:`f^{(0)} = \sigma(K_{embed}(f^{in} \oplus t))` (Eq. 4), backbone, head."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

import torch
from torch import Tensor, nn

from rfp.baselines import flip_signs
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn.backbones import PROPAGATE_AS_GCN, Backbone, Edges
from rfp.nn.counted_draws import check_forward, evaluation_draw_of, training_seed
from rfp.nn.embeddings import EMBEDDINGS, EmbeddingOptions, LinearEmbedding, ProductEmbedding, side_by_side
from rfp.nn.encoder import RandomFeaturePropagation
from rfp.nn.gcn import gcn_matrix
from rfp.nn.layers import activation
from rfp.nn.learned_operator import LearnedOperator
from rfp.nn.levels import LEVELS, ReadoutOptions
from rfp.nn.link_head import LinkHead, LinkHeadOptions
from rfp.nn.model_config import LEARNED_NAME, ModelConfig, RFPEncoding
from rfp.nn.model_graph import model_graph
from rfp.nn.model_inputs import (
    asked_pairs,
    build_edge_encoder,
    build_node_encoder,
    feature_widths,
    read_edge_features,
    read_node_features,
    stored_or_computed,
)
from rfp.nn.replicated import replicate
from rfp.nn.trajectory_products import TrajectoryProducts
from rfp.precision import full_precision
from rfp.settings import Settings
from rfp.transforms import AddEigenvectorPE, NodeEncodingTransform
from rfp.transforms.node_encoding import StoredEncodings


class RFPModel(nn.Module):
    r"""A graph network on positional encodings, built from one :class:`ModelConfig`.

    .. math:: f^{(0)}_b = \sigma(K_{embed}(f^{in} \oplus t_b)), \qquad
              y = \mathrm{head}(\mathrm{readout}(\mathrm{backbone}(f^{(0)})))

    RFP and RNF are drawn inside, anew at every training step. The other encodings do not change: compute them once with
    :meth:`precompute` as a (pre-)transform; what a graph does not carry is computed on the fly. The signs of
    eigenvectors are flipped at random in training.

    :math:`K_{embed}` is one of :data:`rfp.nn.embeddings.EMBEDDINGS`.

    Args:
        config: A :class:`ModelConfig`, or plain values for one.

    Example:
        >>> from torch_geometric.data import Data
        >>> model = RFPModel({"out_channels": 1, "encodings": [{"name": "rfp", "num_channels": 4, "num_steps": 2}]})
        >>> ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
        >>> model.eval()(Data(edge_index=ring, num_nodes=3)).shape
        torch.Size([1, 1])
        >>> model.num_parameters
        39365
    """

    def __init__(self, config: ModelConfig | dict[str, Any]) -> None:
        super().__init__()
        config = config if isinstance(config, ModelConfig) else ModelConfig.from_dict(config)
        self.config = config
        width = config.hidden_channels
        self.node_encoder = build_node_encoder(config)
        self.edge_encoder = build_edge_encoder(config)
        features, raw = feature_widths(config)
        self._features, self._raw_features = features, raw
        self.drawn = nn.ModuleList(self._drawn(e) for e in config.encodings if isinstance(e, RFPEncoding))
        self.fixed: list[NodeEncodingTransform] = [e for e in config.encodings if isinstance(e, NodeEncodingTransform)]
        self.num_draws = 0

        joined = config.trajectories == "concatenate"
        rfps = [e for e in config.encodings if isinstance(e, RFPEncoding)]
        self.embed = EMBEDDINGS[config.embed](
            EmbeddingOptions(
                shared_channels=features + sum(e.width(raw) for e in self.fixed),
                drawn=tuple(e.shape for e in rfps),
                out_channels=width,
                joined=joined,
                num_trajectories=config.num_trajectories,
                dropout=config.input_dropout,
                products=config.products,
            )
        )
        self.edge_products = nn.ModuleList(
            config.products.build(e.shape, width, joined=joined) for e in rfps if config.edge_products
        )
        self.act = activation(config.activation) if config.embed_activation else nn.Identity()
        self.backbone = Backbone(
            config.backbone,
            width,
            config.num_layers,
            dss=config.dss_aggregation if config.trajectories == "dss" else None,
            residual=config.residual,
            norm=config.norm,
            act=config.activation,
            dropout=config.dropout,
            num_heads=config.num_heads,
            attention_dropout=config.attention_dropout,
            initial_residual=config.initial_residual,
            identity_mapping=config.identity_mapping,
            edge_features=self.edge_encoder is not None or config.edge_products,
            apart=config.trajectory_layers,
            pooling=config.trajectory_readout,
        )
        level = LEVELS[config.task]
        pooled = joined or config.trajectory_layers is not None
        self.readout = level.readout(
            ReadoutOptions(width, pooled, config.readout, config.trajectory_readout, config.activation)
        )
        self._reads_pairs = level.reads_pairs
        self.head = (
            self._link_head(rfps)
            if level.reads_pairs
            else level.head(width, config.out_channels, config.num_head_layers)
        )
        self._check_budget()

    def _drawn(self, encoding: RFPEncoding) -> RandomFeaturePropagation:
        def operator(name: str) -> Any:
            if name != LEARNED_NAME:
                return name
            # Without node features every node starts alike and the GCN tells them apart by their neighbourhoods.
            return LearnedOperator(
                max(self._features, 1),
                num_heads=encoding.learned_heads,
                head_channels=encoding.learned_head_channels,
                form=encoding.learned_form,
            )

        settings = Settings.of(encoding, {"operators": [operator(name) for name in encoding.operators]})
        return RandomFeaturePropagation(settings, eval_draws=encoding.eval_draws, keep_draw=encoding.keep_draw)

    def _link_head(self, encodings: Sequence[RFPEncoding]) -> LinkHead:
        config = self.config
        multiplied = encodings if config.pair_products else ()
        options = LinkHeadOptions(
            config.hidden_channels,
            config.num_head_layers,
            tuple(e.shape for e in multiplied),
            config.pair_degrees,
            config.products.norm,
            config.activation,
            config.dropout,
        )
        return LinkHead(options, starts=[e.start for e in multiplied])

    def _check_budget(self) -> None:
        limit = self.config.max_parameters
        if limit is not None and self.num_parameters > limit:
            raise ArgumentError(
                f"the model has {self.num_parameters:,} parameters, more than max_parameters={limit:,}; reduce "
                f"hidden_channels (now {self.config.hidden_channels}) or num_layers (now {self.config.num_layers})\n"
                + self.summary()
            )

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next(self.head.parameters()).dtype

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def summary(self) -> str:
        """The number of parameters of each part, one line each, and in all."""
        parts = [(name, sum(p.numel() for p in part.parameters())) for name, part in self.named_children()]
        lines = [f"{name:14s} {count:12,d}" for name, count in [*parts, ("total", self.num_parameters)] if count]
        return "\n".join(lines)

    @property
    def precompute(self) -> StoredEncodings:
        """Stores every unchanging encoding of this model on a graph, a list of graphs or an in-memory data set.

        May be passed as ``transform=`` or ``pre_transform=``: its ``repr`` is that of the encodings, by which PyG tells
        whether what it has on disk was stored for another model.
        """
        return StoredEncodings(tuple(self.fixed))

    def replicate(self, num_replicas: int) -> RFPModel:
        """Give every weight a leading dimension of R equal copies, in place (:mod:`rfp.nn.replicated`).

        The prediction for a node task is then ``[R, n, out_channels]``; the encodings are drawn once for all.

        Raises:
            ArgumentError: It reads edge features, of which each replica would have its own: layers take ``[m, d]``.
        """
        if self.edge_encoder is not None or self.config.edge_products:
            raise ArgumentError(
                "a model that reads edge features cannot be trained in replicas; set training.engine to "
                '"lightning", or leave it out'
            )
        replicate(self, num_replicas, leading=int(self.config.trajectories != "concatenate"))
        for encoder in self.encoders:
            encoder.num_replicas = num_replicas
        return self

    def align(self, multiple: int) -> RFPModel:
        """Pad weights that multiply node features and encodings with columns of zeros to a multiple, in place.

        Predictions and what is learned stay the same up to rounding; matrix products of odd widths are slow on a GPU.
        """
        for module in list(self.modules()):
            if isinstance(module, LinearEmbedding | LearnedOperator):
                module.align(multiple)
        return self

    @property
    def encoders(self) -> list[RandomFeaturePropagation]:
        """Those that draw, in the order of the config."""
        return [encoder for encoder in self.drawn if isinstance(encoder, RandomFeaturePropagation)]

    def forward(
        self,
        data: Any,
        *,
        graph: Graph | None = None,
        drawn: Sequence[Tensor | None] | None = None,
        grams: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Predict for a ``Data`` or ``Batch``.

        Args:
            data: With ``x`` and ``edge_attr`` as the config says; of links with ``pairs``, ``[2, p]``.
            graph: ``data``'s graph as :class:`rfp.Graph`, if it is kept between calls (full-batch training): its sorted
                edges and keys are then computed once, and GCN layers become sparse products.
            drawn: What :meth:`draw` returned, for this graph or for a batch it was cut out of; ``None`` in the place of
                an encoding draws that one.
            grams: What :meth:`draw_grams` returned, likewise, in the place of ``drawn``.

        Returns:
            ``[num_graphs, out_channels]``, ``[n, out_channels]``, or ``[p, 1]`` for links.
        """
        # The graphs of a batch come together once; sorting their edges would cost more than it saves.
        matrix = None
        if graph is not None and graph.ptr is None and self.config.backbone in PROPAGATE_AS_GCN:
            matrix = gcn_matrix(graph)
        graph = model_graph(data) if graph is None else graph
        x = read_node_features(data, self.config, self.node_encoder, self.dtype)
        encodings = self._encodings(graph, x, drawn) if grams is None else []
        scale = self._product_scale(graph) if grams is None else None  # which is in them
        edge_attr = self._edge_features(data, graph, encodings, scale)
        edges = Edges(graph.edge_index.long(), edge_attr, _as_weight(graph, self.dtype), graph.batch, matrix, graph)
        h = self.act(self._embed(data, graph, x, encodings, scale, grams))
        h = self.backbone(h, edges)
        rows = self.readout(h, graph)
        out: Tensor
        if self._reads_pairs:
            out = self.head(rows, asked_pairs(data), graph, encodings if self.config.pair_products else ())
        else:
            out = self.head(rows)
        return out

    def draw(self, data: Any, *, graph: Graph | None = None) -> list[Tensor]:
        """One draw of every random encoding; in evaluation it is the same at every call.

        Returns:
            What no parameter changes, without gradients (:meth:`RandomFeaturePropagation.draw`): ``[B, n, C]`` for each
            encoding, and of those with a learned operator ``[B, n, drawn_channels]``, which :meth:`forward` completes.
        """
        graph = model_graph(data) if graph is None else graph
        return [encoder.draw(graph) for encoder in self.encoders]

    @property
    def reads_grams(self) -> bool:
        """Whether Gram matrices are all that the model reads of its random encodings: products of nodes alone."""
        of_nodes = isinstance(self.embed, ProductEmbedding) and self.embed.by_grams and bool(self.encoders)
        of_pairs = self.config.edge_products or self._reads_pairs
        return of_nodes and not of_pairs and not any(encoder.learned for encoder in self.encoders)

    def draw_grams(self, data: Any, *, graph: Graph | None = None) -> list[Tensor]:
        """:meth:`draw` where :attr:`reads_grams` says so, but Gram matrices: fewer numbers, and no more is needed.

        Returns:
            ``[B, n, row_stride(T)]`` for each encoding (:mod:`rfp.nn.gram_rows`), of joined trajectories ``[1, n, …]``.
        """
        graph = model_graph(data) if graph is None else graph
        embed = cast("ProductEmbedding", self.embed)
        return embed.grams(self.draw(data, graph=graph), self._product_scale(graph))

    def _encodings(self, graph: Graph, x: Tensor | None, given: Sequence[Tensor | None] | None) -> list[Tensor]:
        """``[B, n, C]`` each, or ``[R, B, n, C]`` where an operator is learned by each of R replicas."""
        x = self._learned_features(graph, x)
        given = [None] * len(self.drawn) if given is None else given
        return [
            encoder(graph, x=x) if one is None else encoder.complete(one, graph, x=x)
            for encoder, one in zip(self.encoders, given, strict=True)
        ]

    def _learned_features(self, graph: Graph, x: Tensor | None) -> Tensor:
        return x if x is not None else graph.offsets.new_ones(graph.num_nodes, 1, dtype=self.dtype)

    def evaluation_draw(self, number: int) -> AbstractContextManager[None]:
        """Within the block, evaluation uses this draw of the random features; 0 is the usual one.

        Predictions averaged over several draws vary less than those of one.
        """
        return evaluation_draw_of(self.encoders, number)

    def _edge_features(
        self, data: Any, graph: Graph, encodings: Sequence[Tensor], scale: Tensor | None = None
    ) -> Tensor | None:
        """Those of the data, encoded, and the products of both ends: ``[m, d]``."""
        attr: Tensor | None = None
        if self.edge_encoder is not None:
            attr = read_edge_features(data, self.config, self.edge_encoder, graph.num_edges, self.dtype)
        for products, t in zip(cast("list[TrajectoryProducts]", self.edge_products), encodings, strict=False):
            if self.config.trajectories == "concatenate":
                part = products.pairs(side_by_side(t, products.num_states), graph.edge_index, scale=scale)
            else:
                # Every trajectory estimates the same product of these two nodes: their mean is the better estimate.
                part = products.pairs(t, graph.edge_index, scale=scale).mean(-3)
            attr = part if attr is None else attr + part
        return attr

    def _embed(
        self,
        data: Any,
        graph: Graph,
        x: Tensor | None,
        drawn: Sequence[Tensor],
        scale: Tensor | None = None,
        grams: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """K_embed of everything: ``[B, n, d]``, or ``[n, d]`` where trajectories are joined (``[R, ...]`` of each)."""
        shared = [] if x is None else [x]
        shared += [self._fixed_encoding(number, data, graph).to(self.dtype) for number in range(len(self.fixed))]
        if grams is not None:
            return cast("ProductEmbedding", self.embed).of_grams(shared, grams)
        h: Tensor = self.embed(shared, drawn, scale)
        return h

    def _product_scale(self, graph: Graph) -> Tensor | None:
        """``[n, 1]``; padding, which belongs to no graph, has that of the last."""
        multiplies = isinstance(self.embed, ProductEmbedding) or self.config.edge_products
        if self.config.product_scale == "none" or not multiplies:
            return None
        nodes = torch.arange(graph.num_nodes, device=graph.device)
        number = torch.searchsorted(graph.offsets[1:-1].contiguous(), nodes, right=True)
        return graph.sizes.to(self.dtype).index_select(0, number)[:, None]

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @full_precision
    def _fixed_encoding(self, number: int, data: Any, graph: Graph) -> Tensor:
        transform = self.fixed[number]
        stored = stored_or_computed(data, transform, graph, transform.width(self._raw_features))
        if self.training and isinstance(transform, AddEigenvectorPE) and not getattr(data, "signs_drawn", False):
            stored = self._flipped(number, stored, graph)
        return stored

    def _flipped(self, number: int, stored: Tensor, graph: Graph) -> Tensor:
        check_forward()
        self.num_draws += 1
        return flip_signs(stored, graph, seed=training_seed(number, self.num_draws - 1))

    @property
    def flips_signs(self) -> bool:
        """Whether a training step flips the signs of eigenvectors."""
        return any(isinstance(transform, AddEigenvectorPE) for transform in self.fixed)

    def draw_signs(self, data: Any, graph: Graph) -> None:
        """Flip the signs of the eigenvectors that ``data`` carries now, for many steps at once: a step then does not.

        ``data.signs_drawn`` says so; whoever cuts ``data`` into batches passes it on.
        """
        for number, transform in enumerate(self.fixed):
            if isinstance(transform, AddEigenvectorPE) and transform.attr_name is not None:
                stored: Tensor = getattr(data, transform.attr_name)
                setattr(data, transform.attr_name, self._flipped(number, stored, graph))
        data.signs_drawn = True

    def get_extra_state(self) -> dict[str, int]:
        return {"num_draws": self.num_draws}

    def set_extra_state(self, state: dict[str, int]) -> None:
        self.num_draws = int(state["num_draws"])

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters:,}"


def _as_weight(graph: Graph, dtype: torch.dtype) -> Tensor | None:
    return None if graph.edge_weight is None else graph.edge_weight.to(dtype)
