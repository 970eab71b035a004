"""Edge lists with dictionaries, as NetworkX writes them."""

import networkx as nx
import pytest

from rfp.errors import GraphError
from rfp.io.edge_list import parse_edge_list
from rfp.io.networkx_lists import expand_dictionaries
from rfp.io.options import ReadOptions


def test_other_lists_are_left_alone() -> None:
    for content in (b"", b"\n\n", b"0 1\n", b"0 1 2\n", b"a b {\n"):
        assert expand_dictionaries(content, "f", ReadOptions()) is None


def test_weights_become_a_column_and_line_numbers_stay() -> None:
    content = b"\n0 1 {'weight': 2, 'year': 1}\n\n1 2 {}\n2 0 {'weight': -0.5}"
    expanded = expand_dictionaries(content, "f", ReadOptions())
    assert expanded is not None
    text, options, weights, unused = expanded
    assert text.split(b"\n") == [b"", b"0 1 2.0", b"", b"1 2 1.0", b"2 0 -0.5"]
    assert (options.header, options.weight, options.unweighted) == (False, "3", False)
    assert (weights, unused) == ("key 'weight'", ("'year'",))


@pytest.mark.parametrize("separator", [b",", b";", b"\t", b", "])
def test_separators(separator: bytes) -> None:
    expanded = expand_dictionaries(separator.join([b"a", b"b", b"{'weight': 3}"]), "f", ReadOptions())
    assert expanded is not None
    last = separator.strip(b" ") or separator  # blanks before the dictionary go with it
    assert expanded[0] == b"a" + separator + b"b" + last + b"3.0"


def test_another_key_and_no_weights() -> None:
    content = b"0 1 {'time': 3}\n"
    asked = expand_dictionaries(content, "f", ReadOptions(weight="time"))
    assert asked is not None
    assert (asked[0], asked[2], asked[3]) == (b"0 1 3.0", "key 'time'", ())
    for options in (ReadOptions(unweighted=True), ReadOptions()):
        without = expand_dictionaries(content, "f", options)
        assert without is not None
        assert (without[0], without[2], without[3]) == (b"0 1", None, ("'time'",))
        assert without[1].unweighted


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"0 1 {}\n1 2\n", {}, "f, line 2: no dictionary at the end"),
        (b"0 1 {'weight': 'x'}\n", {}, "f, line 1: weight 'x' is not a number"),
        (b"0 1 {'weight': True}\n", {}, "weight True is not a number"),
        (b"0 1 {'weight': open('x')}\n", {}, "line 1: .*is not a dictionary"),  # nothing is ever run
        (b"0 1 {1, 2}\n", {}, "is not a dictionary"),
        (b"0 1 {'\xff': 1}\n", {}, "is not a dictionary"),
        (b"0 1 {" + b" " * 10_000 + b"}\n", {}, "is not a dictionary"),
        (b"0 1 " + b"{'a':" * 300 + b"1" + b"}" * 300 + b"\n", {}, "is not a dictionary"),
        (
            b"0 1 {'weight': 1}\n",
            {"weight": "time"},
            "no edge has the key 'time' asked for by --weight; there are weight",
        ),
    ],
)
def test_mistakes(content: bytes, options: dict[str, str], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        expand_dictionaries(content, "f", ReadOptions(**options))


def test_what_networkx_writes() -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=0.1)
    graph.add_edge("b", "c", weight=1e-30)
    content = "\n".join(nx.generate_edgelist(graph)).encode()
    expanded = expand_dictionaries(content, "f", ReadOptions())
    assert expanded is not None
    assert expanded[0] == b"a b 0.1\nb c 1e-30"  # every digit


def test_a_comment_that_may_be_an_edge_is_refused_as_in_other_lists() -> None:
    graph = nx.Graph()
    graph.add_edge("ann", "#jazz", weight=2.0)
    graph.add_edge("#jazz", "bob", weight=3.0)
    content = "\n".join(nx.generate_edgelist(graph)).encode()
    with pytest.raises(GraphError, match=r"line 2: '#jazz bob' may be a comment or an edge; say --comment"):
        parse_edge_list(content, "f", ReadOptions())
    every = parse_edge_list(content, "f", ReadOptions(comment=""))
    assert every.first_edges() == (("ann", "#jazz", "2"), ("#jazz", "bob", "3"))
    notes = b"#by hand\n# 1 2 {}\n0 1 {}\n#from here on checked\n1 2 {'weight': 2}\n"  # no dictionary, or a mark apart
    assert parse_edge_list(notes, "f", ReadOptions()).num_rows == 2
