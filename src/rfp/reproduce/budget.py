"""The widest model within a budget of parameters, so that methods with larger inputs are compared at equal size."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from rfp.data import Task
from rfp.errors import ArgumentError
from rfp.nn import RFPModel
from rfp.nn.backbones import READ_EDGE_FEATURES

# Widths are multiples of this: the heads of GPS divide it.
MULTIPLE = 4


def widest(model: Mapping[str, Any], task: Task) -> int:
    """The largest ``hidden_channels`` with which the model has at most ``max_parameters``.

    Args:
        model: Values of a model's config, with ``max_parameters``.
        task: Task of a data set with categorical features, which say how wide the inputs are.

    Costs five models on the meta device: nothing is allocated.

    Example:
        >>> from rfp.data import DATASETS
        >>> widest({"backbone": "gine", "encodings": [], "max_parameters": 500_000}, DATASETS["zinc"].task)
        220
    """
    if task.categorical is None:
        raise ArgumentError(f"the inputs of {task.name!r} are known only when it is loaded; give hidden_channels")
    from_data = {"task": task.level.name, "out_channels": task.num_outputs, "node_encoder": task.categorical}
    if model.get("backbone", "gin") in READ_EDGE_FEATURES:
        from_data["edge_encoder"] = task.categorical
    return _widest(json.dumps({**from_data, **model, "max_parameters": None}), model["max_parameters"])


@cache
def _widest(model: str, budget: int) -> int:
    # Linear maps and norms: the count is a quadratic in the width, so three models tell where to look.
    low, middle, high = (_num_parameters(model, width * MULTIPLE) for width in (1, 2, 3))
    a = (high - 2 * middle + low) / 2
    b = middle - low - 3 * a
    c = low - a - b
    width = max(1, int((-b + math.sqrt(max(b * b - 4 * a * (c - budget), 0.0))) / (2 * a)))
    while width and _num_parameters(model, width * MULTIPLE) > budget:
        width -= 1
    while width and _num_parameters(model, (width + 1) * MULTIPLE) <= budget:
        width += 1
    if not width:
        raise ArgumentError(f"no width fits max_parameters={budget:,}; raise it, or take fewer layers")
    return width * MULTIPLE


def _num_parameters(model: str, width: int) -> int:
    with torch.device("meta"):
        return RFPModel({**json.loads(model), "hidden_channels": width}).num_parameters
