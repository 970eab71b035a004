"""Loading by name: the real data sets have the published counts; nothing is written beside them."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rfp.data import DATASETS, load
from rfp.errors import ArgumentError, FileError

SLOW = pytest.mark.slow
# Name: nodes, edges as loaded, features, classes, edges once undirected (None: they are already), sizes of split 0.
PUBLISHED = {
    "cora": (2708, 10556, 1433, 7, None, (1192, 796, 497)),
    "citeseer": (3327, 9104, 3703, 6, None, (1596, 1065, 666)),
    "pubmed": (19717, 88648, 500, 3, None, (9463, 6310, 3944)),
    "cornell": (183, 298, 1703, 5, True, (87, 59, 37)),
    "texas": (183, 325, 1703, 5, True, (87, 59, 37)),
    "wisconsin": (251, 515, 1703, 5, True, (120, 80, 51)),
    "chameleon": (2277, 36101, 2325, 5, True, (1092, 729, 456)),
    "squirrel": (5201, 217073, 2089, 5, True, (2496, 1664, 1041)),
    "film": (7600, 30019, 932, 5, True, (3648, 2432, 1520)),
}
PARTS = ("train", "val", "test")


@pytest.mark.data
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=SLOW if name in ("chameleon", "squirrel") else ()) for name in PUBLISHED]
)
def test_node_data_sets_have_the_published_counts(data_root: Path, name: str) -> None:
    nodes, edges, features, classes, directed, sizes = PUBLISHED[name]
    loaded = load({"name": name, "undirected": False}, data_root=data_root)
    graphs = loaded.graphs
    assert graphs.x is not None
    assert (graphs.num_nodes, graphs.num_edges, graphs.x.size(1)) == (nodes, edges, features)
    assert loaded.task.num_outputs == classes == int(loaded.y.max()) + 1
    assert loaded.num_splits == 10
    for split in range(10):
        expected = (1017, 679, 424) if name == "citeseer" and split in (4, 5) else sizes
        assert tuple(len(loaded.rows(part, split)) for part in PARTS) == expected
    loops = bool((graphs.edge_index[0] == graphs.edge_index[1]).any())
    assert graphs.graph.is_undirected() is (directed is None)
    assert loops is (directed is True)
    # By default both directions are there; the matrix is that of SciPy.
    both = load(name, data_root=data_root).graphs
    matrix = graphs.graph.to_scipy()
    assert abs(both.graph.to_scipy() - matrix.maximum(matrix.T)).nnz == 0
    assert both.edge_weight is None
    without = load({"name": name, "self_loops": "remove"}, data_root=data_root).graphs
    assert not bool((without.edge_index[0] == without.edge_index[1]).any())
    with pytest.raises(ArgumentError, match=f"split 10 of '{name}' does not exist; expected 0 to 9"):
        loaded.rows("test", 10)


@pytest.mark.data
def test_features_are_normalised_on_request_only(data_root: Path) -> None:
    plain = load("texas", data_root=data_root).graphs.x
    scaled = load({"name": "texas", "normalize_features": True}, data_root=data_root).graphs.x
    assert plain is not None
    assert scaled is not None
    assert plain.unique().tolist() == [0, 1]
    assert scaled.sum(dim=1)[plain.sum(dim=1) > 0].tolist() == pytest.approx([1.0] * int((plain.sum(dim=1) > 0).sum()))


@pytest.fixture
def small_cornell(cornell_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The made-up Cornell, with the check against the counts of the real one switched off."""
    monkeypatch.setitem(DATASETS, "cornell", replace(DATASETS["cornell"], sizes={}))
    return cornell_root


def test_nothing_is_written_under_the_root(small_cornell: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in small_cornell.rglob("*")}
    loaded = load("cornell", data_root=small_cornell, cache=tmp_path / "cache")
    assert {path: path.stat().st_mtime_ns for path in small_cornell.rglob("*")} == before
    assert loaded.graphs.num_edges == 11  # five edges both ways and a loop
    kept = list((tmp_path / "cache" / "processed").iterdir())
    assert [path.name.split("-")[0] for path in kept] == ["cornell"]


def test_other_content_is_another_entry(small_cornell: Path, tmp_path: Path) -> None:
    first = load("cornell", data_root=small_cornell, cache=tmp_path / "cache")
    edges = small_cornell / "webkb" / "cornell" / "raw" / "out1_graph_edges.txt"
    edges.write_text(edges.read_text().replace("4\t5\n", ""))
    second = load("cornell", data_root=small_cornell, cache=tmp_path / "cache")
    assert (first.graphs.num_edges, second.graphs.num_edges) == (11, 9)
    assert len(list((tmp_path / "cache" / "processed").iterdir())) == 2


def test_the_second_load_reads_no_raw_file(
    small_cornell: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load("cornell", data_root=small_cornell, cache=tmp_path / "cache")

    def fail(root: Path, task: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setitem(DATASETS, "cornell", replace(DATASETS["cornell"], read=fail))  # type: ignore[arg-type]
    again = load("cornell", data_root=small_cornell, cache=tmp_path / "cache")
    assert torch.equal(again.y, first.y)
    assert again.source == first.source


def test_a_file_cut_at_a_line_is_noticed_by_the_counts(cornell_root: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cornell should not have 6 nodes and not 183, 6 edges and not 298"):
        load("cornell", data_root=cornell_root, cache=tmp_path / "cache")
    assert not (tmp_path / "cache" / "processed").exists()  # nothing wrong is kept


def test_checksums_are_compared(small_cornell: Path, tmp_path: Path) -> None:
    (small_cornell / "SHA256SUMS").write_text("0" * 64 + "  ./webkb/cornell/raw/out1_graph_edges.txt\n")
    with pytest.raises(FileError, match=r"out1_graph_edges.txt: damaged or replaced"):
        load("cornell", data_root=small_cornell, cache=tmp_path / "cache")


@pytest.mark.parametrize("name", [name for name in DATASETS if not name.startswith("counting")])
def test_missing_data_says_what_to_put_where(tmp_path: Path, name: str) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(FileError) as caught:
        load(name, data_root=tmp_path / "root", cache=tmp_path / "cache", download=False)
    for file in DATASETS[name].files:
        assert f"\n  {file}" in str(caught.value)
    assert str(tmp_path / "root") in str(caught.value)


def test_a_download_is_tried_and_its_failure_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(root: Path) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setitem(DATASETS, "texas", replace(DATASETS["texas"], download=offline))
    monkeypatch.delenv("RFP_DATA", raising=False)
    with pytest.raises(FileError, match=r"probably there is no network \(OSError: Network is unreachable\)"):
        load("texas", cache=tmp_path)


def test_unknown_names_and_paths() -> None:
    with pytest.raises(ArgumentError, match=r"neither a data set \(cora, citeseer, .*\) nor a file"):
        load("coral")
    with pytest.raises(ArgumentError, match="'coral' is not known; expected one of cora"):
        load({"name": "coral"})
    with pytest.raises(FileError, match="no such file or folder"):
        load({"path": "nowhere.pt"})
