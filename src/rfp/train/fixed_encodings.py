"""The encodings of a model that do not change in training: computed once, on the device, for all its runs."""

from __future__ import annotations

import torch
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.nn import RFPModel


def fixed_encodings(
    model: RFPModel, graph: Graph, x: Tensor | None, known: dict[str, Tensor] | None = None
) -> dict[str, Tensor]:
    """Eigenvectors, random walks, propagated features, ... of a graph or batch, by the attribute the model looks for.

    Args:
        model: With any encodings.
        graph: All graphs of the data.
        x: Node features.
        known: Encodings by the text of their transform: taken from here, or put here, where models share them.
    """
    known = {} if known is None else known
    stored = {}
    for transform in model.fixed:
        if transform.attr_name is None:
            raise ArgumentError(f"{type(transform).__name__} in a model needs an attr_name, under which it is stored")
        if transform.needs_x and x is None:
            raise ArgumentError(f"{type(transform).__name__} propagates node features, but the graphs have no x")
        name = repr(transform)
        if name not in known:
            features = x if transform.needs_x else None
            features = features[:, None] if features is not None and features.dim() == 1 else features
            with torch.no_grad():
                known[name] = transform.encode_nodes(graph, features)
        stored[transform.attr_name] = known[name]
    return stored
