"""One reader for every config: what is no field is refused, what is written can be read back."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from rfp.errors import ArgumentError
from rfp.plain_values import as_plain, field_values


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
