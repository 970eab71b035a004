"""Pairs by the ids of a graph."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rfp
from rfp.errors import FileError, GraphError
from rfp.links import read_pairs


def graph_and_pairs(tmp_path: Path, edges: str, pairs: str, name: str = "pairs.csv") -> list[list[int]]:
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / name).write_text(pairs)
    found: list[list[int]] = read_pairs(tmp_path / name, rfp.read_graph(tmp_path / "edges.csv")).tolist()
    return found


@pytest.mark.parametrize("header", ["", "source,target\n", "from,to\n"])
def test_integers_text_and_headers(tmp_path: Path, header: str) -> None:
    assert graph_and_pairs(tmp_path, "0,1\n1,2\n", header + "2,0\n0,1\n2,0\n") == [[2, 0, 2], [0, 1, 0]]
    assert graph_and_pairs(tmp_path, "10,30\n30,20\n", header + "30,10\n20,10\n") == [[2, 1], [0, 0]]
    assert graph_and_pairs(tmp_path, "ann,bob\nbob,cy\n", header + "cy,ann\n") == [[2], [0]]


def test_further_columns_and_other_separators(tmp_path: Path) -> None:
    assert graph_and_pairs(tmp_path, "0,1\n1,2\n", "source,target,label\n2,0,yes\n") == [[2], [0]]
    assert graph_and_pairs(tmp_path, "0,1\n1,2\n", "2\t0\n", "pairs.tsv") == [[2], [0]]
    assert graph_and_pairs(tmp_path, "007,7\n7,8x\n", "7 007\n", "pairs.txt") == [[1], [0]]


def test_parquet(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("10,20\n20,30\n")
    pq.write_table(pa.table({"source": [30, 10], "target": [10, 20]}), tmp_path / "pairs.parquet")
    loaded = rfp.read_graph(tmp_path / "edges.csv")
    assert read_pairs(tmp_path / "pairs.parquet", loaded).tolist() == [[2, 0], [0, 1]]


def test_ids_in_the_order_of_a_file(tmp_path: Path) -> None:
    """Of a file of a graph the ids are as they come, not ascending."""
    nodes, links = '[{"id": 7}, {"id": 3}, {"id": 5}]', '[{"source": 7, "target": 3}, {"source": 3, "target": 5}]'
    (tmp_path / "g.json").write_text(f'{{"nodes": {nodes}, "links": {links}}}')
    (tmp_path / "pairs.csv").write_text("5,7\n3,5\n")
    assert read_pairs(tmp_path / "pairs.csv", rfp.read_graph(tmp_path / "g.json")).tolist() == [[2, 1], [0, 2]]


def test_unknown_nodes_are_named_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"pairs\.csv, line 2: node \"?'?9'?\"? is not in the graph"):
        graph_and_pairs(tmp_path, "0,1\n1,2\n", "0,1\n2,9\n")
    with pytest.raises(GraphError, match=r"pairs\.csv, line 3: node .*dan.* is not in the graph"):
        graph_and_pairs(tmp_path, "ann,bob\nbob,cy\n", "source,target\nann,cy\ndan,cy\n")
    with pytest.raises(GraphError, match=r"line 2: node .*bob.* is not in the graph"):
        graph_and_pairs(tmp_path, "0,1\n1,2\n", "0,1\nbob,1\n")


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n")
    loaded = rfp.read_graph(tmp_path / "edges.csv")
    with pytest.raises(FileError, match="no such file of pairs"):
        read_pairs(tmp_path / "missing.csv", loaded)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(GraphError, match="holds no pairs"):
        read_pairs(tmp_path / "empty.csv", loaded)
    for header in ("source,target\n", "label,Source,Target\n", "# pairs\nfrom,to\n"):
        (tmp_path / "header.csv").write_text(header)
        with pytest.raises(GraphError, match=r"header\.csv holds no pairs"):
            read_pairs(tmp_path / "header.csv", loaded)
    (tmp_path / "one.csv").write_text("ann,9\n")
    with pytest.raises(GraphError, match=r"line 1: node .*ann.* is not in the graph"):
        read_pairs(tmp_path / "one.csv", loaded)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        read_pairs(tmp_path / "folder.csv", loaded)
