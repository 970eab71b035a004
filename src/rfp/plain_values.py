"""Between dataclasses and the plain values of a YAML or JSON file: one reader for every config, and the way back.

OmegaConf and cattrs were tried in its place. OmegaConf refuses fields that are mappings of anything, which a run's
config has; cattrs takes 2.5 for an integer, and says of a wrong key only that it is one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rfp.errors import ArgumentError, unknown_choice


def field_values(kind: type, values: Any, what: str, *, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The arguments of a dataclass from plain values; its own constructor checks them.

    Args:
        kind: The dataclass.
        values: A mapping, as it was read.
        what: What it is, for errors.
        names: Keys of fields that have another name in files.

    Raises:
        ArgumentError: It is no mapping, or has a key that is no field.

    Example:
        >>> from rfp.settings import Settings
        >>> field_values(Settings, {"seed": 3}, "the encoding")
        {'seed': 3}
        >>> field_values(Settings, [3], "the encoding")
        Traceback (most recent call last):
        ...
        rfp.errors.ArgumentError: the encoding must be a mapping of keys to values, got [3]
    """
    if not isinstance(values, Mapping):
        raise ArgumentError(f"{what} must be a mapping of keys to values, got {values!r}")
    known = {(names or {}).get(f.name, f.name): f.name for f in fields(kind)}
    for key in values:
        if key not in known:
            raise unknown_choice(f"a key of {what}", key, known)
    return {known[key]: value for key, value in values.items()}


def check_types(config: Any, choices: Mapping[str, Any] | None = None) -> None:
    """Raise where a field is not of its default's type: to YAML a "no" in quotes is text, which would count as true.

    NumPy's numbers become Python's, which alone can be written to a file.

    Args:
        config: A dataclass. Fields without a default, or whose default is ``None`` or an object, are left alone.
        choices: What some of its fields may be; ``None`` where that is the default.

    Raises:
        ArgumentError: It says which field, what it must be and what it is.
    """
    for f in fields(config):
        value = getattr(config, f.name)
        if isinstance(value, np.generic):
            value = value.item()
            object.__setattr__(config, f.name, value)
        allowed = (choices or {}).get(f.name)
        if allowed is not None:
            if not (value is None and f.default is None) and not (isinstance(value, str) and value in allowed):
                raise unknown_choice(f.name, value, allowed)
        elif expected := _unlike(value, f.default):
            raise ArgumentError(f"{f.name} must be {expected}, got {value!r}")


def _unlike(value: Any, default: Any) -> str:
    """What a value must be that is not of its default's type; empty if it is."""
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "true or false"
    if isinstance(default, str):
        return "" if isinstance(value, str) else "text"
    if not isinstance(default, int | float):
        return ""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "a number"
    if not math.isfinite(value):
        return "finite"
    return "an integer" if isinstance(default, int) and not isinstance(value, int) else ""


def as_plain(value: Any) -> Any:
    """The same as YAML and JSON write it: tuples as lists, types by name, paths as text, dataclasses as mappings.

    Example:
        >>> as_plain({"size": (2, 3), "dtype": torch.float16})
        {'size': [2, 3], 'dtype': 'float16'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(inner) for inner in value]
    if isinstance(value, torch.dtype):
        return str(value).removeprefix("torch.")
    return str(value) if isinstance(value, Path) else value
