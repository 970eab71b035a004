"""How the features behind an estimate are drawn, and what their mean products are worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

import torch

from rfp.errors import ArgumentError, check_names
from rfp.features import Distribution
from rfp.settings import Settings

# E[r^2] of the named distributions (:mod:`rfp.features`).
_VARIANCE = {"normal": 1.0, "rademacher": 1.0, "uniform": 1 / 3}


class DrawArguments(TypedDict, total=False):
    """How the features of a graph are drawn; see :class:`rfp.Settings`. A trajectory has its own."""

    num_channels: int
    num_trajectories: int
    distribution: Distribution
    start: str
    seed: int
    dtype: torch.dtype


def draw_settings(default: Settings, draw: Mapping[str, Any]) -> Settings:
    """The settings of a draw: the default ones, with what is given in their place."""
    check_names("an argument", draw, DrawArguments.__annotations__)
    return Settings.of(default, draw)


def variance_of(distribution: Distribution) -> float:
    """E[r²] of a named distribution: features as they are drawn have :math:`E[r r^\\top]` so many times I."""
    if not isinstance(distribution, str):
        raise ArgumentError(
            'the variance of a callable distribution is not known; use start="unit" or "orthonormal", whose scale does '
            "not depend on it"
        )
    return _VARIANCE[distribution]
