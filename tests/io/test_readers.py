"""The front door of reading."""

import gzip
import json
import lzma
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from rfp.errors import ArgumentError, FileError, GraphError
from rfp.io.readers import find_format, read_graph


def test_the_same_graph_from_every_format(tmp_path: Path) -> None:
    graph = nx.gnm_random_graph(12, 25, seed=1)
    matrix = nx.to_scipy_sparse_array(graph, dtype=float)
    source, target = np.array(graph.edges).T
    text = "".join(f"{u},{v}\n" for u, v in graph.edges)
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.tsv.gz").write_bytes(gzip.compress(text.replace(",", "\t").encode()))
    (tmp_path / "c.txt").write_text(text.replace(",", " "))
    pq.write_table(pa.table({"source": source, "target": target}), tmp_path / "d.parquet")
    sp.save_npz(tmp_path / "e.npz", matrix)
    scipy.io.mmwrite(tmp_path / "f.mtx", matrix)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    torch.save(Data(edge_index=torch.tensor(np.stack(matrix.nonzero())), num_nodes=12), tmp_path / "h.pt")
    paths = sorted(tmp_path.iterdir())
    assert len(paths) == 8
    for path in paths:
        loaded = read_graph(path)
        assert loaded.graph.to_scipy().toarray().tolist() == matrix.toarray().tolist(), path.name
        assert loaded.node_ids is None


@pytest.mark.parametrize("name", ["a", "a.bar", "a.gz", ".csv"])
def test_unknown_suffixes(name: str) -> None:
    with pytest.raises(FileError, match=r"--format edges\|parquet"):
        find_format(Path(name))


