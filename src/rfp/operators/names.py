"""Names of operators: a predefined one and its suffixes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rfp.errors import ArgumentError, unknown_choice
from rfp.operators.predefined import OPERATORS

# One word for a directed graph.
BOTH_DIRECTIONS = "both_directions"

_NAME = re.compile(r"(?P<base>[a-z_]+)(?P<sym>\.sym)?(?P<transposed>\.T)?(\^(?P<power>\d+))?")


def parse_name(name: str, others: Sequence[str] = ()) -> re.Match[str]:
    """The parts of an operator's name: ``base``, ``sym``, ``transposed``, ``power``; raises if there is no such name.

    Args:
        name: Such as ``"adjacency.sym.T^2"``.
        others: Further names to list in the error.
    """
    parts = _NAME.fullmatch(name)
    if parts is None or parts["base"] not in OPERATORS:
        known = (*OPERATORS, BOTH_DIRECTIONS, *others)
        raise unknown_choice("operator (without the suffixes .sym .T .both ^p)", name, known)
    if parts["power"] is not None and int(parts["power"]) < 1:
        raise ArgumentError(f"the power of an operator must be at least 1, got {name!r}")
    return parts


_BOTH = re.compile(r"(?P<base>[a-z_]+)\.both(?P<power>\^\d+)?")


def expanded(name: str) -> tuple[str, ...]:
    """The operators that a name stands for: two for ``NAME.both`` and ``"both_directions"``, else the one.

    Example:
        >>> expanded("both_directions"), expanded("adjacency.both^2"), expanded("adjacency")
        (('normalized_adjacency', 'normalized_adjacency.T'), ('adjacency^2', 'adjacency.T^2'), ('adjacency',))
    """
    parts = _BOTH.fullmatch("normalized_adjacency.both" if name == BOTH_DIRECTIONS else name)
    if parts is None:
        return (name,)
    power = parts["power"] or ""
    return (parts["base"] + power, parts["base"] + ".T" + power)
