"""Ids of graphs and nodes become numbers in the order of the files."""

from pathlib import Path

import pyarrow as pa
import pytest

from rfp.data.folder_ids import number_graphs, number_nodes
from rfp.data.table_files import Table
from rfp.errors import GraphError


def table(name: str, **columns: list[object]) -> Table:
    return Table(
        Path(f"{name}.csv"), {key: pa.array(value) for key, value in columns.items()}, len(next(iter(columns.values())))
    )


def test_one_graph_numbered_by_its_nodes_file() -> None:
    edges = table("edges", source=["b", "a"], target=["a", "c"])
    nodes = table("nodes", node=["c", "b", "a", "alone"])
    graphs = number_graphs(edges, nodes, None)
    ids = number_nodes(edges, "source", "target", nodes, graphs)
    assert graphs.count == 1
    assert ids.ends.tolist() == [[1, 2], [2, 0]]
    assert ids.ptr.tolist() == [0, 4]
    assert ids.order.tolist() == [0, 1, 2, 3]


def test_nodes_from_edges_alone() -> None:
    integers = table("edges", source=[30, 10], target=[10, 20])
    ids = number_nodes(integers, "source", "target", None, number_graphs(integers, None, None))
    assert ids.ends.tolist() == [[2, 0], [0, 1]]  # ascending
    assert ids.ptr.tolist() == [0, 3]


def test_many_graphs_in_the_order_of_the_graphs_file() -> None:
    graphs_file = table("graphs", graph=["y", "x"])
    nodes = table("nodes", graph=["x", "y", "x", "y"], node=[0, 0, 1, 1])
    edges = table("edges", graph=["x", "y"], source=[0, 1], target=[1, 0])
    graphs = number_graphs(edges, nodes, graphs_file)
    assert graphs.of_edges.tolist() == [1, 0]
    ids = number_nodes(edges, "source", "target", nodes, graphs)
    assert ids.order.tolist() == [1, 3, 0, 2]  # the rows of y, then those of x
    assert ids.ptr.tolist() == [0, 2, 4]
    assert ids.ends.tolist() == [[2, 1], [3, 0]]


def test_numbers_and_text_mix() -> None:
    edges = table("edges", source=[1, 2], target=[2, 1])
    nodes = table("nodes", node=["2", "1", "x"])
    ids = number_nodes(edges, "source", "target", nodes, number_graphs(edges, nodes, None))
    assert ids.ends.tolist() == [[1, 0], [0, 1]]


def test_no_edges_at_all() -> None:
    edges = Table(Path("edges.csv"), {"source": pa.array([], pa.int64()), "target": pa.array([], pa.int64())}, 0)
    nodes = table("nodes", node=[5, 4])
    ids = number_nodes(edges, "source", "target", nodes, number_graphs(edges, nodes, None))
    assert ids.ends.shape == (2, 0)
    assert ids.ptr.tolist() == [0, 2]


def test_what_does_not_fit_is_named() -> None:
    edges = table("edges", graph=[1, 2], source=[0, 0], target=[1, 1])
    nodes = table("nodes", graph=[1, 1, 2], node=[0, 1, 0])
    graphs = number_graphs(edges, nodes, None)
    with pytest.raises(GraphError, match=r"edges.csv, row 2: node 1 of graph 2 is not in nodes.csv"):
        number_nodes(edges, "source", "target", nodes, graphs)
    with pytest.raises(GraphError, match=r"edges.csv, row 2: graph 2 is not in graphs.csv"):
        number_graphs(edges, None, table("graphs", graph=[1]))
    with pytest.raises(GraphError, match=r"graphs.csv, row 3: graph 1 is listed twice"):
        number_graphs(edges, None, table("graphs", graph=[1, 2, 1]))
    with pytest.raises(GraphError, match=r"nodes.csv: there is no column 'graph', but graphs.csv"):
        number_graphs(edges, table("nodes", node=[0, 1]), table("graphs", graph=[1, 2]))
    twice = table("nodes", graph=[1, 1, 1], node=[0, 1, 0])
    with pytest.raises(GraphError, match=r"nodes.csv, row 3: node 0 is listed twice"):
        number_nodes(
            table("edges", graph=[1], source=[0], target=[1]),
            "source",
            "target",
            twice,
            number_graphs(table("edges", graph=[1], source=[0], target=[1]), twice, None),
        )
    with pytest.raises(GraphError, match=r"nodes.csv: there is no column 'node'"):
        number_nodes(edges, "source", "target", table("nodes", graph=[1], x=[0]), graphs)
    lonely = number_graphs(edges, None, table("graphs", graph=[1, 2, 3]))
    with pytest.raises(GraphError, match=r"graph number 3 has no edges; give its nodes"):
        number_nodes(edges, "source", "target", None, lonely)
