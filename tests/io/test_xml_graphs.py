"""GraphML and GEXF: what is declared is read, what is not is refused."""

from pathlib import Path

import pytest

from rfp.errors import RFPError
from rfp.io import read_graph
from rfp.io.xml_graphs import parse_gexf, parse_graphml


def graphml(body: str, default: str = "undirected", keys: str = "") -> bytes:
    nodes = '<node id="a"/><node id="b"/>'
    return f'<graphml>{keys}<graph edgedefault="{default}">{nodes}{body}</graph></graphml>'.encode()


def gexf(edges: str, nodes: str = '<node id="a"/><node id="b"/>', before: str = "") -> bytes:
    return f"<gexf><graph>{before}<nodes>{nodes}</nodes><edges>{edges}</edges></graph></gexf>".encode()


def test_weights_of_graphml_by_the_name_of_their_key() -> None:
    keys = '<key id="d0" for="edge" attr.name="weight"/>'
    keys += '<key id="d1" for="edge" attr.name="size"><default>7</default></key>'
    edge = '<edge source="a" target="b"><data key="d0">2.5</data></edge><edge source="b" target="b"/>'
    content = graphml(edge, keys=keys)
    assert parse_graphml(content, "weight", "f").edges == [(0, 1, "2.5"), (1, 1, None)]
    assert parse_graphml(content, "size", "f").edges == [(0, 1, "7"), (1, 1, "7")]
    assert parse_graphml(content, "d0", "f").edges == [(0, 1, None), (1, 1, None)]


def test_weights_of_gexf_by_attribute_or_value() -> None:
    before = '<attributes class="edge"><attribute id="3" title="size"/></attributes>'
    values = '<attvalues><attvalue for="3" value="4"/></attvalues>'
    content = gexf(f'<edge source="a" target="b" weight="2">{values}</edge>', before=before)
    assert parse_gexf(content, "weight", "f").edges == [(0, 1, "2")]
    assert parse_gexf(content, "size", "f").edges == [(0, 1, "4")]


def test_undirected_edges_beside_directed_ones_count_both_ways(tmp_path: Path) -> None:
    body = '<edge source="a" target="b"/><edge source="b" target="b" directed="true"/>'
    (tmp_path / "g.graphml").write_bytes(graphml(body))
    loaded = read_graph(tmp_path / "g.graphml")
    assert loaded.directed
    assert loaded.graph.to_scipy().toarray().tolist() == [[0, 1], [1, 1]]
    (tmp_path / "g.gexf").write_bytes(
        gexf('<edge source="a" target="b" type="directed"/><edge source="b" target="b" type="mutual"/>')
    )
    assert read_graph(tmp_path / "g.gexf").graph.to_scipy().toarray().tolist() == [[0, 1], [0, 1]]


def test_edges_of_the_same_id_are_two_edges(tmp_path: Path) -> None:
    edge = '<edge id="0" source="a" target="b" weight="{}"/>'
    (tmp_path / "g.gexf").write_bytes(gexf(edge.format(1) + edge.format(2)))
    assert read_graph(tmp_path / "g.gexf").graph.to_scipy().toarray().tolist() == [[0, 3], [3, 0]]


@pytest.mark.parametrize("text", ["1_000", "٣", "true", ""])
def test_weights_are_decimal_numbers(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.gexf").write_bytes(gexf(f'<edge source="a" target="b" weight="{text}"/>'))
    with pytest.raises(RFPError, match=r"edge a - b: weight .* is not a finite number"):
        read_graph(tmp_path / "g.gexf")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<graphml", "not readable as XML"),
        (b'<?xml version="1.0" encoding="no-such"?><graphml/>', "not readable as XML"),
        (b"<gexf/>", "begins with <gexf>, not with <graphml>"),
        (b"<graphml/>", "holds 0 graphs"),
        (b"<graphml><graph/><graph/></graphml>", "holds 2 graphs"),
        (graphml("", default="Directed"), "the edgedefault must be directed or undirected, got 'Directed'"),
        (graphml('<node id="a"/>'), "two nodes have the same id 'a'"),
        (graphml("<node/>"), "node 3 has no id"),
        (graphml('<node id="g"><graph/></node>'), "node 'g' holds a graph of its own"),
        (graphml('<edge source="a"/>'), "edge 1 has no target"),
        (graphml('<edge source="a" target="x"/>'), "the target of edge 1 is 'x', which is not the id of a node"),
        (graphml('<edge source="a" target="b" directed="no"/>'), "edge 1 must have directed true or false, got 'no'"),
        (graphml("<hyperedge/>"), "a hyperedge"),
        (
            graphml('<edge source="a" target="b"/><edge source="a" target="b"><data key="weight">2</data></edge>'),
            "edge 2 has data of the key 'weight', which no <key> declares",
        ),
    ],
)
def test_mistakes_in_graphml(content: bytes, message: str) -> None:
    with pytest.raises(RFPError, match=message):
        parse_graphml(content, "weight", "f")


def test_mistakes_in_gexf() -> None:
    with pytest.raises(RFPError, match="the type of an edge must be directed or undirected, got 'both'"):
        parse_gexf(gexf('<edge source="a" target="b" type="both"/>'), "weight", "f")
    with pytest.raises(RFPError, match="node 'a' holds a graph of its own"):
        parse_gexf(gexf("", nodes='<node id="a"><nodes/></node>'), "weight", "f")
