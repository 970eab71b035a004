"""Ids to node numbers."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rfp.edge_table.node_ids import check_weights, number_integers, number_texts, simplified_ids
from rfp.errors import GraphError


def place(row: int) -> str:
    return f"f, line {row + 1}"


@given(st.lists(st.tuples(st.integers(0, 50) | st.integers(2**60, 2**62), st.integers(0, 50)), min_size=1))
def test_integers_are_numbered_in_ascending_order(pairs: list[tuple[int, int]]) -> None:
    ends = np.array(pairs).T
    numbers, num_nodes, ids = number_integers(ends, None, place)
    expected = sorted({end for pair in pairs for end in pair})
    assert num_nodes == len(expected)
    assert (list(range(num_nodes)) if ids is None else ids.tolist()) == expected
    assert [[expected[i] for i in row] for row in numbers.tolist()] == ends.tolist()


def test_ids_0_to_n_need_no_names() -> None:
    ends = np.array([[0, 2], [1, 0]])
    numbers, num_nodes, ids = number_integers(ends, None, place)
    assert ids is None
    assert num_nodes == 3
    assert numbers is ends


def test_num_nodes_keeps_numbers_and_isolated_nodes() -> None:
    numbers, num_nodes, ids = number_integers(np.array([[0, 7], [3, 3]]), 9, place)
    assert (numbers.tolist(), num_nodes, ids) == ([[0, 7], [3, 3]], 9, None)


def test_no_edges() -> None:
    assert number_integers(np.zeros((2, 0), np.int64), None, place)[1:] == (0, None)
    assert number_integers(np.zeros((2, 0), np.int64), 4, place)[1:] == (4, None)


def test_the_first_bad_edge_is_named() -> None:
    with pytest.raises(GraphError, match="f, line 2: node id -3 is negative"):
        number_integers(np.array([[0, 5, -9], [1, -3, 0]]), None, place)
    with pytest.raises(GraphError, match=r"f, line 3: node id 4 is out of range for --num-nodes 4, expected 0 to 3"):
        number_integers(np.array([[0, 3, 1], [1, 0, 4]]), 4, place)


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh")), min_size=1))
def test_texts_are_numbered_in_order_of_first_appearance(pairs: list[tuple[str, str]]) -> None:
    numbers, num_nodes, ids = number_texts(pa.array([u for u, _ in pairs]), pa.array([v for _, v in pairs]))
    expected = list(dict.fromkeys(end for pair in pairs for end in pair))
    assert (ids.tolist(), num_nodes) == (expected, len(expected))
    assert [(expected[u], expected[v]) for u, v in numbers.T.tolist()] == pairs


def test_texts_that_are_numbers_stay_text_when_spelled_otherwise() -> None:
    assert simplified_ids(["00", "1"]).tolist() == ["00", "1"]
    assert simplified_ids(["²"]).tolist() == ["²"]  # a digit to Python, no number


def test_first_weight_that_is_not_finite() -> None:
    check_weights(np.array([0.0, -1e300]), place)
    with pytest.raises(GraphError, match="f, line 2: weight nan is not finite"):
        check_weights(np.array([1.0, np.nan, np.inf]), place)
