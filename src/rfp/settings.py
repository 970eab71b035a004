"""The arguments of an encoding, in one frozen object: checked once, printed whole, hashed for caches.

Every face holds one: :func:`rfp.encode`, :func:`rfp.propagate`, :func:`rfp.states`, :func:`rfp.streaming.stream` and
:func:`rfp.estimate` take a :class:`Settings`, its fields as keywords, or both (a keyword replaces the field); the
transform and a model's config are dataclasses that inherit its fields; the module and the command make one. A new
argument is a field here, and its line in :class:`Arguments` for type checkers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import index
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import numpy as np
import torch

from rfp.errors import ArgumentError, check_names, unknown_choice
from rfp.features import DISTRIBUTIONS, Distribution
from rfp.normalization import NORMALIZATIONS, NormalizationChoice, named
from rfp.operators import expanded, parse_name

# Half precision is for storage only: Gram matrices of half-precision states lose orthogonality within a few steps.
COMPUTE_DTYPES = (torch.float32, torch.float64)
STORAGE_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# How the features begin, and the normalisation N0 that does it: a^(0) = N0(r).
STARTS = {"drawn": "none", "unit": "l2", "orthonormal": "qr"}
# What may be asked for; `rfp.backends` has the backends themselves, a test compares the two.
BACKEND_NAMES = ("auto", "learned", "fused", "cuda_sparse", "compiled", "sparse", "reference")

Function = TypeVar("Function", bound=Callable[..., Any])


class LoopArguments(TypedDict, total=False):
    """The fields of :class:`Settings` that :func:`rfp.propagate` takes: all but those that make its two objects."""

    num_steps: int
    normalization: NormalizationChoice
    normalize_every: int
    start: str
    storage_dtype: torch.dtype | str | None
    backend: str
    strict: bool


class Arguments(LoopArguments, total=False):
    """The fields of :class:`Settings` as keywords."""

    num_channels: int
    operators: list[Any] | tuple[Any, ...]
    num_trajectories: int
    distribution: Distribution
    seed: int
    dtype: torch.dtype | str
    cache: str | Path | None


@dataclass(frozen=True)
class Settings:
    """All arguments of an encoding: what defines it, in the paper's terms, and how it is computed.

    Args:
        num_channels: k, the number of channels.
        num_steps: P, the number of propagation steps. 0 gives plain random node features.
        operators: The operators S. Each is a name (:mod:`rfp.operators`), a matrix, a callable ``a -> S a`` or an
            :class:`~rfp.operators.Operator`. All start from the same features. ``"both_directions"`` stands for two:
            along the edges of a directed graph and against them.
        normalization: N: ``"qr"``, ``"l2"``, ``"none"``, ``"inverse_gram"``, a function of :mod:`rfp.normalization`, or
            a callable ``(a [B, n, k], ptr) -> a``.
        normalize_every: w: normalise every w steps.
        num_trajectories: B, the number of trajectories. They share every sparse product.
        distribution: Of the random features: ``"normal"``, ``"rademacher"``, ``"uniform"``, or a callable
            (:func:`~rfp.features.random_features`).
        start: How the features begin, for each graph and trajectory: as ``"drawn"``, with columns of ``"unit"`` length,
            or ``"orthonormal"``. The last is the Q of their own QR, in which columns that depend on earlier ones, and
            those beyond the n-th, are zero. All steps follow from this start.
        seed: Any integer. The draw is a pure function of (seed, graph content, trajectory, node, channel).
        dtype: Precision of the computation, ``torch.float32`` or ``torch.float64``, or its name.
        storage_dtype: Precision of the result, if different.
        backend: ``"auto"``, or one of :data:`BACKEND_NAMES`.
        strict: Raise if the result departs from a plain full-rank QR (dependent columns).
        cache: Folder of stored encodings, keyed by the content of the graph, every argument and the version.

    Example:
        >>> Settings(num_channels=3, num_steps=4, operators=["adjacency", "random_walk"]).num_columns
        30
        >>> Settings(normalization="qrr")
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: normalization must be one of 'l2', 'qr', 'inverse_gram', 'none', got 'qrr'
    """

    num_channels: int = 16
    num_steps: int = 16
    operators: list[Any] | tuple[Any, ...] = ("normalized_adjacency",)
    normalization: NormalizationChoice = "qr"
    normalize_every: int = 1
    num_trajectories: int = 1
    distribution: Distribution = "normal"
    start: str = "drawn"
    seed: int = 0
    dtype: torch.dtype = torch.float32
    storage_dtype: torch.dtype | None = None
    backend: str = "auto"
    strict: bool = False
    cache: str | Path | None = None

    def __post_init__(self) -> None:
        for name, least in (("num_channels", 1), ("num_steps", 0), ("normalize_every", 1), ("num_trajectories", 1)):
            self._set(name, as_integer(name, getattr(self, name), least))
        self._set("seed", as_integer("seed", self.seed))
        self._set("operators", self._checked_operators())
        self._set("normalization", _normalization(self.normalization))
        if not callable(self.distribution) and self.distribution not in DISTRIBUTIONS:
            raise unknown_choice("distribution", self.distribution, DISTRIBUTIONS)
        if self.start not in STARTS:
            raise unknown_choice("start", self.start, STARTS)
        if self.backend not in BACKEND_NAMES:
            raise unknown_choice("backend", self.backend, BACKEND_NAMES)
        self._set("dtype", _dtype("dtype", self.dtype))
        if self.dtype not in COMPUTE_DTYPES:
            raise ArgumentError(
                f"dtype must be torch.float32 or torch.float64, got {self.dtype}; "
                "to keep the result in half precision set storage_dtype"
            )
        if self.storage_dtype is not None:
            self._set("storage_dtype", _dtype("storage_dtype", self.storage_dtype))
            if self.storage_dtype not in STORAGE_DTYPES:
                names = ", ".join(map(str, STORAGE_DTYPES))
                raise ArgumentError(f"storage_dtype must be a floating-point type ({names}), got {self.storage_dtype}")
        if not isinstance(self.strict, bool):
            raise ArgumentError(f"strict must be True or False, got {self.strict!r}")
        if not isinstance(self.cache, str | Path | None):
            raise ArgumentError(f"cache must be the path of a folder or None, got {self.cache!r}")

    @classmethod
    def of(cls, settings: Settings | None, arguments: Mapping[str, Any]) -> Settings:
        """Plain settings from what a face was given: those of another (or the defaults), with some fields replaced."""
        known = [f.name for f in fields(Settings)]
        check_names("an argument of an encoding", arguments, known)
        if settings is not None and not isinstance(settings, Settings):
            raise ArgumentError(
                f"settings must be an rfp.Settings, got {type(settings).__name__}; give arguments by name, "
                "such as num_channels=16"
            )
        if type(settings) is Settings and not arguments:
            return settings
        given = {} if settings is None else {name: getattr(settings, name) for name in known}
        return Settings(**{**given, **arguments})

    def with_seed(self, seed: int, cache: str | Path | None = None) -> Settings:
        """The same with another seed and cache, both of the right type: all else has been checked already."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, seed=seed, cache=cache)
        return other

    @property
    def num_columns(self) -> int:
        """C = O (P + 1) k, the length of a node's encoding in one trajectory."""
        return len(self.operators) * (self.num_steps + 1) * self.num_channels

    def stored_shape(self, num_nodes: int, num_kept: int | None = None) -> tuple[int, ...]:
        """Of the encoding of a graph as it is stored, node-first: ``[n, C]``, or ``[n, B, C]`` if B > 1.

        Args:
            num_nodes: n.
            num_kept: Steps that are kept, if not all P + 1.
        """
        several = (self.num_trajectories,) if self.num_trajectories > 1 else ()
        steps = self.num_steps + 1 if num_kept is None else num_kept
        return (num_nodes, *several, self.num_columns // (self.num_steps + 1) * steps)

    @property
    def kept_dtype(self) -> torch.dtype:
        """Precision of the result."""
        return self.storage_dtype or self.dtype

    def as_text(self, leave_out: Sequence[str] = ()) -> str:
        """All fields as ``name=value``, for a ``repr`` that tells two encodings apart."""
        return ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name not in leave_out)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _checked_operators(self) -> tuple[Any, ...]:
        if not isinstance(self.operators, list | tuple) or not self.operators:
            raise ArgumentError(f'operators must be a non-empty list such as ["adjacency"], got {self.operators!r}')
        others = self._other_operators()
        chosen: list[Any] = []
        for operator in self.operators:
            names = expanded(operator) if isinstance(operator, str) and operator not in others else ()
            for name in names:
                parse_name(name, others)
            chosen += names or (operator,)
        return tuple(chosen)

    def _other_operators(self) -> tuple[str, ...]:
        """Names beside those of :mod:`rfp.operators` that a kind of settings knows what to do with."""
        return ()


