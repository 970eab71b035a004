"""Edge lists in every dialect, and one clear line for every mistake in them."""

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rfp.edge_table.table import load_table
from rfp.errors import ArgumentError, GraphError
from rfp.io.edge_list import parse_edge_list, read_edge_list
from rfp.io.options import LoadedGraph, ReadOptions

PATH = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]  # the path of three nodes


def parse(text: str | bytes, **options: object) -> LoadedGraph:
    content = text if isinstance(text, bytes) else text.encode()
    asked = ReadOptions(**options)  # type: ignore[arg-type]
    return load_table(parse_edge_list(content, "f.csv", asked), asked, "f.csv")


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
        "0,1\r1,2\r",  # line ends of an old Mac
        "0,1,\n1,2,\n",  # a delimiter at the end of every line
        "source;target;\n0;1;\n1;2;\n",
        ",a,b\n0,0,1\n1,1,2\n",  # the index of pandas
        "Unnamed: 0,a,b\n0,0,1\n1,1,2\n",
        '"","from","to"\n"1",0,1\n"2",1,2\n',  # R
        "Source,Target,Type,Id\n0,1,Undirected,7\n1,2,undirected,8\n",  # Gephi
        "0 1 {}\n1 2 {}\n",  # networkx.write_edgelist
        "0 1 {'color': 'red', 'n': [1, 2]}\n1 2 {}\n",
        "0,1\n0,1\n1,2\n",  # twice the same line: the same graph
        '0 ,  "1"\n"1" ,2\n',
        "# FromNodeId\tToNodeId\tYear\n0\t1\t1999\n1\t2\t2000\n",
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
    "text",
    [
        "0 1 2.5\n1 2 -1e0\n",
        "u,v,w\n0,1,2.5\n1,2,-1\n",
        "w;target;source\n2.5;1;0\n-1;2;1\n",
        "0;1;2,5\n1;2;-1\n",
        "0 1 2,5\n1 2 -1\n",
        "0 1 +2.5\n1 2 -1.\n",
        "source\ttarget\tweight\n0\t1\t2,5\n1\t2\t-1,0\n",
        "0 1 {'weight': 2.5, 'c': 'x'}\n1 2 {'weight': -1}\n",
        "0,1,2.5,\n1,2,-1,\n",
    ],
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


@pytest.mark.parametrize("again", ["0 1", "1 0"])
def test_duplicates_have_one_meaning_whichever_way_round(again: str) -> None:
    once = parse(f"0 1\n{again}\n1 1\n")
    assert dense(once) == [[0, 1], [1, 1]]  # a self-loop counts once
    assert once.weights is None
    assert once.facts["duplicates"] == "1 of 3 lines merged (equal)"
    summed = parse(f"0 1\n{again}\n1 1\n", duplicates="sum")
    assert dense(summed) == [[0, 2], [2, 1]]
    assert summed.weights == "the number of lines of an edge"
    assert dense(parse(f"0 1 3\n{again} 2\n", duplicates="sum")) == [[0, 5], [5, 0]]
    assert dense(parse(f"0 1 2\n{again} 3\n", duplicates="first")) == [[0, 2], [2, 0]]
    assert dense(parse(f"0 1 -3\n{again} -2\n", duplicates="max")) == [[0, -2], [-2, 0]]
    assert dense(parse(f"0 1 3\n{again} 3\n")) == [[0, 3], [3, 0]]
    with pytest.raises(GraphError, match=r"f.csv, line 2: weight 2, but the edge has weight 3 before"):
        parse(f"0 1 3\n{again} 2\n")
    with pytest.raises(GraphError, match=r"f.csv, line 2: the edge is there already"):
        parse(f"0 1\n{again}\n", duplicates="error")


def test_directions_are_two_edges_if_they_count() -> None:
    assert dense(parse("0,1,2\n1,0,3\n", directed=True)) == [[0, 2], [3, 0]]
    assert dense(parse("0,1\n0,1\n1,1\n", directed=True, duplicates="sum")) == [[0, 2], [0, 1]]