def test_format_on_request(tmp_path: Path) -> None:
    (tmp_path / "out.moreno").write_text("% sym\n1 2\n")
    assert read_graph(tmp_path / "out.moreno", format="edges").graph.num_nodes == 2
    with pytest.raises(ArgumentError, match="format must be one of 'edges'"):
        read_graph(tmp_path / "out.moreno", format="foo")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"none.csv: no such file"):
        read_graph(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        read_graph(tmp_path / "folder.csv")
    for name in ("none.parquet", "none.npz", "none.mtx", "none.graphml", "none.pt"):
        with pytest.raises(FileError, match=f"{name}: no such file"):
            read_graph(tmp_path / name)


@pytest.mark.parametrize("name", ["g.csv", "g.json", "g.parquet", "g.pt"])
def test_a_pointer_of_git_lfs_is_no_graph(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n")
    with pytest.raises(FileError, match=r"a pointer of Git LFS .* git lfs pull"):
        read_graph(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1\n")
    (tmp_path / "a.csv").chmod(0)
    with pytest.raises(FileError, match="cannot be read"):
        read_graph(tmp_path / "a.csv")


def test_options_without_meaning_are_refused(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.eye_array(2).tocsr())
    with pytest.raises(ArgumentError, match="--source has no meaning for the format 'npz'"):
        read_graph(tmp_path / "a.npz", source="x")
    with pytest.raises(ArgumentError, match="--num-nodes must be between 1"):
        read_graph(tmp_path / "a.npz", num_nodes=0)


def test_a_graph_without_nodes(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.csr_array((0, 0)))
    with pytest.raises(GraphError, match="no nodes"):
        read_graph(tmp_path / "a.npz")
    sp.save_npz(tmp_path / "b.npz", sp.csr_array((3, 3)))
    assert read_graph(tmp_path / "b.npz").graph.num_nodes == 3


def test_several_files_and_folders_make_one_graph(tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    (folder / ".part.crc").write_bytes(b"x")
    pq.write_table(pa.table({"source": [0, 1], "target": [1, 2]}), folder / "part-1.parquet")
    pq.write_table(pa.table({"source": [2], "target": [3]}), folder / "part-2.parquet")
    loaded = read_graph(folder)
    assert loaded.graph.to_scipy().toarray().tolist() == nx.to_numpy_array(nx.path_graph(4)).tolist()
    assert loaded.facts["files"] == "2"
    (tmp_path / "a.csv").write_text("source,target\n1,2\n")
    (tmp_path / "b.txt").write_text("2 x\n")
    both = read_graph([tmp_path / "a.csv", tmp_path / "b.txt"])
    assert both.node_ids is not None
    assert both.node_ids.tolist() == ["1", "2", "x"]


def test_parts_that_do_not_fit_together(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1\n1,2\n")
    (tmp_path / "b.csv").write_text("0,1,5\n1,-2,5\n")
    with pytest.raises(GraphError, match=r"b.csv, line 1 has a weight and .*a.csv, line 1 has none"):
        read_graph([tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(GraphError, match=r"b.csv, line 2: node id -2 is negative"):
        read_graph([tmp_path / "a.csv", tmp_path / "b.csv"], unweighted=True)
    sp.save_npz(tmp_path / "c.npz", sp.eye_array(2).tocsr())
    with pytest.raises(ArgumentError, match="several formats"):
        read_graph([tmp_path / "a.csv", tmp_path / "c.npz"])
    with pytest.raises(ArgumentError, match="several files make one graph only if"):
        read_graph([tmp_path / "c.npz", tmp_path / "c.npz"])
    (tmp_path / "a.csv").unlink()
    (tmp_path / "b.csv").unlink()
    with pytest.raises(FileError, match=r"is a folder with c.npz in it"):
        read_graph(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"), [("a.xlsx", "an Excel workbook"), ("a.pkl", "it can run code"), ("a.zip", "unpack it")]
)
def test_formats_that_are_not_read_are_named(name: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        find_format(Path(name))


@pytest.mark.parametrize("suffix", ["gexf", "gml", "graphml", "json", "net"])
@pytest.mark.parametrize("directed", [False, True])
def test_files_of_graphs(tmp_path: Path, suffix: str, directed: bool) -> None:
    graph = nx.gnm_random_graph(8, 12, seed=2, directed=directed)
    nx.set_edge_attributes(graph, {edge: {"weight": 0.5 + i} for i, edge in enumerate(graph.edges)})
    path = tmp_path / f"g.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="links")))
    elif suffix == "net":
        nx.write_pajek(graph, path)
    else:
        getattr(nx, f"write_{suffix}")(graph, path)
    packed = tmp_path / f"g.{suffix}.xz"
    packed.write_bytes(lzma.compress(path.read_bytes()))
    for file in (path, packed):
        loaded = read_graph(file)
        assert loaded.directed == directed
        assert loaded.graph.to_scipy().toarray().tolist() == nx.to_numpy_array(graph).tolist()
        assert loaded.node_ids is None
    path.write_text("no such thing")
    with pytest.raises(FileError, match=f"g.{suffix}"):
        read_graph(path)


def test_links_of_unknown_nodes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    path.write_text('{"nodes": [{"id": "a"}, {"id": "b"}], "links": [{"source": 0, "target": 1}]}')
    with pytest.raises(FileError, match=r"links\[0\] names the source 0, which is not the id of a node"):
        read_graph(path)
    path.write_text('{"a": 1}')
    with pytest.raises(FileError, match="JSON of another kind"):
        read_graph(path)


def test_labels_of_gml(tmp_path: Path) -> None:
    graph = nx.Graph([("ann", "bob"), ("bob", "cy")])
    nx.write_gml(graph, tmp_path / "g.gml")
    ids = read_graph(tmp_path / "g.gml").node_ids
    assert ids is not None
    assert ids.tolist() == ["ann", "bob", "cy"]


def test_gml_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "g.gml"
    path.write_text("\ufeffgraph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]\n")
    assert read_graph(path).graph.to_scipy().toarray().tolist() == [[0, 1], [1, 0]]


def test_a_label_that_is_said_twice(tmp_path: Path) -> None:
    path = tmp_path / "g.gml"
    path.write_text('graph [ node [ id 0 label "a" label "a" ] node [ id 1 label "b" ] edge [ source 0 target 1 ] ]')
    with pytest.raises(FileError, match="node 0 has 2 labels; leave one"):
        read_graph(path)


@pytest.mark.parametrize(
    "said", ["directed 2", "directed 18446744073709551616", "directed 0 directed 1", 'directed "1"']
)
def test_a_gml_file_says_directed_0_or_1(said: str, tmp_path: Path) -> None:
    """NetworkX takes everything but 0 for yes."""
    body = 'node [ id 0 label "directed 7" ] node [ id 1 directed 7 ] edge [ source 0 target 1 ]'
    path = tmp_path / "g.gml"
    path.write_text(f"# directed 7\ngraph [ {said} {body} ]")
    with pytest.raises(FileError, match="a GML file says directed 0 or directed 1, once"):
        read_graph(path)
    path.write_text(f"# directed 7\ngraph [ directed 1 {body} ]")
    assert read_graph(path).directed
