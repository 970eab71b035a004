"""What a backend is asked to compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import torch
from torch import Tensor

from rfp.errors import ArgumentError
from rfp.features import random_features
from rfp.graph import Graph
from rfp.node_offsets import check_offsets
from rfp.normalization import Events, NormalizationChoice, column_lengths
from rfp.operator_norms import check_range, rounding_norm
from rfp.operators import Operator, as_operators, check_within_graphs, factors
from rfp.rounding import Rounding, rounding_unit
from rfp.settings import COMPUTE_DTYPES, Settings

# What the kernels call the normalisations.
NORMALIZATION_CODES = {"none": 0, "l2": 1, "qr": 2}


class Step(NamedTuple):
    """One step of the loop.

    Args:
        state: ``[B, n, k]``.
        events: What its normalisation had to do.
        factor: W ``[num_graphs, B, k, k]`` with ``state = (S a) W``, where the normalisation is such a product and has
            formed it. Rows of S that were not there, those of new nodes, are normalised alike by it.
    """

    state: Tensor
    events: Events
    factor: Tensor | None = None


@dataclass(frozen=True)
class Draw:
    """Random features that nobody has asked for yet: a kernel that draws them itself saves writing and reading them.

    Args:
        settings: Say which.
        graph: Whose nodes are drawn for.
        graph_keys: Integers that name the graphs instead of their content.
    """

    settings: Settings
    graph: Graph
    graph_keys: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """``[B, n, k]``."""
        return torch.Size((self.settings.num_trajectories, self.graph.num_nodes, self.settings.num_channels))

    @property
    def dtype(self) -> torch.dtype:
        return self.settings.dtype

    @property
    def device(self) -> torch.device:
        return self.graph.device

    def features(self) -> Tensor:
        """The features, ``[B, n, k]``."""
        return draw_features(self.settings, self.graph, self.graph_keys)


@dataclass(frozen=True)
class Problem:
    """What Eq. 1-2 are computed from, resolved: operators are objects, features are there or known how to draw.

    Args:
        operators: One trajectory is computed for each.
        source: r, ``[B, n, k]``, float32 or float64; or a :class:`Draw` of it.
        ptr: ``[num_graphs + 1]`` on the device of the features.
        settings: The arguments of the loop; those that made operators and features have no meaning here.
        known_sizes: :attr:`size_range`, if it is known.
    """

    operators: tuple[Operator, ...]
    source: Tensor | Draw
    ptr: Tensor
    settings: Settings
    known_sizes: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if not self.operators:
            raise ArgumentError("at least one operator is needed, got none")
        if len(self.shape) != 3:
            raise ArgumentError(f"features must have shape [B, n, k], got {list(self.shape)}")
        if self.dtype not in COMPUTE_DTYPES:
            raise ArgumentError(f"states are computed in float32 or float64, got {self.dtype}")
        for operator in self.operators:
            if operator.num_nodes != self.shape[1]:
                raise ArgumentError(
                    f"the operator has {operator.num_nodes} rows but the features have {self.shape[1]} nodes"
                )

    @classmethod
    def of(
        cls, settings: Settings, graph: Graph, features: Tensor | None = None, graph_keys: Tensor | None = None
    ) -> Problem:
        """The problem of encoding a graph: operators built, features checked or to be drawn."""
        operators = as_operators(settings.operators, graph, settings.dtype)
        if features is None:
            return cls(operators, Draw(settings, graph, graph_keys), graph.offsets, settings)
        return cls.from_objects(operators, _given_features(features, graph, settings.dtype), graph.offsets, settings)

    @classmethod
    def from_objects(
        cls,
        operators: Operator | Sequence[Operator],
        features: Tensor,  # [B, n, k] or [n, k]
        ptr: Tensor | None,  # None for one graph
        settings: Settings,
    ) -> Problem:
        """The problem of operators and features that are there."""
        several = tuple(operators) if isinstance(operators, Sequence) else (operators,)
        if named := [operator for operator in (operators, *several) if isinstance(operator, str)]:
            raise ArgumentError(f"{named[0]!r} is a name; rfp.operators.from_name(name, graph) makes the operator")
        if features.dim() == 2:
            features = features[None]
        if not any(operator.differentiable for operator in several):
            features = features.detach()  # predefined operators run without autograd
        offsets = features.size(1) * torch.arange(2, device=features.device) if ptr is None else ptr
        return cls(several, features, offsets.to(features.device), settings)

    def checked(self) -> Problem:
        """The problem, if its offsets cut its nodes into graphs that no matrix joins: kernels look at none of it."""
        check_offsets(self.ptr, self.shape[1])
        if len(self.ptr) > 2:
            for operator in self.operators:
                check_within_graphs(operator, self.ptr)
        return self

    @cached_property
    def features(self) -> Tensor:
        """r, ``[B, n, k]``; drawn when it is first asked for."""
        return self.source.features() if isinstance(self.source, Draw) else self.source

    def draw_by(self, drawn: Callable[[Draw], Tensor]) -> None:
        """Have :attr:`features` drawn by a kernel, the same bit for bit, where they are to be drawn and are not yet."""
        if isinstance(self.source, Draw) and "features" not in self.__dict__:
            self.__dict__["features"] = drawn(self.source)

    @property
    def shape(self) -> torch.Size:
        """``[B, n, k]`` of a state; like the next two, known before anything is drawn."""
        return self.source.shape

    @property
    def dtype(self) -> torch.dtype:
        """Of the states while they are computed."""
        return self.source.dtype

    @property
    def device(self) -> torch.device:
        """Where they are computed."""
        return self.source.device

    @property
    def num_steps(self) -> int:
        """P."""
        return self.settings.num_steps

    @property
    def normalization(self) -> NormalizationChoice:
        """N."""
        return self.settings.normalization

    @property
    def normalize_every(self) -> int:
        """w."""
        return self.settings.normalize_every

    @property
    def kept_dtype(self) -> torch.dtype:
        """Type of the states that are kept."""
        return self.settings.storage_dtype or self.dtype

    @property
    def differentiable(self) -> bool:
        """Whether an operator is differentiated through."""
        return any(operator.differentiable for operator in self.operators)

    @cached_property
    def size_range(self) -> tuple[int, int]:
        """Nodes of the smallest and of the largest graph; waits for a GPU once if there are several graphs."""
        if self.known_sizes is not None:
            return self.known_sizes
        if len(self.ptr) <= 2:
            return self.shape[1], self.shape[1]
        if isinstance(self.source, Draw):
            return self.source.graph.size_range
        smallest, largest = torch.stack(torch.aminmax(self.ptr.diff())).tolist()
        return smallest, largest

    def rounding(self, operator: Operator) -> Rounding | None:
        """What the features' columns owe to rounding: nothing yet. ``None`` where no normalisation asks for it."""
        if self.normalization == "none" or not self.num_steps:
            return None
        lengths = column_lengths(self.features.detach(), self.ptr, self.size_range)
        norm = rounding_norm(factors(operator)[0], self.ptr, self.size_range[1])
        if norm is not None:
            self._check_range(operator, norm, lengths)
        return Rounding.start(norm, lengths, self.dtype)

    def rounding_units(self, operators: Sequence[Operator] | None = None) -> Tensor:
        """:func:`rounding_units` of its operators, or of some of them; zero where no normalisation asks for it."""
        operators = self.operators if operators is None else operators
        if self.normalization == "none" or not self.num_steps:
            return torch.zeros(len(operators), len(self.ptr) - 1, dtype=torch.float64, device=self.ptr.device)
        units = rounding_units(operators, self.ptr, self.dtype, self.size_range[1])
        if units.device.type == "cpu":
            for operator, unit in zip(operators, units, strict=True):
                self._check_range(operator, unit / rounding_unit(self.dtype), None)
        return units

    def _check_range(self, operator: Operator, norm: Tensor, lengths: Tensor | None) -> None:
        """:func:`rfp.operator_norms.check_range` of a matrix; a GPU, where such columns are zero, is not waited for.

        Args:
            operator: S. A learned one is not looked at: its rows are weights that add up to 1.
            norm: Of it, for each graph.
            lengths: Of the features' columns, if they are known.
        """
        if operator.differentiable or norm.device.type != "cpu" or self.num_steps < self.normalize_every:
            return
        start = 1.0  # of drawn features, and more
        if not isinstance(self.source, Draw):
            found = column_lengths(self.features.detach(), self.ptr, self.size_range) if lengths is None else lengths
            start = float(found.max())
        check_range(norm, start, self.normalize_every * len(factors(operator)), self.dtype)

    def gradients(self, operator: Operator) -> AbstractContextManager[object]:
        """Predefined operators run without autograd; a learned one is differentiated through."""
        return torch.set_grad_enabled(torch.is_grad_enabled() and operator.differentiable)


