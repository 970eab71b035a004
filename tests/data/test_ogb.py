"""Made-up folders in OGB's layout; molhiv against the counts of its description."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rfp.data import load
from rfp.data.datasets import DATASETS
from rfp.data.loaded import LoadedTask
from rfp.errors import FileError


def write(folder: Path, **tables: str) -> None:
    for name, text in tables.items():
        path = folder / f"{name.replace('__', '/').replace('_', '-')}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with gzip.open(path, "wt") as file:
            file.write(text.replace(" ", "\n") + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Molecules of 3, 1 and 2 atoms; a citation network of 4 papers."""
    write(
        tmp_path / "ogbg_molhiv",
        raw__num_node_list="3 1 2",
        raw__num_edge_list="2 0 1",
        raw__edge="0,1 1,2 0,1",
        raw__edge_feat="0,0,1 2,0,0 3,0,0",
        raw__node_feat=" ".join(f"{i},0" for i in range(6)),
        raw__graph_label="0 1 0",
        split__scaffold__train="1",
        split__scaffold__valid="2",
        split__scaffold__test="0",
    )
    write(
        tmp_path / "ogbn_arxiv",
        raw__num_node_list="4",
        raw__num_edge_list="3",
        raw__edge="0,1 2,1 3,0",
        raw__node_feat="0.5,1 -1,2 0,0 1e-3,4",
        raw__node_label="3 0 39 1",
        split__time__train="0 3",
        split__time__valid="1",
        split__time__test="2",
    )
    return tmp_path


def read(root: Path, name: str) -> LoadedTask:
    return DATASETS[name].read(root, DATASETS[name].task)


def test_molhiv_bonds_get_their_reverse(root: Path) -> None:
    loaded = read(root, "ogbg-molhiv")
    assert loaded.graphs.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1], [4, 5], [5, 4]]
    assert loaded.graphs.edge_attr is not None
    assert loaded.graphs.edge_attr[:, 0].tolist() == [0, 0, 2, 2, 3, 3]
    assert loaded.graphs.ptr.tolist() == [0, 3, 4, 6]
    assert loaded.graphs.edge_ptr.tolist() == [0, 4, 4, 6]
    assert loaded.y.tolist() == [[0], [1], [0]]
    assert [loaded.rows(part).tolist() for part in ("train", "val", "test")] == [[1], [2], [0]]


def test_arxiv_is_directed_until_asked_otherwise(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = read(root, "ogbn-arxiv")
    assert loaded.graphs.edge_index.T.tolist() == [[0, 1], [2, 1], [3, 0]]
    assert loaded.graphs.x is not None
    assert loaded.graphs.x[3].tolist() == pytest.approx([0.001, 4])
    assert loaded.y.tolist() == [3, 0, 39, 1]
    monkeypatch.setitem(DATASETS["ogbn-arxiv"].sizes, "nodes", 4)  # type: ignore[attr-defined]
    monkeypatch.setitem(DATASETS["ogbn-arxiv"].sizes, "edges", 3)  # type: ignore[attr-defined]
    monkeypatch.setitem(DATASETS["ogbn-arxiv"].sizes, "features", 2)  # type: ignore[attr-defined]
    assert load("ogbn-arxiv", data_root=root).graphs.num_edges == 6
    assert load({"name": "ogbn-arxiv", "undirected": False}, data_root=root).graphs.num_edges == 3


def test_damaged_files_are_named(root: Path) -> None:
    write(root / "ogbg_molhiv", raw__node_feat="0,0 1,0")
    with pytest.raises(FileError, match=r"node-feat.csv.gz: 2 rows where 6 are expected"):
        read(root, "ogbg-molhiv")
    write(root / "ogbg_molhiv", raw__node_feat=" ".join(["0,0"] * 6), raw__edge="0,1 1,x 0,1")
    with pytest.raises(FileError, match=r"edge.csv.gz: damaged .*'x'"):
        read(root, "ogbg-molhiv")
    write(root / "ogbg_molhiv", raw__edge="0,1 1,5 0,1")  # atom 5 is another molecule's
    with pytest.raises(FileError, match=r"edge.csv.gz: edge 2 joins two graphs"):
        read(root, "ogbg-molhiv")
    path = root / "ogbg_molhiv" / "raw" / "edge.csv.gz"
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(FileError, match=r"edge.csv.gz: damaged"):
        read(root, "ogbg-molhiv")


@pytest.mark.data
@pytest.mark.slow
def test_molhiv_counts(data_root: Path) -> None:
    loaded = load("ogbg-molhiv", data_root=data_root)
    graphs = loaded.graphs
    assert (graphs.num_graphs, graphs.num_nodes, graphs.num_edges) == (41127, 1049163, 2259376)
    assert graphs.x is not None
    assert graphs.edge_attr is not None
    assert (graphs.x.size(1), graphs.edge_attr.size(1)) == (9, 3)
    rows = [loaded.rows(part) for part in ("train", "val", "test")]
    assert [len(part) for part in rows] == [32901, 4113, 4113]
    assert [int(loaded.y[part].sum()) for part in rows] == [1232, 81, 130]
    flipped = graphs.edge_index.flip(0).view(2, -1, 2).flip(2).reshape(2, -1)
    assert torch.equal(flipped, graphs.edge_index)  # each bond is followed by its reverse


@pytest.mark.data
@pytest.mark.slow
def test_molhiv_needs_neither_ogb_nor_rdkit(data_root: Path, cache: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['ogb'] = sys.modules['rdkit'] = sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
        "import rfp.data\n"
        f"print(rfp.data.load('ogbg-molhiv', data_root={str(data_root)!r}, cache={str(cache)!r}).num_rows)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "41127", done.stderr
