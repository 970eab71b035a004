"""GraphML."""

import gzip
import json
from pathlib import Path

import networkx as nx
import pytest

from rfp.errors import FileError, GraphError
from rfp.io.graph_files import read_graphml, read_node_link
from rfp.io.options import ReadOptions


def write(folder: Path, graph: nx.Graph) -> Path:
    nx.write_graphml(graph, folder / "g.graphml")
    return folder / "g.graphml"


def test_undirected_with_names_and_other_attributes(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_node("lonely", colour="red")
    graph.add_edge("b", "a", since=1999)
    loaded = read_graphml(write(tmp_path, graph), ReadOptions())
    assert loaded.node_ids is not None
    assert loaded.node_ids.tolist() == ["lonely", "b", "a"]
    assert loaded.graph.to_scipy().toarray().tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert loaded.graph.edge_weight is None
    assert not loaded.directed


def test_numbers_as_ids(tmp_path: Path) -> None:
    assert read_graphml(write(tmp_path, nx.path_graph(3)), ReadOptions()).node_ids is None


def test_directed_weighted_with_parallel_edges(tmp_path: Path) -> None:
    graph = nx.MultiDiGraph()
    graph.add_edge(0, 1, weight=0.1)
    graph.add_edge(0, 1, weight=2.0)
    graph.add_edge(1, 1, weight=3.0)
    path = write(tmp_path, graph)
    loaded = read_graphml(path, ReadOptions())
    assert loaded.directed
    assert loaded.graph.to_scipy().toarray().tolist() == [[0, 2.1], [0, 3]]
    both = read_graphml(path, ReadOptions(directed=False))
    assert both.graph.to_scipy().toarray().tolist() == [[0, 2.1], [2.1, 3]]
    assert read_graphml(path, ReadOptions(unweighted=True)).graph.edge_weight is None


def test_another_attribute_as_weight(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, strength=4, label="x")
    path = write(tmp_path, graph)
    loaded = read_graphml(path, ReadOptions(weight="strength"))
    assert loaded.graph.edge_weight is not None
    assert loaded.graph.edge_weight.tolist() == [4, 4]
    with pytest.raises(GraphError, match="edge 0 - 1: weight 'x' is not a finite number"):
        read_graphml(path, ReadOptions(weight="label"))
    with pytest.raises(GraphError, match="no edge has the attribute 'size'"):
        read_graphml(path, ReadOptions(weight="size"))


def test_mistakes(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=float("nan"))
    with pytest.raises(GraphError, match="edge a - b: weight 'nan' is not a finite number"):
        read_graphml(write(tmp_path, graph), ReadOptions())
    with pytest.raises(GraphError, match="has 2 nodes, but --num-nodes is 5"):
        read_graphml(tmp_path / "g.graphml", ReadOptions(num_nodes=5))
    (tmp_path / "x.graphml").write_text("<graphml")
    with pytest.raises(FileError, match="not readable as XML"):
        read_graphml(tmp_path / "x.graphml", ReadOptions())


def test_a_cut_or_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(Path(write(tmp_path, nx.karate_club_graph())).read_bytes())
    path = tmp_path / "g.graphml.gz"
    path.write_bytes(whole)
    assert read_graphml(path, ReadOptions()).graph.num_nodes == 34
    broken = bytes([*whole[:200], whole[200] ^ 0xFF, *whole[201:]])
    for content in (whole[:5], whole[:200], whole[:-3], broken):
        path.write_bytes(content)
        with pytest.raises(FileError, match=r"g\.graphml\.gz: not a complete gzip file"):
            read_graphml(path, ReadOptions())


def test_the_weight_that_a_file_declares_for_edges_without_one(tmp_path: Path) -> None:
    path = tmp_path / "g.graphml"
    path.write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="w" for="edge" attr.name="weight" attr.type="double"><default>2.5</default></key>'
        '<graph edgedefault="directed"><node id="a"/><node id="b"/>'
        '<edge source="a" target="b"/><edge source="b" target="a"><data key="w">4</data></edge></graph></graphml>'
    )
    assert read_graphml(path, ReadOptions()).graph.to_scipy().toarray().tolist() == [[0, 2.5], [4, 0]]


def test_an_endless_weight_is_cut_short_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    link = {"source": "a", "target": "b", "weight": "x" * 5000}
    path.write_text(json.dumps({"nodes": [{"id": "a"}, {"id": "b"}], "links": [link]}))
    with pytest.raises(GraphError, match="is not a finite number") as caught:
        read_node_link(path, ReadOptions())
    assert len(str(caught.value)) < 500