def tell_nobody(number: int) -> None:
    """What is told how many steps are done, where nobody asks."""


def draw_features(settings: Settings, graph: Graph, graph_keys: Tensor | None = None) -> Tensor:
    """The random features as they are drawn, ``[B, n, k]``."""
    return random_features(
        graph,
        num_channels=settings.num_channels,
        num_trajectories=settings.num_trajectories,
        distribution=settings.distribution,
        seed=settings.seed,
        dtype=settings.dtype,
        graph_keys=graph_keys,
    )


def _given_features(features: Tensor, graph: Graph, dtype: torch.dtype) -> Tensor:
    if features.dim() == 2:
        features = features[None]
    if features.dim() != 3 or features.size(1) != graph.num_nodes:
        raise ArgumentError(
            f"features must have shape [n, k] or [B, n, k] with n = {graph.num_nodes}, got {list(features.shape)}"
        )
    if not bool(torch.isfinite(features).all()):
        raise ArgumentError("features must be finite, got NaN or infinity; clean them or draw random ones")
    return features.to(graph.device, dtype)


def rounding_units(
    operators: Sequence[Operator], ptr: Tensor, dtype: torch.dtype, largest: int | None = None
) -> Tensor:
    r"""What rounding adds to a product, relative to its factor: :math:`u \lVert S \rVert` of :mod:`rfp.rounding`.

    Args:
        operators: Their norms must be known: matrices.
        ptr: ``[G + 1]``.
        dtype: Type of the states.
        largest: Nodes of the largest graph, if that is known.

    Returns:
        ``[O, G]`` float64, without waiting for a GPU.
    """
    norms = [cast(Tensor, rounding_norm(operator, ptr, largest)) for operator in operators]
    return (torch.stack(norms) if len(norms) > 1 else norms[0][None]) * rounding_unit(dtype)


def fold(a: Tensor) -> Tensor:
    """``[B, n, k] -> [n, B k]``: one sparse product serves all trajectories. Free when memory is node-first."""
    return a.transpose(0, 1).flatten(1)


def unfold(a: Tensor, like: Tensor) -> Tensor:
    """``[n, B k] -> [B, n, k]``, a view."""
    return a.view(like.size(1), like.size(0), like.size(2)).transpose(0, 1)
