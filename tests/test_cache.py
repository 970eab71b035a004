"""The cache returns what was computed, only for the same content, and survives damage."""

import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
import torch

import rfp
from rfp.cache import EncodingCache
from rfp.errors import ArgumentError, FileError
from rfp.graph import Graph
from rfp.settings import Settings

KARATE = nx.karate_club_graph()


def test_second_call_reads_the_first(tmp_path: Path) -> None:
    first = rfp.encode(KARATE, num_channels=4, cache=tmp_path)
    assert "cached" not in first.report.reason
    second = rfp.encode(KARATE, num_channels=4, cache=tmp_path)
    assert "cached" in second.report.reason
    assert torch.equal(first.storage, second.storage)
    assert second.report.backend == first.report.backend
    assert [path.suffix for path in tmp_path.iterdir()] == [".pt"]


def test_any_change_is_another_entry(tmp_path: Path) -> None:
    other_graph = KARATE.copy()
    other_graph.remove_edge(0, 1)
    reweighted = KARATE.copy()
    reweighted[0][1]["weight"] = 9.0
    calls = [
        (KARATE, {}),
        (KARATE, {"seed": 1}),
        (KARATE, {"num_steps": 3}),
        (KARATE, {"operators": ["adjacency"]}),
        (KARATE, {"normalize_every": 2}),
        (KARATE, {"features": torch.ones(34, 2)}),
        (KARATE, {"graph_keys": torch.tensor([3])}),
        (KARATE, {"operators": [torch.eye(34)]}),
        (KARATE, {"operators": [2 * torch.eye(34)]}),
        (other_graph, {}),
        (reweighted, {}),
    ]
    for graph, arguments in calls:
        assert "cached" not in rfp.encode(graph, cache=tmp_path, **arguments).report.reason
    assert len(list(tmp_path.iterdir())) == len(calls)


def test_another_version_is_another_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rfp.encode(KARATE, cache=tmp_path)
    monkeypatch.setattr("rfp.cache.__version__", "999")
    assert "cached" not in rfp.encode(KARATE, cache=tmp_path).report.reason


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f".entry.pt.{ended.pid}.part"
    left.write_bytes(b"half")
    rfp.encode(KARATE, cache=tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".pt"]


def test_a_damaged_entry_is_computed_again(tmp_path: Path) -> None:
    first = rfp.encode(KARATE, cache=tmp_path)
    entry = next(tmp_path.iterdir())
    entry.write_bytes(entry.read_bytes()[:100])
    again = rfp.encode(KARATE, cache=tmp_path)
    assert "cached" not in again.report.reason
    assert torch.equal(again.storage, first.storage)
    assert "cached" in rfp.encode(KARATE, cache=tmp_path).report.reason


@pytest.mark.parametrize("storage_dtype", [None, torch.bfloat16])
def test_an_entry_of_which_a_bit_has_changed_is_computed_again(
    tmp_path: Path, storage_dtype: torch.dtype | None
) -> None:
    given = {"num_channels": 300, "normalization": "none", "cache": tmp_path, "storage_dtype": storage_dtype}
    first = rfp.encode(KARATE, **given)
    entry = next(tmp_path.iterdir())
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 64
    entry.write_bytes(data)
    again = rfp.encode(KARATE, **given)
    assert torch.equal(again.storage, first.storage)
    assert "cached" not in again.report.reason
    assert "cached" in rfp.encode(KARATE, **given).report.reason


def test_callables_cannot_be_cached(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be hashed"):
        rfp.encode(KARATE, cache=tmp_path, distribution=lambda u: u)
    with pytest.raises(ArgumentError, match="got function"):
        rfp.encode(KARATE, cache=tmp_path, operators=[lambda a: a])
    for sparse in (torch.eye(34).to_sparse(), torch.eye(34).to_sparse_csr()):
        with pytest.raises(ArgumentError, match=f"a dense tensor, got {sparse.layout}"):
            rfp.encode(KARATE, cache=tmp_path, operators=[sparse])


def test_the_key_sees_where_graphs_end_how_many_nodes_there_are_and_every_entry_of_a_dense_operator(
    tmp_path: Path,
) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    store, settings = EncodingCache(tmp_path), Settings(num_channels=2)

    def key(graph: Graph, settings: Settings = settings) -> str:
        return store.key(settings, graph, None, None)

    one = Graph(edges, 4)
    assert key(one) != key(Graph(edges, 5))
    assert key(Graph(edges, 4, ptr=torch.tensor([0, 2, 4]))) != key(Graph(edges, 4, ptr=torch.tensor([0, 3, 4])))
    assert key(one) != key(one.with_keys(torch.tensor([7]))) != key(one.with_keys(torch.tensor([8])))
    # So large that its text leaves entries out: those count too.
    large = torch.zeros(60, 60)
    other = large.clone()
    other[30, 30] = 1.0
    assert str(large) == str(other)
    assert key(one, Settings(operators=(large,))) != key(one, Settings(operators=(other,)))


def test_a_cache_that_is_no_folder_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    graph = Graph(torch.tensor([[0], [1]]), 2)
    for cache in (file, file / "inside"):
        with pytest.raises(FileError, match=r"file.*: cannot be used as a folder \(.*\); give another"):
            EncodingCache(cache).through(Settings(), graph, None, None, lambda: pytest.fail("was computed"))
