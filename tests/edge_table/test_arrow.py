"""Typed columns: which are read, what may be an id, what may be a weight."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from rfp.edge_table.arrow import table_of_columns
from rfp.edge_table.table import EdgeTable
from rfp.edge_table.table_options import TableOptions
from rfp.errors import GraphError


def read(columns: dict[str, Any], asked: list[int] | None = None, **options: Any) -> EdgeTable:
    arrays = [pa.array(values) for values in columns.values()]

    def by_position(positions: Sequence[int]) -> list[Any]:
        if asked is not None:
            asked.extend(positions)
        return [arrays[i] for i in positions]

    return table_of_columns(list(columns), by_position, TableOptions(**options), "t")


EDGES = {"source": [5, 7], "note": ["x", "y"], "target": [7, 9], "weight": [0.5, 2.0]}


def test_only_what_is_used_is_read() -> None:
    asked: list[int] = []
    table = read(EDGES, asked)
    assert asked == [0, 2, 3]
    assert table.integers is not None
    assert table.integers.tolist() == [[5, 7], [7, 9]]
    assert table.weight is not None
    assert table.weight.tolist() == [0.5, 2.0]
    assert (table.weights, table.ignored, table.directed) == ("column 'weight'", ("'note'",), None)
    assert table.facts == {"source": "column 'source'", "target": "column 'target'", "weight": "column 'weight'"}
    assert table.where(1) == "t, row 2"
    asked.clear()
    assert read(EDGES, asked, unweighted=True).weight is None
    assert asked == [0, 2]


@pytest.mark.parametrize(("kinds", "directed"), [(["Directed"] * 2, True), (["undirected"] * 2, False)])
def test_a_column_of_types_says_what_is_directed(kinds: list[str], directed: bool) -> None:
    for column in (pa.array(kinds), pa.array(kinds).dictionary_encode(), pa.array(kinds, pa.large_string())):
        table = read({**EDGES, "type": column})
        assert table.directed is directed
        assert table.ignored == ("'note'",)


@pytest.mark.parametrize("kinds", [["friend", "foe"], [1, 2]])
def test_a_type_of_another_meaning_is_ignored(kinds: list[Any]) -> None:
    table = read({**EDGES, "type": kinds})
    assert table.directed is None
    assert table.ignored == ("'note'", "'type'")


def test_integers_and_texts() -> None:
    assert read({"source": ["1", "2"], "target": ["2", "3"]}).texts is not None  # text stays text
    table = read({"source": ["1", "2"], "target": ["2", "3"]}, ids="int")
    assert table.integers is not None
    assert table.integers.tolist() == [[1, 2], [2, 3]]
    for columns in ({"source": [1, 2], "target": [2, 3]}, {"source": ["1", "2"], "target": [2, 3]}):
        mixed = read(columns, ids="text")
        assert mixed.texts is not None
        assert [column.to_pylist() for column in mixed.texts] == [["1", "2"], ["2", "3"]]
    small = {"source": pa.array([1, 200], pa.uint8()), "target": pa.array([0, -3], pa.int16())}
    assert read(small).integers.tolist() == [[1, 200], [0, -3]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"source": [1, None], "target": [2, 3]}, {}, "t, row 2: column 'source' is null"),
        ({**EDGES, "weight": [1.0, None]}, {}, "t, row 2: column 'weight' is null"),
        ({**EDGES, "weight": [1.0, float("nan")]}, {}, "t, row 2: weight nan is not finite"),
        ({**EDGES, "weight": ["1", "2"]}, {}, "t: the weights in column 'weight' must be numbers, got string"),
        ({**EDGES, "weight": [True, False]}, {}, "must be numbers, got bool"),
        ({"source": [1.0, 2.0], "target": [2, 3]}, {}, "node ids must be integers or text, got double and int64"),
        ({"source": ["a"], "target": ["b"]}, {"num_nodes": 3}, "with --num-nodes node ids must be integers"),
        ({"source": pa.array([2**63], pa.uint64()), "target": [1]}, {}, "larger than 2.63 - 1 .*--ids text"),
        ({"source": ["a", "b"], "target": ["b", "c"]}, {"ids": "int"}, "t, row 1: .*'a'"),
        ({"source": ["a", "b"], "target": ["b", ""]}, {}, "t, row 2: .*empty"),
    ],
)
def test_mistakes(columns: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read(columns, **options)
