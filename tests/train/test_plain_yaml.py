"""YAML in which numbers are numbers, and nothing but plain values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from rfp.train.plain_yaml import parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[
            ("1e-3", 1e-3),
            ("1E5", 1e5),
            ("-2e+2", -200.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("+.5e1", 5.0),
            ("1.5e-4", 1.5e-4),
        ],
        *[("3", 3), ("-3", -3), ("0", 0), ("null", None), ("true", True), ("text", "text"), ("e3", "e3"), ("1e", "1e")],
        *[
            ("32-true", "32-true"),
            ("1.2.3", "1.2.3"),
            ("[1e-3, 2]", [0.001, 2]),
            ("'1e-3'", "1e-3"),
            (".inf", math.inf),
        ],
    ],
)
def test_values(text: str, value: Any) -> None:
    parsed = parse_yaml(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_no_code() -> None:
    with pytest.raises(yaml.YAMLError):
        parse_yaml("!!python/object/apply:os.system ['true']")
