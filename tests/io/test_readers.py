"""The front door of reading."""

import gzip
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