def test_gephi_says_what_is_directed() -> None:
    text = "Source,Target,Type\n0,1,Directed\n1,2,Directed\n"
    loaded = parse(text)
    assert loaded.directed
    assert dense(loaded) == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert loaded.ignored == ()
    assert dense(parse(text, directed=False)) == PATH
    mixed = text + "2,0,Undirected\n"
    with pytest.raises(GraphError, match=r"f.csv, line 4: type Undirected, but Directed before.*--directed"):
        parse(mixed)
    assert parse(mixed, directed=True).directed
    other = parse("source,target,type\n0,1,likes\n1,2,knows\n")
    assert not other.directed
    assert other.ignored == ("'type'",)


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
    loaded = parse("9 0 5 1\n9 1 7 2\n", source="2", target="4", weight="3")
    assert dense(loaded) == [[0, 5, 0], [5, 0, 7], [0, 7, 0]]
    assert loaded.ignored == ("1",)


def test_delimiter_on_request() -> None:
    ids = parse("a b|c d\n", delimiter="|").node_ids
    assert ids is not None
    assert ids.tolist() == ["a b", "c d"]
    with pytest.raises(ArgumentError, match="--delimiter must be one ASCII character"):
        parse("a||b\n", delimiter="||")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"0 1\n1 2\n")))
    assert read_edge_list(Path("-"), ReadOptions()).first_edges() == (("0", "1"), ("1", "2"))


def test_ids_are_what_is_written() -> None:
    ids = parse("007,1\n7,1\n").node_ids
    assert ids is not None
    assert ids.tolist() == ["007", "1", "7"]
    assert parse("007,1\n7,1\n", ids="int").node_ids.tolist() == [1, 7]  # type: ignore[union-attr]
    assert parse("3,5\n5,7\n", ids="text").node_ids.tolist() == ["3", "5", "7"]  # type: ignore[union-attr]
    assert parse("-3,5\n5,7\n", ids="text").node_ids.tolist() == ["-3", "5", "7"]  # type: ignore[union-attr]
    assert parse("0x1,-0\n-0,+1\n").node_ids.tolist() == ["0x1", "-0", "+1"]  # type: ignore[union-attr]
    assert parse("1,2\n2,-0\n").node_ids.tolist() == ["1", "2", "-0"]  # type: ignore[union-attr]
    # A column beside the ids may well begin with a zero.
    assert dense(parse("source,target,zip\n0,1,012\n1,2,345\n")) == PATH


def test_numbers_with_decimals_and_words_for_nothing() -> None:
    """Where all ids are written alike they are names; --ids decides."""
    assert parse("1.0,2.0\n2.0,3.0\n").node_ids.tolist() == ["1.0", "2.0", "3.0"]  # type: ignore[union-attr]
    assert parse("1,2.0\n2,3.00\n", ids="int").node_ids.tolist() == [1, 2, 3]  # type: ignore[union-attr]
    assert parse("1,2.0\n", ids="text").node_ids.tolist() == ["1", "2.0"]  # type: ignore[union-attr]
    assert parse("1,2.5\n").node_ids.tolist() == ["1", "2.5"]  # type: ignore[union-attr]
    assert parse("NA,DE\nDE,1\n").node_ids.tolist() == ["NA", "DE", "1"]  # type: ignore[union-attr]
    assert parse("1,nan\n", ids="text").node_ids.tolist() == ["1", "nan"]  # type: ignore[union-attr]
    assert dense(parse("0 -> 1\n1 -> 2\n", source="1", target="3", unweighted=True)) == PATH
    # A hub with a name among numbers, if that is said; with other weights, or two hubs, it is plain.
    for text, options in (
        ("hub 1 2\nhub 2 3\n", {"weight": "3"}),
        ("hub 1 0.5\nhub 2 3\n", {}),
        ("a 1 2\nb 1 3\n", {}),
    ):
        assert parse(text, **options).graph.num_nodes == 3
    assert parse("u,v\nu,v\n", header=False).graph.num_nodes == 2
    for text in ("1,2.5\n", "0x10,1\n", "1,1e3\n", "1,\n"):
        with pytest.raises(GraphError):
            parse(text, ids="int")


