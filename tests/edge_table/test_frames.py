"""Data frames: every library's, by the rules of Parquet."""

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rfp.edge_table.frames import load_frame
from rfp.edge_table.table_options import TableOptions
from rfp.errors import GraphError

MAKERS = [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table]


@pytest.mark.parametrize("make", MAKERS)
def test_text_weights_and_direction(make: Any) -> None:
    frame = make({"w": [2.0, 0.5], "source": ["bob", "ann"], "target": ["ann", "cy"], "year": [1, 2]})
    loaded = load_frame(frame, TableOptions(directed=True))
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == ["bob", "ann", "cy"]  # in the order of the rows
    assert loaded.graph.to_scipy().toarray().tolist() == [[0, 2, 0], [0, 0, 0.5], [0, 0, 0]]
    assert (loaded.directed, loaded.weights, loaded.ignored) == (True, "column 'w'", ("'year'",))
    assert loaded.first_edges == (("bob", "ann", "2"), ("ann", "cy", "0.5"))


def test_the_index_is_not_a_column_and_rows_may_be_cut_out() -> None:
    frame = pd.DataFrame({"source": [0, 1, 2], "target": [1, 2, 3]}, index=[9, 8, 7])
    assert load_frame(frame[1:], TableOptions()).node_ids.tolist() == [1, 2, 3]  # type: ignore[union-attr]
    chunks = pa.concat_tables([pa.table({"source": [i], "target": [i + 1]}) for i in range(3)])
    assert load_frame(chunks, TableOptions()).graph.num_nodes == 4


def test_columns_named_by_numbers_and_of_categories() -> None:
    frame = pd.DataFrame({0: ["a", "b"], 1: ["b", "c"]}, dtype="category")
    assert load_frame(frame, TableOptions()).node_ids.tolist() == ["a", "b", "c"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"source": ["a", 1], "target": [1, 2]}), "the frame: column 'source' holds values of several"),
        (pd.DataFrame({"source": [0.0, None], "target": [1, 2]}), "the frame, row 2: column 'source' is null"),
        (pl.DataFrame({"source": [0, 0], "target": [1, 1], "weight": [1.0, 2.0]}), "the frame, row 2"),
        (
            pa.table({"source": pa.array([], pa.int64()), "target": pa.array([], pa.int64())}),
            "the frame holds no edges",
        ),
    ],
)
def test_mistakes(frame: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load_frame(frame, TableOptions())
