"""Lines with the same ends."""

import numpy as np
import pytest

from rfp.edge_table.duplicates import both_ways, merge_duplicates
from rfp.errors import GraphError

LINES = np.array([[2, 1, 0, 2], [1, 0, 1, 1]])  # 2 1, 1 0, 0 1, 2 1
WEIGHT = np.array([1.0, 2.0, 5.0, 1.0])


def merged(
    directed: bool, duplicates: str | None, weight: np.ndarray | None = None, num_nodes: int = 3
) -> list[object]:
    edges, kept, count = merge_duplicates(
        LINES, weight, num_nodes, directed=directed, duplicates=duplicates, where=lambda row: f"line {row + 1}"
    )
    return [edges.T.tolist(), None if kept is None else kept.tolist(), count]


@pytest.mark.parametrize("num_nodes", [3, 2**31, 2**40])
def test_lines_without_weights(num_nodes: int) -> None:
    for rule in (None, "first", "max"):
        assert merged(False, rule, num_nodes=num_nodes) == [[[0, 1], [1, 2]], None, 2]
        assert merged(True, rule, num_nodes=num_nodes) == [[[0, 1], [1, 0], [2, 1]], None, 1]
    assert merged(False, "sum", num_nodes=num_nodes) == [[[0, 1], [1, 2]], [2, 2], 2]


def test_weights() -> None:
    assert merged(False, "sum", WEIGHT) == [[[0, 1], [1, 2]], [7, 2], 2]
    assert merged(False, "first", WEIGHT) == [[[0, 1], [1, 2]], [2, 1], 2]
    assert merged(False, "max", WEIGHT) == [[[0, 1], [1, 2]], [5, 1], 2]
    assert merged(True, None, WEIGHT) == [[[0, 1], [1, 0], [2, 1]], [5, 2, 1], 1]


def test_the_line_is_named() -> None:
    with pytest.raises(GraphError, match=r"line 3: weight 5, but the edge has weight 2 before \(line 2\)"):
        merged(False, None, WEIGHT)
    with pytest.raises(GraphError, match="line 3: the edge is there already"):
        merged(False, "error")


def test_lines_that_differ_keep_their_order() -> None:
    lines = np.array([[2, 0], [1, 1]])
    edges, _, count = merge_duplicates(lines, None, 3, directed=True, duplicates=None, where=str)
    assert (edges.tolist(), count) == (lines.tolist(), 0)


def test_both_ways_has_a_loop_once() -> None:
    edges, weight = both_ways(np.array([[0, 1], [1, 1]]), np.array([2.0, 3.0]), 2)
    assert weight is not None
    assert (edges.T.tolist(), weight.tolist()) == ([[0, 1], [1, 0], [1, 1]], [2, 2, 3])


@pytest.mark.parametrize("num_nodes", [10, 100_000])  # by the rows of a matrix, and by sorting where most are empty
def test_both_ways_is_in_ascending_order(num_nodes: int) -> None:
    edges, weight = both_ways(np.array([[3, 0, 7], [9, 5, 7]]), np.array([1.0, 2.0, 3.0]), num_nodes)
    assert weight is not None
    assert (edges.T.tolist(), weight.tolist()) == ([[0, 5], [3, 9], [5, 0], [7, 7], [9, 3]], [2, 1, 2, 3, 1])
