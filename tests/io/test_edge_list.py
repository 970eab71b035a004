"""Edge lists in every dialect, and one clear line for every mistake in them."""

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rfp.errors import ArgumentError, FileError, GraphError
from rfp.io.edge_list import parse_edge_list, read_edge_list
from rfp.io.options import LoadedGraph, ReadOptions

PATH = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]  # the path of three nodes


def parse(text: str | bytes, **options: object) -> LoadedGraph:
    content = text if isinstance(text, bytes) else text.encode()
    return parse_edge_list(content, "f.csv", ReadOptions(**options))  # type: ignore[arg-type]


def dense(loaded: LoadedGraph) -> list[list[float]]:
    return loaded.graph.to_scipy().toarray().tolist()


@pytest.mark.parametrize(
    "text",
    [
        "0,1\n1,2\n",
        "0,1\n1,2",
        "0, 1\r\n1 ,2\r\n",
        "0;1\n1;2\n",
        "0\t1\n1\t2\n",
        "0 1\n1 2\n",
        "  0   1 \n1 \t 2\t\n",
        "\ufeff0,1\n1,2\n",
        "source,target\n0,1\n1,2\n",
        "a,b\n0,1\n1,2\n",
        "# comment\n% another\n0,1\n\n  # more, of it\n \n1,2\n",
        "#h\n\n\nFrom\tTo\n0\t1\n1\t2\n",
        '"0","1"\n"1","2"\n',
        "0,1\n1,0\n1,2\n2,1\n",  # both directions listed: the same graph
        "0,1\n2,1\n",
        "src,dst,when\n0,1,2001-01-01\n1,2,2002-02-02\n",
    ],
)
def test_dialects(text: str) -> None:
    loaded = parse(text)
    assert dense(loaded) == PATH
    assert loaded.graph.edge_weight is None
    assert loaded.node_ids is None
    assert not loaded.directed


@pytest.mark.parametrize(
    "text", ["0 1 2.5\n1 2 -1e0\n", "u,v,w\n0,1,2.5\n1,2,-1\n", "w;target;source\n2.5;1;0\n-1;2;1\n"]
)
def test_weights(text: str) -> None:
    loaded = parse(text)
    assert dense(loaded) == [[0, 2.5, 0], [2.5, 0, -1], [0, -1, 0]]
    assert loaded.weights is not None
    assert dense(parse(text, unweighted=True)) == PATH


def test_direction_is_kept_on_request() -> None:
    loaded = parse("0,1\n1,2\n", directed=True)
    assert loaded.directed
    assert dense(loaded) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_self_loops_and_duplicates_have_one_meaning() -> None:
    # The same line twice adds up, the other direction does not; a self-loop counts once.
    assert dense(parse("0,1\n0,1\n1,0\n1,1\n")) == [[0, 2], [2, 1]]
    assert dense(parse("0,1\n0,1\n1,1\n", directed=True)) == [[0, 2], [0, 1]]


def test_text_ids_in_order_of_appearance() -> None:
    loaded = parse("zoe,ann\nbob,zoe\nNA,zürich\n")
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == ["zoe", "ann", "bob", "NA", "zürich"]
    assert dense(loaded)[0] == [0, 1, 1, 0, 0]


def test_integer_ids_in_ascending_order() -> None:
    loaded = parse("30,10\n10,20\n")
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == [10, 20, 30]
    assert dense(loaded) == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("text", ["1,2\n2,x\n", "0x10,1\n1,2\n", "1.5,2\n2,3\n", "99999999999999999999,1\n"])
def test_one_id_that_is_no_integer_makes_all_text(text: str) -> None:
    ids = parse(text).node_ids
    assert ids is not None
    assert ids.dtype == object
    assert ids[0] == text.split(",")[0]


def test_num_nodes_adds_isolated_nodes() -> None:
    assert dense(parse("1,3\n", num_nodes=5))[1] == [0, 0, 0, 1, 0]
    assert parse("# nothing\n", num_nodes=4).graph.num_nodes == 4


def test_u_and_v_may_be_nodes() -> None:
    ids = parse("u,v\nv,w\n").node_ids
    assert ids is not None
    assert ids.tolist() == ["u", "v", "w"]


