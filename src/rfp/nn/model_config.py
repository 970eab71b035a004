"""The typed config of a model: frozen dataclasses, every choice checked, unknown keys refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rfp.errors import ArgumentError, unknown_choice
from rfp.nn.backbones import (
    ATTEND,
    BACKBONES,
    IDENTITY_MAPPING,
    INITIAL_RESIDUAL,
    KEEP_START,
    READ_EDGE_FEATURES,
)
from rfp.nn.embeddings import EMBEDDINGS, DrawnShape, ProductOptions
from rfp.nn.layers import ACTIVATIONS, LAYER_NORMS, PRODUCT_NORMS
from rfp.nn.learned_operator import FORMS
from rfp.nn.levels import LEVELS
from rfp.nn.molecules import ATOM_FEATURES, BOND_FEATURES
from rfp.nn.readout import READOUTS
from rfp.plain_values import as_plain, check_types, field_values
from rfp.settings import Settings, as_boolean, as_integer
from rfp.transforms import BASELINES, NodeEncodingTransform

LEARNED_NAME = "learned"
TRAJECTORIES = ("concatenate", "independent", "dss")
# Integers of a model's config and the least that each may be; None, where that is the default, is left alone.
_LEAST = {
    "out_channels": 1,
    "in_channels": 0,
    "edge_channels": 0,
    "hidden_channels": 1,
    "num_layers": 0,
    "num_heads": 1,
    "num_head_layers": 1,
    "product_channels": 1,
    "product_layers": 1,
    "max_parameters": 1,
}


@dataclass(frozen=True)
class RFPEncoding(Settings):
    """:class:`rfp.nn.RandomFeaturePropagation` inside a model: drawn anew at every training step, unless kept.

    Its arguments are the fields of :class:`rfp.Settings`, where ``"learned"`` among the operators stands for
    :class:`rfp.nn.LearnedOperator`, and:

    Args:
        eval_draws: Draws averaged in evaluation.
        keep_draw: One draw for training and evaluation.
        learned_heads: H of learned operators.
        learned_head_channels: d of learned operators.
        learned_form: ``"auto"``, ``"dense"`` or ``"implicit"``.
    """

    eval_draws: int = 1
    keep_draw: bool = False
    learned_heads: int = 4
    learned_head_channels: int = 16
    learned_form: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("eval_draws", "learned_heads", "learned_head_channels"):
            object.__setattr__(self, name, as_integer(name, getattr(self, name), 1))
        object.__setattr__(self, "keep_draw", as_boolean("keep_draw", self.keep_draw))
        if self.learned_form not in FORMS:
            raise unknown_choice("learned_form", self.learned_form, FORMS)

    def _other_operators(self) -> tuple[str, ...]:
        return (LEARNED_NAME,)

    @property
    def shape(self) -> DrawnShape:
        """O (P + 1) states of k channels, B times."""
        return DrawnShape(len(self.operators) * (self.num_steps + 1), self.num_channels, self.num_trajectories)

    def width(self, in_channels: int) -> int:
        """C = O (P + 1) k."""
        return self.num_columns


# Names in configs of older results, whose files are kept under keys that hold them.
_OLD_NAMES: dict[str, tuple[str, dict[Any, Any] | None]] = {
    "num_eval_draws": ("eval_draws", None),
    "unit_start": ("start", {True: "unit", False: "drawn"}),
}


ModelEncoding = RFPEncoding | NodeEncodingTransform


def read_encoding(given: ModelEncoding | Mapping[str, Any]) -> ModelEncoding:
    """An encoding from ``{"name": ..., **arguments}``; objects pass through.

    ``"rfp"`` and ``"rnf"`` are drawn anew at every training step; every other name is one of
    :data:`rfp.transforms.BASELINES`.

    Example:
        >>> read_encoding({"name": "eigenvectors", "num_eigenvectors": 4}).width(0)
        4
    """
    if isinstance(given, RFPEncoding | NodeEncodingTransform):
        return given
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f"an encoding must be a mapping such as {{'name': 'rfp', 'num_channels': 16}}, got {given!r}"
        )
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    name = arguments.pop("name", None)
    names = ("rfp", *BASELINES)
    if name not in names:
        raise unknown_choice("the name of an encoding", name, names)
    if name in ("rfp", "rnf"):
        arguments = _with_new_names(arguments)
    if name == "rnf":
        arguments = {"num_steps": 0, **arguments}
    kind: Any = RFPEncoding if name in ("rfp", "rnf") else BASELINES[name]
    made: ModelEncoding = kind(**field_values(kind, arguments, f"encoding {name!r}"))
    return made


def _with_new_names(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an RFP encoding under the names they have today."""
    renamed: dict[str, Any] = {}
    for name, value in arguments.items():
        new, values = _OLD_NAMES.get(name, (name, None))
        if new in renamed or (new != name and new in arguments):
            raise ArgumentError(f"{name}={value!r} is an old name of {new}, which is given too; leave one of them out")
        if values is not None and not (isinstance(value, bool) and value in values):
            raise ArgumentError(f"{name} must be true or false, got {value!r}; its new name is {new}")
        renamed[new] = value if values is None else values[value]
    return renamed


