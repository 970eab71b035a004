"""What a model reads of its data: node features, edge features, pairs of nodes and stored encodings, looked at first.

What does not fit is told in words, before a product of matrices fails on it. The encoders are parts of the model, which
calls these functions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn.model_config import ModelConfig
from rfp.nn.molecules import ATOM_FEATURES, BOND_FEATURES, CategoricalEncoder
from rfp.transforms import NodeEncodingTransform


def feature_widths(config: ModelConfig) -> tuple[int, int]:
    """Columns of the node features: as a model multiplies them, and as the data have them."""
    if config.node_encoder == "none":
        return config.in_channels, config.in_channels
    return config.hidden_channels, len(ATOM_FEATURES[config.node_encoder])


def build_node_encoder(config: ModelConfig) -> nn.Module | None:
    """What makes :math:`f^{in}` of categories; ``None`` where ``x`` is read as it is."""
    if config.node_encoder == "none":
        return None
    return CategoricalEncoder(ATOM_FEATURES[config.node_encoder], config.hidden_channels)


def build_edge_encoder(config: ModelConfig) -> nn.Module | None:
    """What makes ``edge_attr`` as wide as the model; ``None`` where that is not read."""
    if config.edge_encoder == "none":
        return None
    if config.edge_encoder == "linear":
        return nn.Linear(config.edge_channels, config.hidden_channels)
    return CategoricalEncoder(BOND_FEATURES[config.edge_encoder], config.hidden_channels)


def read_node_features(data: Any, config: ModelConfig, encoder: nn.Module | None, dtype: torch.dtype) -> Tensor | None:
    """``x``, encoded by the model's encoder or of its type: ``[n, d]``; ``None`` for a model that reads none.

    Args:
        data: Has ``x``.
        config: Of the model.
        encoder: From :func:`build_node_encoder`.
        dtype: Of the model's parameters.

    Raises:
        ArgumentError: It is missing, or of another width.
    """
    width = config.in_channels
    if encoder is None and not width:
        return None
    x: Tensor | None = data.x
    if encoder is not None:
        if x is None:
            raise ArgumentError(f'node_encoder="{config.node_encoder}" reads x, which the graph does not have')
        encoded: Tensor = encoder(x)
        return encoded
    if x is None or x.dim() != 2 or x.size(1) != width:
        got = "none" if x is None else list(x.shape)
        raise ArgumentError(f"x must have shape [n, in_channels={width}], got {got}")
    return x.to(dtype)


def read_edge_features(
    data: Any, config: ModelConfig, encoder: nn.Module, num_edges: int, dtype: torch.dtype
) -> Tensor:
    """``edge_attr``, encoded: ``[m, d]``.

    Args:
        data: Has ``edge_attr``.
        config: Of the model.
        encoder: From :func:`build_edge_encoder`.
        num_edges: m.
        dtype: Of the model's parameters.

    Raises:
        ArgumentError: It is missing, or of another shape.
    """
    width, given = config.edge_channels, data.edge_attr
    if given is None:
        raise ArgumentError(f'edge_encoder="{config.edge_encoder}" reads edge_attr, which the graph does not have')
    attr: Tensor = given
    if config.edge_encoder == "linear":
        attr = (attr[:, None] if attr.dim() == 1 else attr).to(dtype)
        if attr.shape != (num_edges, width):
            raise ArgumentError(
                f"edge_attr must have shape [m, edge_channels] = [{num_edges}, {width}], got {list(given.shape)}"
            )
    encoded: Tensor = encoder(attr)
    return encoded


def asked_pairs(data: Any) -> Tensor:
    """``pairs``, the links that are asked about: ``[2, p]``.

    Raises:
        ArgumentError: They are missing, or of another shape.
    """
    pairs: Tensor | None = getattr(data, "pairs", None)
    if pairs is None or pairs.dim() != 2 or pairs.size(0) != 2:
        got = "none" if pairs is None else list(pairs.shape)
        raise ArgumentError(f"pairs, the links that are asked about, must have shape [2, p], got {got}")
    return pairs


def stored_or_computed(data: Any, transform: NodeEncodingTransform, graph: Graph, width: int) -> Tensor:
    """The encoding of a transform, as the data carry it or else computed now: ``[n, width]``.

    Args:
        data: May have it under the name of the transform.
        transform: Which.
        graph: That of the data.
        width: What the transform says of its own width.

    Raises:
        ArgumentError: What is stored is of another width.
    """
    stored: Tensor | None = None if transform.attr_name is None else getattr(data, transform.attr_name, None)
    if stored is None:
        with torch.no_grad():
            stored = transform.encode_nodes(graph, data.x if transform.needs_x else None)
    if stored.shape[1:] != (width,):
        raise ArgumentError(
            f"the graph's {transform.attr_name} must have the shape [n, {width}] that {transform} gives it, got "
            f"{list(stored.shape)}: store it anew by precompute, or under an attr_name of its own"
        )
    return stored
