"""One transform for each encoding of :mod:`rfp.baselines`: frozen dataclasses of its arguments.

All take a ``Data``, a ``Batch`` or a list of ``Data`` and store a node-first tensor under ``attr_name`` (``None``
concatenates it to ``x``). They are also what a model's config holds (:class:`rfp.nn.ModelConfig`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from rfp import baselines
from rfp.errors import ArgumentError
from rfp.features import Distribution
from rfp.graph import Graph
from rfp.normalization import NormalizationChoice
from rfp.settings import Settings
from rfp.transforms.node_encoding import NodeEncodingTransform


def _how_many(operators: Any) -> int:
    """Operators that these stand for: of ``NAME.both`` two."""
    return len(Settings(operators=operators).operators)


@functional_transform("add_random_node_features")
@dataclass(frozen=True, repr=False)
class AddRandomNodeFeatures(NodeEncodingTransform):
    """Adds random node features (:func:`rfp.baselines.rnf`): ``[N, k]``, or ``[N, B, k]`` for several trajectories."""

    num_channels: int = 16
    num_trajectories: int = 1
    distribution: Distribution = "normal"
    seed: int = 0
    attr_name: str | None = "random_node_features"

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        drawn = baselines.rnf(
            graph,
            num_channels=self.num_channels,
            num_trajectories=self.num_trajectories,
            distribution=self.distribution,
            seed=self.seed,
        )
        return drawn[0] if self.num_trajectories == 1 else drawn.transpose(0, 1)

    def width(self, in_channels: int) -> int:
        return self.num_channels


@functional_transform("add_eigenvector_pe")
@dataclass(frozen=True, repr=False)
class AddEigenvectorPE(NodeEncodingTransform):
    """Adds eigenvectors of an operator (:func:`rfp.baselines.eigenvectors`), ``[N, k]``; their signs are fixed.

    For training, flip the signs at random with :func:`rfp.baselines.flip_signs`. A model that has this encoding in its
    config does so by itself.
    """

    num_eigenvectors: int | None = 8
    operator: str = "normalized_laplacian"
    which: str = "smallest"
    attr_name: str | None = "eigenvector_pe"

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return baselines.eigenvectors(
            graph, num_eigenvectors=self.num_eigenvectors, operator=self.operator, which=self.which
        )

    def width(self, in_channels: int) -> int:
        if self.num_eigenvectors is None:
            raise ArgumentError(
                "num_eigenvectors=None has the width of the largest graph; a model needs a fixed one: give the number"
            )
        return self.num_eigenvectors


@functional_transform("add_random_walk_return_pe")
@dataclass(frozen=True, repr=False)
class AddRandomWalkReturnPE(NodeEncodingTransform):
    """Adds return probabilities of random walks (:func:`rfp.baselines.random_walk_pe`), ``[N, K]``."""

    walk_length: int = 16
    attr_name: str | None = "random_walk_return_pe"

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return baselines.random_walk_pe(graph, walk_length=self.walk_length)

    def width(self, in_channels: int) -> int:
        return self.walk_length


@functional_transform("add_node_feature_propagation_pe")
@dataclass(frozen=True, repr=False)
class AddNodeFeaturePropagationPE(NodeEncodingTransform):
    """Adds propagated node features (:func:`rfp.baselines.nfp`), ``[N, O (P + 1) d]``."""

    num_steps: int = 16
    operators: tuple[Any, ...] = ("normalized_adjacency",)
    normalization: NormalizationChoice = "qr"
    normalize_every: int = 1
    attr_name: str | None = "node_feature_propagation_pe"
    needs_x: ClassVar[bool] = True

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return baselines.nfp(
            graph,
            x=x,
            num_steps=self.num_steps,
            operators=self.operators,
            normalization=self.normalization,
            normalize_every=self.normalize_every,
        )

    def width(self, in_channels: int) -> int:
        return _how_many(self.operators) * (self.num_steps + 1) * in_channels


@functional_transform("add_sign_features")
@dataclass(frozen=True, repr=False)
class AddSIGNFeatures(NodeEncodingTransform):
    """Adds :math:`X \\oplus S X \\oplus \\dots \\oplus S^P X` (:func:`rfp.baselines.sign`), ``[N, O (P + 1) d]``."""

    num_steps: int = 3
    operators: tuple[Any, ...] = ("normalized_adjacency",)
    attr_name: str | None = "sign_features"
    needs_x: ClassVar[bool] = True

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return baselines.sign(graph, x=x, num_steps=self.num_steps, operators=self.operators)

    def width(self, in_channels: int) -> int:
        return _how_many(self.operators) * (self.num_steps + 1) * in_channels


@functional_transform("add_sgc_features")
@dataclass(frozen=True, repr=False)
class AddSGCFeatures(NodeEncodingTransform):
    """Adds :math:`S^P X` (:func:`rfp.baselines.sgc`), ``[N, d]``."""

    num_steps: int = 2
    operator: Any = "normalized_adjacency"
    attr_name: str | None = "sgc_features"
    needs_x: ClassVar[bool] = True

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return baselines.sgc(graph, x=x, num_steps=self.num_steps, operator=self.operator)

    def width(self, in_channels: int) -> int:
        return in_channels


@functional_transform("add_power_embed_pe")
@dataclass(frozen=True, repr=False)
class AddPowerEmbedPE(NodeEncodingTransform):
    """Adds PowerEmbed's list of representations (:func:`rfp.baselines.power_embed`), ``[N, (P + 1) d]``."""

    num_steps: int = 10
    operator: Any = "normalized_adjacency"
    attr_name: str | None = "power_embed_pe"
    needs_x: ClassVar[bool] = True

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return baselines.power_embed(graph, x=x, num_steps=self.num_steps, operator=self.operator)

    def width(self, in_channels: int) -> int:
        return (self.num_steps + 1) * in_channels


@functional_transform("add_substructure_counts")
@dataclass(frozen=True, repr=False)
class AddSubstructureCounts(NodeEncodingTransform):
    """Adds the number of cycles and cliques of each size through a node (:func:`rfp.baselines.substructure_counts`)."""

    cycles: tuple[int, ...] = (3, 4, 5, 6)
    cliques: tuple[int, ...] = ()
    attr_name: str | None = "substructure_counts"

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return baselines.substructure_counts(graph, cycles=self.cycles, cliques=self.cliques)

    def width(self, in_channels: int) -> int:
        return len(self.cycles) + len(self.cliques)
