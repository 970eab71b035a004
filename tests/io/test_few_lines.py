"""Short files of integers: read without Arrow, and just as Arrow reads them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rfp.edge_table.table import EdgeTable
from rfp.errors import GraphError
from rfp.io import few_lines
from rfp.io.edge_list import parse_edge_list
from rfp.io.options import ReadOptions


def by_both(content: bytes, options: ReadOptions) -> tuple[EdgeTable | str, EdgeTable | str]:
    """What comes of a text, or what is said against it: without Arrow where that can be, and by Arrow."""
    outcomes: list[EdgeTable | str] = []
    with pytest.MonkeyPatch.context() as patch:
        for limit in (few_lines.FEW_BYTES, -1):
            patch.setattr(few_lines, "FEW_BYTES", limit)
            try:
                outcomes.append(parse_edge_list(content, "f", options))
            except GraphError as error:
                outcomes.append(str(error))
    return outcomes[0], outcomes[1]


def assert_alike(content: bytes, options: ReadOptions = ReadOptions()) -> None:  # noqa: B008 - frozen
    few, arrow = by_both(content, options)
    if isinstance(few, str) or isinstance(arrow, str):
        assert few == arrow
        return
    assert few.first_edges() == arrow.first_edges()
    assert (few.facts, few.ignored, few.weights, few.directed) == (
        arrow.facts,
        arrow.ignored,
        arrow.weights,
        arrow.directed,
    )
    for ours, theirs in ((few.integers, arrow.integers), (few.weight, arrow.weight)):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
    assert [few.where(row) for row in range(few.num_rows)] == [arrow.where(row) for row in range(arrow.num_rows)]


FIELDS = st.one_of(
    st.integers(-(10**19), 10**19).map(str),
    st.integers(0, 12).map(str),
    st.floats(allow_nan=True).map(repr),
    st.sampled_from(["", " 3", "3 ", "\t4", "+5", "1e5", "1e400", ".5", "5.", "0x1", "007", "-0", "a", '"6"', "1,5"]),
)


@settings(deadline=None)  # the first text loads Arrow
@given(
    st.lists(st.lists(FIELDS, min_size=2, max_size=4), min_size=1, max_size=5),
    st.sampled_from([",", ";", "\t", " ", "|"]),
    st.sampled_from(["\n", "\n\n", "\r\n", "\n \n"]),
    st.sampled_from(["", "source,target\n", "# a comment\n"]),
    st.booleans(),
)
def test_any_text_means_the_same_with_arrow_and_without(
    rows: list[list[str]], delimiter: str, end: str, begin: str, told: bool
) -> None:
    text = begin + end.join(delimiter.join(row) for row in rows)
    assert_alike(text.encode(), ReadOptions(delimiter=delimiter if told else None))


@pytest.mark.parametrize(
    "text",
    [
        "5\t\t7\n7\t\t9\n",  # an empty column is one
        "5\t7\n7\t\t9\n",
        "1 2 0.1\n2 3 1e-3\n3 1 12345678901234567890.12345678901234567890\n",
        "source,target,note\n0,1,x y\n1,2,\n",
        "0,1\n1,2\n-3,4\n",
        "0,1\n\n1,2\n   \n2,3",
        "a,b,c\n1,2,3\n",
        "source,target",  # a header alone, and its line has no end
        "0,999999999999999999\n1,9223372036854775807\n",
    ],
)
def test_written_out(text: str) -> None:
    assert_alike(text.encode())


def test_what_is_not_plain_is_left_to_arrow() -> None:
    few, arrow = by_both(b'0,1\n1,"2"\n', ReadOptions())
    assert isinstance(few, EdgeTable)
    assert isinstance(arrow, EdgeTable)
    assert few.integers is not None
    assert few.integers.tolist() == [[0, 1], [1, 2]]