def test_header_on_request() -> None:
    assert parse("u,v\nv,w\n", header=True).graph.num_nodes == 2
    assert parse("source,target\na,b\n", header=False).graph.num_nodes == 4


def test_columns_on_request() -> None:
    loaded = parse("9 0 5 1\n9 1 7 2\n", source_column="2", target_column="4", weight_column="3")
    assert dense(loaded) == [[0, 5, 0], [5, 0, 7], [0, 7, 0]]
    assert loaded.ignored == ("1",)


def test_delimiter_on_request() -> None:
    ids = parse("a b|c d\n", delimiter="|").node_ids
    assert ids is not None
    assert ids.tolist() == ["a b", "c d"]
    with pytest.raises(ArgumentError, match="--delimiter must be one character"):
        parse("a||b\n", delimiter="||")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "f.csv holds no edges"),
        ("\n# only a comment\n", {}, "f.csv holds no edges"),
        ("source,target\n", {}, "f.csv holds no edges"),
        ("source,target\n", {"num_nodes": 0}, "f.csv holds no edges"),
        ("# c\n0,1\n1,-2\n", {}, "f.csv, line 3: node id -2 is negative"),
        ("s,t,w\n0,1,1\n\n1,2,abc\n", {}, "f.csv, line 4: weight 'abc' is not a number"),
        ("0,1,1\n1,2,\n", {}, "f.csv, line 2: weight '' is not a number"),
        ("0 1 1\n1 2 nan\n", {}, "f.csv, line 2: weight nan is not finite"),
        ("0 1 1\n1 2 -inf\n", {}, "f.csv, line 2: weight -inf is not finite"),
        ("0 1 {}\n", {}, "line 1: weight '{}' is not a number; write the list with networkx"),
        ("a,b\nb,\n", {}, "f.csv, line 2: a node id is empty"),
        ("0,1\n1,2,3\n", {}, "f.csv, line 2: 3 columns where the first line has 2"),
        ("0,1\n1\n", {}, "f.csv, line 2: 1 columns where the first line has 2"),
        ("0\n1\n", {}, "f.csv has 1 column; expected two"),
        ("0,1,2,3\n", {}, "f.csv has 4 columns"),
        ("0,1\n3,1\n", {"num_nodes": 3}, "f.csv, line 2: node id 3 is out of range for --num-nodes 3"),
        ("0,1\n1,a\n", {"num_nodes": 3}, "f.csv, line 2: node id 'a' is not a node number"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(GraphError) as error:
        parse(text, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(GraphError, match=r"f.csv, line 2: not text in UTF-8"):
        parse(b"a,b\nb,\xff\n")


def test_gzip_and_plain_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "g.txt.gz").write_bytes(gzip.compress(b"0 1\n1 2\n"))
    assert dense(read_edge_list(tmp_path / "g.txt.gz", ReadOptions())) == PATH
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"0 1\n1 2\n" * 100)[:30])
    with pytest.raises(FileError, match="not a complete gzip file"):
        read_edge_list(tmp_path / "cut.txt.gz", ReadOptions())


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"0 1\n1 2\n")))
    assert dense(read_edge_list(Path("-"), ReadOptions())) == PATH


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(-1e6, 1e6)), min_size=1, max_size=30),
    st.sampled_from([",", ";", "\t", "  "]),
    st.booleans(),
)
def test_what_was_written_is_read(edges: list[tuple[int, int, float]], separator: str, header: bool) -> None:
    lines = [separator.join(["source", "target", "weight"])] * header
    lines += [separator.join([str(u), str(v), repr(w)]) for u, v, w in edges]
    loaded = parse("\n".join(lines), directed=True, num_nodes=10)
    expected = np.zeros((10, 10))
    for u, v, w in edges:
        expected[u, v] += w
    assert np.allclose(loaded.graph.to_scipy().toarray(), expected, rtol=1e-12, atol=1e-9)
    assert (
        loaded.graph.edge_index.tolist() == torch.tensor([[u for u, _, _ in edges], [v for _, v, _ in edges]]).tolist()
    )
