"""One reader for every config: what is no field is refused, what is written can be read back."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rfp.errors import ArgumentError
from rfp.plain_values import as_plain, check_types, field_values


@dataclass(frozen=True)
class Part:
    kind: str = "a"
    sizes: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Whole:
    part: Part = field(default_factory=Part)
    dtype: torch.dtype = torch.float64
    path: Path = Path("x")
    more: Any = None


def test_fields_by_their_names_in_files() -> None:
    assert field_values(Part, {"sizes": [3]}, "a part") == {"sizes": [3]}
    assert field_values(Part, {"class": "b"}, "a part", names={"kind": "class"}) == {"kind": "b"}
    with pytest.raises(ArgumentError, match="a key of a part must be one of 'class', 'sizes', got 'kind'"):
        field_values(Part, {"kind": "b"}, "a part", names={"kind": "class"})


@pytest.mark.parametrize("values", [None, 3, "kind", ["kind"]])
def test_what_is_no_mapping_is_refused(values: Any) -> None:
    with pytest.raises(ArgumentError, match="a part must be a mapping of keys to values, got "):
        field_values(Part, values, "a part")


def test_plain_values_all_the_way_down() -> None:
    plain = as_plain(Whole(more=[Part("b"), {"t": (torch.float16,)}]))
    parts = {"kind": "a", "sizes": [1, 2]}
    assert plain == {
        "part": parts,
        "dtype": "float64",
        "path": "x",
        "more": [{**parts, "kind": "b"}, {"t": ["float16"]}],
    }
    assert Part(**field_values(Part, plain["part"], "a part")).sizes == [1, 2]


@dataclass(frozen=True)
class Typed:
    on: bool = False
    rate: float = 0.5
    count: int = 1
    name: str = "a"
    level: str | None = None
    sizes: tuple[int, ...] = ()
    more: Any = field(default_factory=dict)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"on": "no"}, "on must be true or false, got 'no'"),
        ({"on": 1}, "on must be true or false, got 1"),
        ({"rate": "0.5"}, "rate must be a number, got '0.5'"),
        ({"rate": True}, "rate must be a number, got True"),
        ({"rate": float("inf")}, "rate must be finite, got inf"),
        ({"count": 1.0}, "count must be an integer, got 1.0"),
        ({"count": False}, "count must be a number, got False"),
        ({"name": "c"}, "name must be one of 'a', 'b', got 'c'"),
        ({"name": ["a"]}, r"name must be one of 'a', 'b', got \['a'\]"),
        ({"name": None}, "name must be one of 'a', 'b', got None"),
        ({"level": "edge"}, "level must be one of 'node', got 'edge'"),
    ],
)
def test_fields_are_of_their_defaults_types(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check_types(Typed(**values), {"name": ("a", "b"), "level": {"node": 1}})


@pytest.mark.parametrize("values", [{}, {"rate": 1}, {"on": True, "count": 0}, {"level": "node"}, {"sizes": "free"}])
def test_fields_that_are(values: dict[str, Any]) -> None:
    check_types(Typed(**values), {"name": {"a": 0, "b": 1}, "level": ("node",)})


def test_numbers_of_numpy_become_plain() -> None:
    one = Typed(on=np.bool_(True), rate=np.float32(0.25), count=np.int64(3))  # type: ignore[arg-type]
    check_types(one)
    assert [(type(value), value) for value in (one.on, one.rate, one.count)] == [(bool, True), (float, 0.25), (int, 3)]


def test_text_without_choices() -> None:
    with pytest.raises(ArgumentError, match="name must be text, got 3"):
        check_types(Typed(name=3))  # type: ignore[arg-type]