@dataclass(frozen=True)
class ModelConfig:
    """All of a model: encodings, K_embed, backbone, readout, head.

    Args:
        out_channels: Width of the answer (classes, or 1 for a regression).
        task: ``"graph"``, ``"node"`` or ``"link"``.
        in_channels: Width of the node features ``x``; 0 if there are none. Not used with a ``node_encoder``.
        node_encoder: ``"zinc"`` or ``"ogb"`` for atoms, ``"none"`` for floating-point features.
        edge_encoder: ``"zinc"`` or ``"ogb"`` for bonds, ``"linear"`` for floating-point features, ``"none"``.
        edge_channels: Width of ``edge_attr`` for ``edge_encoder="linear"``.
        encodings: Any list of encodings, as objects or as ``{"name": ..., **arguments}``; an empty one for none. Left
            out it is RFP with its defaults.
        trajectories: How B trajectories are processed: ``"concatenate"`` them for each node, keep them
            ``"independent"`` with shared weights, or let them meet in every layer by ``"dss"``.
        dss_aggregation: ``"sum"`` or ``"mean"`` over trajectories inside DSS.
        trajectory_readout: Over trajectories at the end: ``"sum"``, ``"mean"`` or ``"max"``, between the two networks
            of a DeepSets for graphs, as it is for nodes.
        trajectory_layers: Layers before the trajectories are pooled, node by node, by ``trajectory_readout``: the
            layers after them see one state a node, and there is no DeepSets. ``None`` for all layers. For
            ``"independent"`` and ``"dss"``.
        backbone: A key of :data:`rfp.nn.backbones.BACKBONES`.
        hidden_channels: Width.
        num_layers: Depth.
        residual: Skip connections.
        norm: ``"batch"``, ``"layer"`` or ``"none"``.
        activation: σ and the layers' non-linearity.
        embed: K_embed: ``"linear"`` (the paper's), ``"products"`` of the trajectories in place of the random numbers
            themselves (:class:`rfp.nn.TrajectoryProducts`), or ``"both"``.
        edge_products: Add the products of both ends of an edge to its features, for ``"gine"`` and ``"gps"``; of
            several trajectories the mean.
        product_channels: m, products a node (and an edge) has.
        product_weights: Learn a weight α for each channel: for ordered channels, as those of a QR.
        product_norm: After the products: ``"batch"``, ``"layer"``, ``"none"``, or ``"settled"`` (by statistics of the
            first batches: :class:`~rfp.nn.settled_norm.SettledNorm`); ``"auto"`` is ``"batch"`` in a model with
            ``norm="batch"`` and else ``"layer"``.
        product_scale: ``"nodes"`` multiplies the products by the number of nodes of their graph: for states whose
            columns have unit length, whose products shrink as graphs grow. ``"none"`` leaves them as they are.
        product_layers: Linear maps of the perceptron after them.
        embed_activation: Whether σ follows K_embed (it is optional in Eq. 4).
        dropout: After every layer.
        input_dropout: On the node features and encodings.
        num_heads: Number of heads of GPS.
        attention_dropout: Probability with which a weight of GPS's attention is left out in training.
        initial_residual: α of GCNII, from 0 to 1: the part of the first layer's input in every layer.
        identity_mapping: λ of GCNII, above 0: how far a layer's map is from the identity.
        readout: Over nodes: ``"sum"``, ``"mean"`` or ``"max"``.
        num_head_layers: Linear maps of the head.
        pair_products: For links: the head reads products of the trajectories of both nodes (:mod:`rfp.nn.link_head`),
            which tell walks between them where steps are not normalised.
        pair_degrees: For links: the head reads the degrees of both nodes.
        max_parameters: Refuse a model with more (500,000 on ZINC); ``None`` for no limit.
    """

    out_channels: int
    task: str = "graph"
    in_channels: int = 0
    node_encoder: str = "none"
    edge_encoder: str = "none"
    edge_channels: int = 0
    encodings: tuple[Any, ...] = field(default_factory=lambda: (RFPEncoding(),))
    trajectories: str = "concatenate"
    dss_aggregation: str = "sum"
    trajectory_readout: str = "mean"
    trajectory_layers: int | None = None
    backbone: str = "gin"
    hidden_channels: int = 64
    num_layers: int = 4
    residual: bool = True
    norm: str = "batch"
    activation: str = "relu"
    embed: str = "linear"
    edge_products: bool = False
    product_channels: int = 64
    product_weights: bool = False
    product_norm: str = "auto"
    product_scale: str = "none"
    product_layers: int = 2
    embed_activation: bool = True
    dropout: float = 0.0
    input_dropout: float = 0.0
    num_heads: int = 4
    attention_dropout: float = 0.0
    initial_residual: float = INITIAL_RESIDUAL
    identity_mapping: float = IDENTITY_MAPPING
    readout: str = "sum"
    num_head_layers: int = 2
    pair_products: bool = False
    pair_degrees: bool = True
    max_parameters: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.encodings, list | tuple):
            raise ArgumentError(f"encodings must be a list, [] for none, got {self.encodings!r}")
        object.__setattr__(self, "encodings", tuple(read_encoding(e) for e in self.encodings))
        choices: dict[str, Any] = {
            "task": LEVELS,
            "node_encoder": ("none", *ATOM_FEATURES),
            "edge_encoder": ("none", "linear", *BOND_FEATURES),
            "trajectories": TRAJECTORIES,
            "dss_aggregation": ("sum", "mean"),
            "trajectory_readout": READOUTS,
            "backbone": BACKBONES,
            "norm": LAYER_NORMS,
            "embed": EMBEDDINGS,
            "product_norm": ("auto", *PRODUCT_NORMS),
            "product_scale": ("none", "nodes"),
            "activation": ACTIVATIONS,
            "readout": READOUTS,
        }
        for name, least in _LEAST.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_integer(name, getattr(self, name), least))
        check_types(self, choices)
        for name in ("dropout", "input_dropout", "attention_dropout", "initial_residual"):
            if not 0 <= getattr(self, name) <= 1:
                raise ArgumentError(f"{name} must be from 0 to 1, got {getattr(self, name)}")
        if self.trajectory_layers is not None:
            object.__setattr__(self, "trajectory_layers", self._checked_trajectory_layers())
        if self.edge_encoder == "linear" and self.edge_channels < 1:
            raise ArgumentError('edge_encoder="linear" needs edge_channels, the width of edge_attr')
        if self.backbone == "gine" and self.edge_encoder == "none" and not self.edge_products:
            raise ArgumentError('backbone="gine" reads edge features: set edge_encoder, or use backbone="gin"')
        if self.edge_encoder != "none" and self.backbone not in READ_EDGE_FEATURES:
            raise ArgumentError(
                f'backbone="{self.backbone}" reads no edge features: set edge_encoder="none", or use "gine" or "gps"'
            )
        if self.attention_dropout and self.backbone not in ATTEND:
            raise ArgumentError(
                f'backbone="{self.backbone}" has no attention: leave attention_dropout out, or use "gps"'
            )
        usual = (INITIAL_RESIDUAL, IDENTITY_MAPPING)
        if (self.initial_residual, self.identity_mapping) != usual and self.backbone not in KEEP_START:
            raise ArgumentError(
                f'backbone="{self.backbone}" has no initial_residual and no identity_mapping: leave them out, or use '
                '"gcnii"'
            )
        if self.identity_mapping <= 0:
            raise ArgumentError(f"identity_mapping must be above 0, got {self.identity_mapping}")
        if not self.encodings and not self.in_channels and self.node_encoder == "none":
            raise ArgumentError("a model needs node features (in_channels, node_encoder) or at least one encoding")
        self._check_features()
        self._check_stored()
        self._check_products()
        if self.task == "link" and any(isinstance(e, RFPEncoding) and e.keep_draw for e in self.encodings):
            raise ArgumentError(
                "keep_draw keeps the draw of a graph that stays as it is; in link prediction every batch has a graph "
                "of its own, without the batch's edges: leave it out"
            )
        several = sorted({e.num_trajectories for e in self.encodings if isinstance(e, RFPEncoding)} - {1})
        if len(several) > 1:
            raise ArgumentError(f"encodings must agree on num_trajectories (or have 1), got {several}")

    def _checked_trajectory_layers(self) -> int:
        layers = as_integer("trajectory_layers", self.trajectory_layers, 0)
        if layers > self.num_layers:
            raise ArgumentError(f"trajectory_layers={layers} is more than num_layers={self.num_layers}")
        if self.trajectories == "concatenate":
            raise ArgumentError(
                'trajectory_layers pools trajectories that were kept apart: set trajectories="independent" or "dss", '
                "or leave it out"
            )
        return layers

    def _check_features(self) -> None:
        if self.in_channels or self.node_encoder != "none":
            return
        names = {kind: name for name, kind in BASELINES.items()}
        for e in self.encodings:
            if isinstance(e, NodeEncodingTransform) and e.needs_x:
                name = names.get(type(e), type(e).__name__)
                raise ArgumentError(f"encoding {name!r} propagates node features, and there are none; leave it out")

    def _check_stored(self) -> None:
        names = [e.attr_name for e in self.encodings if isinstance(e, NodeEncodingTransform) and e.attr_name]
        for name in names:
            if names.count(name) > 1:
                raise ArgumentError(
                    f"{names.count(name)} encodings are stored as {name!r}, where one would take the place of the "
                    "other; give each an attr_name of its own"
                )

    def _check_products(self) -> None:
        if self.pair_products and self.task != "link":
            raise ArgumentError(f"pair_products is for links, not for task={self.task!r}; leave it out")
        if self.pair_products and not any(isinstance(e, RFPEncoding) for e in self.encodings):
            raise ArgumentError('pair_products multiplies trajectories: add an encoding named "rfp", or leave it out')
        asked = "edge_products" if self.edge_products else f'embed="{self.embed}"' if self.embed != "linear" else ""
        if asked and not any(isinstance(e, RFPEncoding) for e in self.encodings):
            raise ArgumentError(f'{asked} multiplies trajectories: add an encoding named "rfp", or set embed="linear"')
        if self.edge_products and self.backbone not in READ_EDGE_FEATURES:
            raise ArgumentError(
                f'edge_products adds to edge features, which backbone="{self.backbone}" does not read; use "gine" or '
                '"gps", or set edge_products=False'
            )

    @property
    def products(self) -> ProductOptions:
        """What ``product_*`` say."""
        norm = self.product_norm
        if norm == "auto":
            norm = "batch" if self.norm == "batch" else "layer"
        return ProductOptions(
            self.product_channels, self.product_weights, norm, self.activation, num_layers=self.product_layers
        )

    @property
    def num_trajectories(self) -> int:
        """B, the largest over the encodings."""
        return max([1, *(e.num_trajectories for e in self.encodings if isinstance(e, RFPEncoding))])

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelConfig:
        """A config from plain values, such as a parsed YAML file; unknown keys are errors."""
        return cls(**field_values(cls, values, "the model's config"))

    def to_dict(self) -> dict[str, Any]:
        """Plain values that :meth:`from_dict` reads back, for result files.

        Raises:
            ArgumentError: An encoding is an object of a class that has no name in configs.
        """
        encodings = [{"name": _name_of(e), **as_plain(e)} for e in self.encodings]
        return {**{f.name: getattr(self, f.name) for f in fields(self)}, "encodings": encodings}


def _name_of(encoding: ModelEncoding) -> str:
    """What a config calls an encoding."""
    if isinstance(encoding, RFPEncoding):
        return "rfp"
    for name, kind in BASELINES.items():
        if kind is type(encoding):
            return name
    raise ArgumentError(
        f"{type(encoding).__name__} has no name by which a config could read it back; those that have one are rfp, "
        f"{', '.join(BASELINES)} (a transform of your own is one line in rfp.transforms.BASELINES)"
    )
