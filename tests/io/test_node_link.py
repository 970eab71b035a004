"""Node-link JSON: what is a node, what is a link, and what is refused."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from rfp.errors import RFPError
from rfp.io import read_graph
from rfp.io.node_link import parse_node_link


def written(**data: Any) -> bytes:
    return json.dumps(data).encode()


def test_ids_weights_and_direction() -> None:
    links = [{"source": 7, "target": 5, "w": 0.5}, {"source": 5, "target": 5}]
    found = parse_node_link(written(directed=True, nodes=[{"id": 5}, {"id": 7}], links=links), "w", "f")
    assert (found.names, found.links, found.directed) == (["5", "7"], [(1, 0, 0.5), (0, 0, None)], True)


def test_nodes_without_ids_are_known_by_their_place() -> None:
    found = parse_node_link(written(nodes=[{}, {"colour": "red"}], edges=[{"source": 1, "target": 0}]), "w", "f")
    assert (found.names, found.links, found.directed) == (["0", "1"], [(1, 0, None)], False)


def test_links_of_the_same_key_add_up(tmp_path: Path) -> None:
    links = [{"source": "a", "target": "b", "key": 0, "weight": weight} for weight in (1, 2)]
    (tmp_path / "g.json").write_bytes(written(nodes=[{"id": "a"}, {"id": "b"}], links=links))
    assert read_graph(tmp_path / "g.json").graph.to_scipy().toarray().tolist() == [[0, 3], [3, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not a readable JSON file"),
        (b"[" * 100_000, "not a readable JSON file"),
        (b"[1]", "JSON of another kind"),
        (json.dumps(nx.adjacency_data(nx.path_graph(3))).encode(), "JSON of another kind .* networkx.node_link_data"),
        (b'{"nodes": [], "links": [1], "links": []}', "the key 'links' is there twice in one object"),
        (written(nodes=3, links=[]), "JSON of another kind"),
        (written(nodes=[], links=[], edges=[]), "both links and edges"),
        (written(directed="false", nodes=[], links=[]), '"directed" must be true or false, got "false"'),
        (written(nodes=[{"id": 1}, {"id": "1"}], links=[]), "two nodes have the same id '1'"),
        (written(nodes=[{"id": 1}, {"id": True}], links=[]), r"nodes\[1\] must be"),
        (written(nodes=[{"id": 1.5}], links=[]), r"nodes\[0\] must be"),
        (written(nodes=["a"], links=[]), r"nodes\[0\] must be"),
        (written(nodes=[{"id": 1}], links=[{"source": 1}]), r"links\[0\] has no source or no target"),
        (written(nodes=[{"id": 1}], links=[{"source": 1, "target": "1"}]), r'links\[0\] names the target "1"'),
        (written(nodes=[{"id": 1}], links=[{"source": True, "target": 1}]), r"links\[0\] names the source true"),
        (written(nodes=[{"id": 1}], links=[{"source": [1], "target": 1}]), r"links\[0\] names the source \[1\]"),
    ],
)
def test_mistakes(content: bytes, message: str) -> None:
    with pytest.raises(RFPError, match=message):
        parse_node_link(content, "weight", "f")