def test_why_ids_are_text_is_said() -> None:
    facts = parse("1 2\n2 x\n").facts
    assert facts["ids"] == "text, for 'x' in line 2 is no integer"
    assert parse("a b\nb c\n").facts["ids"] == "text"


def test_a_number_at_the_border_of_a_scanned_block(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in range(1, 12):
        monkeypatch.setattr("rfp.io.arrow_text._SCAN_BYTES", size)
        ids = parse("1,2\n2,3\n3,04\n").node_ids
        assert ids is not None
        assert ids.tolist() == ["1", "2", "3", "04"], size


def test_ids_of_any_length() -> None:
    for long in ("x" * 200_000, "y" * 3_000_000):
        ids = parse(f"a {long}\n{long} b\na b\n").node_ids
        assert ids is not None
        assert ids.tolist() == ["a", long, "b"]


def test_quotes() -> None:
    assert parse('"a, b",c\nc,"d ""e"""\n').node_ids.tolist() == ["a, b", "c", 'd "e"']  # type: ignore[union-attr]
    assert parse('"a  b" c\nc "a b"\n').node_ids.tolist() == ["a  b", "c", "a b"]  # type: ignore[union-attr]
    ids = parse('5" pipe,b\nb,"c\n', quotes=False).node_ids
    assert ids is not None
    assert ids.tolist() == ['5" pipe', "b", '"c']


def test_comments_on_request() -> None:
    text = "#jazz,ann\nann,%x\n"
    assert parse(text, comment="").node_ids.tolist() == ["#jazz", "ann", "%x"]  # type: ignore[union-attr]
    loaded = parse("//a,b\n0,1\n//c,d\n1,2\n", comment="//")
    assert dense(loaded) == PATH
    assert loaded.facts["comments"] == "2 skipped"
    # Where the mark stands apart, or the ids are numbers and no edge came yet, it is a comment.
    assert dense(parse("#Nodes: 3\n0 1\n# 0 2\n1 2\n")) == PATH


def test_times_are_used_if_asked_for() -> None:
    text = "0 1 1082040961\n1 2 1082040962\n"
    assert dense(parse(text, unweighted=True)) == PATH
    assert dense(parse(text, weight="3"))[0][1] == 1082040961
    assert dense(parse("0 1 1082040961\n1 2 0.5\n"))[1][2] == 0.5
    assert dense(parse("0 1 1082040961\n1 2 5\n"))[1][2] == 5  # one number that is no time is enough


def test_headers_that_tell() -> None:
    assert parse("0,1\nann,bob\nbob,cy\n").graph.num_nodes == 3  # pandas' names over text
    assert parse("user,friend,since\nann,bob,2001\n", source="user", target="friend").weights is None
    assert parse("user,friend\nann,bob\n", header=True).graph.num_nodes == 2
    assert parse("user,friend\nann,bob\n", header=False).graph.num_nodes == 4
    assert parse("0,1\n0,2\n").facts["header"] == "none (line 1 is read as an edge)"


def test_ids_asked_for_as_integers() -> None:
    with pytest.raises(GraphError, match=r"f.csv, line 2: node id 'x' is not an integer of 64 bits"):
        parse("1,2\n2,x\n", ids="int")
    with pytest.raises(ArgumentError, match="contradict"):
        parse("1,2\n", ids="text", num_nodes=3)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.floats(-1e6, 1e6)), min_size=1, max_size=30),
    st.sampled_from([",", ";", "\t", "  "]),
    st.booleans(),
)
def test_what_was_written_is_read(edges: list[tuple[int, int, float]], separator: str, header: bool) -> None:
    lines = [separator.join(["source", "target", "weight"])] * header
    lines += [separator.join([str(u), str(v), repr(w)]) for u, v, w in edges]
    loaded = parse("\n".join(lines), directed=True, num_nodes=10, duplicates="sum", weight="3", header=header)
    expected = np.zeros((10, 10))
    for u, v, w in edges:
        expected[u, v] += w
    assert np.allclose(loaded.graph.to_scipy().toarray(), expected, rtol=1e-12, atol=1e-9)
