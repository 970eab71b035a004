"""Which columns hold the edges: by request, by name, by position."""

import pytest

from rfp.edge_table.columns import Columns, choose_columns
from rfp.errors import ArgumentError, GraphError
from rfp.io.options import ReadOptions


@pytest.mark.parametrize(
    ("names", "count", "options", "expected"),
    [
        (None, 2, ReadOptions(), Columns(0, 1, None)),
        (None, 3, ReadOptions(), Columns(0, 1, 2)),
        (None, 3, ReadOptions(unweighted=True), Columns(0, 1, None)),
        (["Source", "Target"], 2, ReadOptions(), Columns(0, 1, None)),
        (["weight", "dst", "src"], 3, ReadOptions(), Columns(2, 1, 0)),
        (
            ["from", "to", "year"],
            3,
            ReadOptions(),
            Columns(0, 1, None),
        ),  # a named column that is no weight is left alone
        (["", "a", "b"], 3, ReadOptions(), Columns(1, 2, None)),
        (["Unnamed: 0", "a", "w", "b"], 4, ReadOptions(), Columns(1, 3, 2)),
        (["source", "who"], 2, ReadOptions(), Columns(0, 1, None)),
        (["Source", "Target", "Type", "Weight"], 4, ReadOptions(), Columns(0, 1, 3, 2)),
        (["source", "target", "weight"], 3, ReadOptions(unweighted=True), Columns(0, 1, None)),
        (["a", "a", "b"], 3, ReadOptions(source="1", target="3"), Columns(0, 2, None)),
        (["a", "weight", "b"], 3, ReadOptions(), Columns(0, 2, 1)),
        (
            ["a", "b", "c", "d"],
            4,
            ReadOptions(source="d", target="b", weight="a"),
            Columns(3, 1, 0),
        ),
        (None, 4, ReadOptions(source="4", target="1"), Columns(3, 0, None)),
        (None, 4, ReadOptions(unweighted=True), Columns(0, 1, None)),
        (["a", "weight", "b"], 3, ReadOptions(unweighted=True), Columns(0, 2, None)),
        (["1", "2", "3"], 3, ReadOptions(source="3", target="1"), Columns(2, 0, None)),
    ],
)
def test_choice(names: list[str] | None, count: int, options: ReadOptions, expected: Columns) -> None:
    assert choose_columns(names, count, options, "f") == expected


@pytest.mark.parametrize(
    ("names", "count", "options", "message"),
    [
        (None, 1, ReadOptions(), "f has 1 column"),
        (None, 4, ReadOptions(), "f has 4 columns; expected two or three"),
        (None, 2, ReadOptions(source="1", target="1"), "different columns, got 1, 1"),
        (["source", "weight"], 2, ReadOptions(), "expected two, or usual names"),
        (["a", "b", "c"], 3, ReadOptions(), "f has 3 columns \\('a', 'b', 'c'\\); expected two, or usual names"),
        (["src", "dst", "src"], 3, ReadOptions(), "f has 2 columns named 'src'"),
        (["", "who", "weight"], 3, ReadOptions(unweighted=True), "f has 3 columns"),
        (["source", "target"], 2, ReadOptions(weight="target"), "different columns, got 'source', 'target', 'target'"),
    ],
)
def test_no_choice(names: list[str] | None, count: int, options: ReadOptions, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        choose_columns(names, count, options, "f")


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ArgumentError, match="--source x: f has no such column; it has a, b"):
        choose_columns(["a", "b"], 2, ReadOptions(source="x"), "f")
    with pytest.raises(ArgumentError, match="--weight 4: f has no such column; it has 1 to 3"):
        choose_columns(None, 3, ReadOptions(weight="4"), "f")


def test_a_name_that_is_there_twice() -> None:
    with pytest.raises(ArgumentError, match="--source a: f has several columns of this name"):
        choose_columns(["a", "a", "b"], 3, ReadOptions(source="a", target="b"), "f")


def test_weights_wanted_and_unwanted() -> None:
    with pytest.raises(ArgumentError, match="contradict"):
        ReadOptions(weight="3", unweighted=True)


def test_two_columns_that_mean_the_same_are_refused() -> None:
    with pytest.raises(GraphError, match="f has columns 'fromnodeid' and 'source', which mean the same; say which"):
        choose_columns(["FromNodeId", "source", "target"], 3, ReadOptions(), "f")
    assert choose_columns(["FromNodeId", "source", "target"], 3, ReadOptions(source="source"), "f").used == (1, 2)


def test_endless_names_are_cut_in_messages() -> None:
    with pytest.raises(GraphError) as error:
        choose_columns(["a" * 10_000, "b", "c", "d"], 4, ReadOptions(), "f")
    assert len(str(error.value)) < 400