def as_integer(name: str, value: Any, least: int | None = None) -> int:
    """The value as an ``int``; NumPy's and torch's integers count, booleans do not."""
    expected = "an integer" if least is None else f"an integer of at least {least}"
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        off = '; to switch normalisation off use normalization="none"' if name == "normalize_every" else ""
        raise ArgumentError(f"{name} must be {expected}, got {value!r}{off}")
    return number


def as_boolean(name: str, value: Any) -> bool:
    """The value as a ``bool``; text, which is true whatever it says, and numbers do not count."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} must be true or false, got {value!r}")
    return bool(value)


def _normalization(given: Any) -> NormalizationChoice:
    """A name, also for the library's own functions, whose fast forms are found by it; or a callable."""
    choice: NormalizationChoice = named(given)
    if callable(choice):
        return choice
    if choice not in NORMALIZATIONS:
        raise unknown_choice("normalization", choice, NORMALIZATIONS)
    return choice


def _dtype(name: str, given: Any) -> torch.dtype:
    """A torch type from itself or its name, ``"float16"``."""
    found = getattr(torch, given, None) if isinstance(given, str) else given
    if not isinstance(found, torch.dtype):
        raise ArgumentError(f"{name} must be a torch dtype such as torch.float32, or its name, got {given!r}")
    return found


def fields_among(kind: type[Any], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords that are fields of a dataclass, and the other ones."""
    own = {field.name for field in fields(kind)}
    mine = {name: value for name, value in arguments.items() if name in own}
    return mine, {name: value for name, value in arguments.items() if name not in own}


def shows_settings(arguments: type[Any], *holders: Any) -> Callable[[Function], Function]:
    """Let ``help`` and editors list, with their defaults, the fields that a face takes as keywords.

    Args:
        arguments: Which they are.
        holders: Dataclasses whose fields they are, or objects of them whose values are the defaults; :class:`Settings`
            if none is given.
    """

    def decorate(function: Function) -> Function:
        own = inspect.signature(function)
        named = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        kind = inspect.Parameter.KEYWORD_ONLY
        shown = [
            inspect.Parameter(f.name, kind, default=getattr(holder, f.name), annotation=f.type)
            for holder in holders or (Settings,)
            for f in fields(holder)
            if f.name in arguments.__annotations__
        ]
        function.__signature__ = own.replace(parameters=[*named, *shown])  # type: ignore[attr-defined]
        return function

    return decorate
