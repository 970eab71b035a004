"""Pajek networks."""

from pathlib import Path

import networkx as nx
import pytest

from rfp.errors import FileError, GraphError, RFPError
from rfp.io import read_graph
from rfp.io.pajek import parse_pajek

VERTICES = '*Vertices 3\n1 "ann"\n2 "bob b" 0.1 0.2\n3 cy\n'


def write(folder: Path, text: str) -> Path:
    (folder / "g.net").write_text(text)
    return folder / "g.net"


def test_edges_arcs_and_both(tmp_path: Path) -> None:
    loaded = read_graph(write(tmp_path, VERTICES + "*Edges\n% a comment\n1 2 2.5\n2 3 1\n"))
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == ["ann", "bob b", "cy"]
    assert not loaded.directed
    assert loaded.graph.to_scipy().toarray().tolist() == [[0, 2.5, 0], [2.5, 0, 1], [0, 1, 0]]
    arcs = read_graph(write(tmp_path, VERTICES + "*Arcs\n1 2\n*Edges\n2 3\n"))
    assert arcs.directed
    assert arcs.graph.to_scipy().toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_lists_and_matrix() -> None:
    assert parse_pajek((VERTICES + "*Arcslist\n1 2 3\n").encode(), "f").arcs == [(0, 1, None), (0, 2, None)]
    assert parse_pajek((VERTICES + "*Edgeslist\n3 1\n").encode(), "f").edges == [(2, 0, None)]
    assert parse_pajek((VERTICES + "*Matrix\n0 1 0\n0 0 2\n0 0 0\n").encode(), "f").arcs == [(0, 1, 1.0), (1, 2, 2.0)]


def test_lines_of_any_white_space_are_skipped() -> None:
    assert parse_pajek(b"*Vertices 2\n*Arcslist\n\x0b\n1 2\n\xc2\xa0\n", "f").arcs == [(0, 1, None)]


def test_vertices_of_the_same_label_stay_apart() -> None:
    assert parse_pajek(b'*Vertices 2\n1 "a"\n2 "a"\n', "f").labels == ["1", "2"]


def test_an_endless_name_of_a_section_is_cut_short() -> None:
    with pytest.raises(FileError, match=r"the section '\*aaa.* is not known") as caught:
        parse_pajek(b"*" + b"a" * 5000 + b"\n", "f")
    assert len(str(caught.value)) < 400


def test_vertices_that_no_line_names_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.io.pajek._VERTICES_AT_LEAST", 40)
    assert len(parse_pajek(b"*Vertices 40\n*Edges\n1 40\n", "f").labels) == 40  # more than it has bytes
    with pytest.raises(FileError, match="41 vertices are too many for a file of 25 bytes"):
        parse_pajek(b"*Vertices 41\n*Edges\n1 40\n", "f")
    named = b"*Vertices 41\n" + b"".join(b"%d a%d\n" % (i, i) for i in range(1, 42))
    assert parse_pajek(named, "f").labels[40] == "a41"


def test_what_networkx_writes(tmp_path: Path) -> None:
    graph = nx.gnm_random_graph(9, 14, seed=3)
    nx.write_pajek(graph, tmp_path / "g.net")
    read = read_graph(tmp_path / "g.net").graph.to_scipy().toarray()
    assert (read == nx.to_numpy_array(graph)).all()


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("1 2\n", FileError, "line 1: not a Pajek network"),
        ("*Arcs\n1 2\n", FileError, r"line 1: \*Arcs before \*Vertices"),
        (VERTICES + "*Edges\n1 4\n", GraphError, "line 6: vertex 4 is out of range"),
        (VERTICES + "*Edges\n1 x\n", GraphError, "line 6: 'x' is not a number of a vertex"),
        (VERTICES + "*Edges\n1 2 x\n", GraphError, "line 6: weight 'x' is not a number"),
        (VERTICES + "*Edges\n1 2 nan\n", GraphError, "line 6: weight 'nan' is not a number"),
        (VERTICES + "*Edges\n1 2 1_000\n", GraphError, "line 6: weight '1_000' is not a number"),
        (VERTICES + "*Edges\n1 2 1e999\n", GraphError, "weight inf is not a finite number"),
        (VERTICES + "four\n", GraphError, "line 5: 'four' is not a number of a vertex"),
        ('*Vertices 1\n1 "ann\n', GraphError, "line 2: a quote that does not enclose a whole label"),
        ('*Vertices 1\n1 a"nn"\n', GraphError, "line 2: a quote that does not enclose a whole label"),
        (VERTICES + "*Edges\n1\n", GraphError, "line 6: an arc or edge needs two vertices"),
        (VERTICES + "*Matrix\n0 1\n", GraphError, "line 6: a row of the matrix needs 3 numbers"),
        (VERTICES + "*Matrix\n0 1 0\n", GraphError, "the matrix has 1 rows"),
        (VERTICES + "*Partition x\n1\n", FileError, r"the section '\*Partition' is not known"),
        ("*Vertices 99999999999\n", FileError, "line 1: 99,999,999,999 vertices are too many for a file of 22 bytes"),
        ("*Vertices 2000000000\n*Edges\n1 2\n", FileError, "2,000,000,000 vertices are too many"),
        ("*Vertices\n", GraphError, "line 1: '' is not a number"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, error: type[RFPError], message: str) -> None:
    with pytest.raises(error, match=message):
        read_graph(write(tmp_path, text))
