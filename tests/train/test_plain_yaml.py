"""YAML in which numbers are numbers, and nothing but plain values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from rfp.train.plain_yaml import KeyTwiceError, parse_yaml


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


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\na: 3", "{b: {c: 1}, d: [{e: 1,\n\ne: 1}]}", "x: &x {a: 1}\ny:\n  <<: *x\n  a: 2\n  a: 3"]
)
def test_a_key_is_there_once(text: str) -> None:
    with pytest.raises(KeyTwiceError, match=r"^line [35]: '[ae]' is there twice; keep one of them$"):
        parse_yaml(text)
    assert parse_yaml("x: &x {a: 1}\ny:\n  <<: *x\n  a: 2")["y"] == {"a": 2}
