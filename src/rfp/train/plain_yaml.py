"""YAML with plain values only, in which ``1e-3`` is a number.

YAML 1.1, which PyYAML reads, wants ``1.0e-3`` and takes ``1e-3`` for text: in a learning rate that is never meant.
"""

from __future__ import annotations

import re
from typing import Any

import yaml


class KeyTwiceError(yaml.YAMLError):  # type: ignore[misc]
    """A mapping has a key twice, of which PyYAML would silently take the last."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """The safe loader with the floating-point numbers of YAML 1.2 and of JSON, for which a key is there once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = (key_node.tag, key_node.value) if isinstance(key_node, yaml.ScalarNode) else None
            if key is not None and key in seen:
                line = key_node.start_mark.line + 1
                raise KeyTwiceError(f"line {line}: {key_node.value!r} is there twice; keep one of them")
            seen.add(key)
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return found


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$"),
    list("-+0123456789."),
)


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        yaml.YAMLError: The text is not YAML, or asks for more than plain values.
        KeyTwiceError: A mapping has a key twice.

    Example:
        >>> parse_yaml("lr: 1e-3"), parse_yaml("[2, .5, null, 1.]"), parse_yaml("0")
        ({'lr': 0.001}, [2, 0.5, None, 1.0], 0)
    """
    return yaml.load(text, Loader=_Loader)  # a subclass of SafeLoader
