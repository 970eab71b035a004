"""What may be asked for, and how a graph that was read is described."""

from typing import Any

import pytest
import torch

from rfp.edge_table.table_options import LoadedGraph, TableOptions
from rfp.errors import ArgumentError
from rfp.graph import Graph


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ids": "integer"}, "ids must be one of 'text', 'int', got 'integer'"),
        ({"duplicates": "last"}, "duplicates must be one of 'sum', 'first', 'max', 'error', got 'last'"),
        ({"num_nodes": 0}, "--num-nodes must be between 1 and 2.40, got 0"),
        ({"num_nodes": 2**40 + 1}, "between 1 and 2.40"),
        ({"num_nodes": 5, "ids": "text"}, "--num-nodes and --ids text contradict each other"),
        ({"weight": "w", "unweighted": True}, "--weight and --unweighted contradict each other"),
        ({"source": True}, "source must be the name or the number of a column, got True"),
        ({"target": 1.0}, "target must be the name or the number of a column, got 1.0"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        TableOptions(**options)


def test_numbers_of_columns() -> None:
    options = TableOptions(source=1, target="2", weight=3, num_nodes=2**40)  # type: ignore[arg-type]
    assert (options.source, options.target, options.weight) == ("1", "2", "3")


PAIR = Graph(torch.tensor([[0, 1, 1], [1, 0, 1]]), 3)


@pytest.mark.parametrize(
    ("graph", "directed", "size"),
    [
        (PAIR, True, "3 nodes, 3 directed edges"),
        (PAIR, False, "3 nodes, 2 undirected edges"),  # the self-loop is one edge, the pair another
        (Graph(PAIR.edge_index, 1234), False, "1,234 nodes, 2 undirected edges"),
        (Graph(PAIR.edge_index, 3, ptr=torch.tensor([0, 2, 3])), True, "2 graphs, 3 nodes, 3 directed edges"),
    ],
)
def test_an_edge_that_counts_both_ways_is_one(graph: Graph, directed: bool, size: str) -> None:
    assert LoadedGraph(graph, directed=directed).size == size


def test_one_line_and_one_line_for_each_fact() -> None:
    loaded = LoadedGraph(
        PAIR,
        directed=False,
        weights="column 'w'",
        ignored=("'year'", "'note'"),
        facts={"separator": "comma", "weight": "column 'w'"},
        first_edges=(("a", "b", "2"), ("c\nd", "b", "1")),
        file="f.csv",
        format="edges",
    )
    assert loaded.summary() == (
        "f.csv: 3 nodes, 2 undirected edges, weights from column 'w'; format edges, separator comma, "
        "ignored column 'year', 'note', first edge a b 2"
    )
    assert loaded.preview().splitlines() == [
        "file         f.csv",
        "format       edges",
        "separator    comma",
        "weight       column 'w'",
        "ignored      column 'year', 'note'",
        "graph        3 nodes, 2 undirected edges",
        "weights      column 'w'",
        "first edges  a  b  2",
        "             c d  b  1",  # no line of its own for what has a line end in it
    ]
    bare = LoadedGraph(PAIR, file="f", format="edges").preview()
    assert "weights      none: every edge counts 1" in bare
    assert "ignored" not in bare
