"""Tables of edges: joined, shown, and made into graphs."""

import numpy as np
import pyarrow as pa
import pytest

from rfp.edge_table.table import EdgeTable, direction_of, join_tables, load_table, no_edges
from rfp.edge_table.table_options import TableOptions
from rfp.errors import GraphError


def integers(*pairs: tuple[int, int], weight: list[float] | None = None, name: str = "t", **more: object) -> EdgeTable:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    values = None if weight is None else np.array(weight)
    return EdgeTable(ends, None, values, lambda row: f"{name}, line {row + 1}", **more)  # type: ignore[arg-type]


def texts(*pairs: tuple[str, str], name: str = "t") -> EdgeTable:
    source, target = zip(*pairs, strict=True)
    return EdgeTable(None, (pa.array(source), pa.array(target)), None, lambda row: f"{name}, line {row + 1}")


def test_first_edges() -> None:
    many = integers((0, 1), (1, 2), (2, 3), (3, 4), weight=[1, 0.5, 1e6, 2])
    assert many.num_rows == 4
    assert many.first_edges() == (("0", "1", "1"), ("1", "2", "0.5"), ("2", "3", "1e+06"))
    assert texts(("a b", "c")).first_edges() == (("a b", "c"),)
    assert (no_edges("f").num_rows, no_edges("f").first_edges()) == (0, ())


def test_joined_rows_know_where_they_stand() -> None:
    parts = [integers((0, 1), (1, 2), name="a"), no_edges("b"), integers((2, 3), name="c", ignored=("'x'",))]
    whole = join_tables(parts)
    assert whole.integers is not None
    assert whole.integers.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert [whole.where(row) for row in range(3)] == ["a, line 1", "a, line 2", "c, line 1"]
    assert (whole.facts["files"], whole.ignored) == ("3", ("'x'",))
    assert join_tables(parts[:1]) is parts[0]


def test_one_table_of_texts_makes_all_text() -> None:
    whole = join_tables([integers((7, 8)), texts(("8", "a"))])
    assert whole.texts is not None
    assert [column.to_pylist() for column in whole.texts] == [["7", "8"], ["8", "a"]]


def test_tables_that_do_not_go_together() -> None:
    with pytest.raises(GraphError, match="a, line 1 has a weight and b, line 1 has none"):
        join_tables([integers((0, 1), name="b"), integers((1, 2), weight=[2.0], name="a")])
    with pytest.raises(GraphError, match="some of the files say that their edges are directed"):
        join_tables([integers((0, 1), directed=True), integers((1, 2))])
    join_tables([integers((0, 1), weight=[1.0], directed=True), no_edges("f")])  # one without rows says nothing


def where(row: int) -> str:
    return f"row {row}"


def test_direction() -> None:
    assert direction_of(pa.array(["Directed", "directed"]), None, where) is True
    assert direction_of(pa.array(["Undirected"]), None, where) is False
    assert direction_of(pa.array(["friend", "Directed"]), None, where) is None
    assert direction_of(pa.array([], pa.string()), None, where) is None
    mixed = pa.array(["Directed", "Undirected"])
    with pytest.raises(GraphError, match="row 1: type Undirected, but Directed before"):
        direction_of(mixed, None, where)
    assert direction_of(mixed, False, where) is True  # what was asked for decides


def test_loaded() -> None:
    loaded = load_table(integers((5, 9), (9, 5), (7, 9), facts={"separator": "comma"}), TableOptions(), "f")
    assert loaded.graph.to_scipy().toarray().tolist() == [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == [5, 7, 9]
    assert loaded.facts == {"separator": "comma", "ids": "integers", "duplicates": "1 of 3 lines merged (equal)"}
    assert loaded.weights is None
    counted = load_table(integers((0, 1), (0, 1)), TableOptions(duplicates="sum"), "f")
    assert counted.weights == "the number of lines of an edge"
    assert counted.graph.to_scipy().toarray().tolist() == [[0, 2], [2, 0]]


def test_what_the_table_says_of_direction_and_what_is_asked_for() -> None:
    table = integers((0, 1), directed=True)
    assert load_table(table, TableOptions(), "f").facts["direction"] == "directed, as the column of types says"
    assert load_table(table, TableOptions(), "f").graph.num_edges == 1
    asked = load_table(table, TableOptions(directed=False), "f")
    assert asked.graph.num_edges == 2
    assert "direction" not in asked.facts


def test_no_edges() -> None:
    with pytest.raises(GraphError, match="f holds no edges; expected lines such as 0,1"):
        load_table(no_edges("f"), TableOptions(), "f")
    assert load_table(no_edges("f"), TableOptions(num_nodes=4), "f").graph.num_nodes == 4


@pytest.mark.parametrize("name", ["a", "01", "-1", "٣", "9" * 19])
def test_num_nodes_wants_node_numbers(name: str) -> None:
    with pytest.raises(GraphError, match=r"t, line 2: node id .* is not a node number, which --num-nodes asks for"):
        load_table(texts(("0", "1"), ("1", name)), TableOptions(num_nodes=5), "f")
