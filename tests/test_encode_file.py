"""Files in, a file out, without the command: what is written, what is refused, what is told on the way."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rfp
from rfp import file_contents
from rfp.atomic import atomic_files
from rfp.encode_file import FileJob, Progress, encode_file
from rfp.errors import ArgumentError, FileError, NumericalError, WriteError
from rfp.io import LoadedGraph, ReadOptions
from rfp.settings import Settings

SETTINGS = Settings(num_channels=2, num_steps=3, operators=["adjacency"])


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text("ann,bob,2\nbob,cy,0.5\n")
    return path


def job(edges: Path, output: str = "out.npy", **more: Any) -> FileJob:
    given = {"settings": SETTINGS, "options": ReadOptions(), **more}
    return FileJob((str(edges),), str(edges.parent / output) if output != "-" else "-", **given)


def expected(edges: Path, **settings: Any) -> np.ndarray:
    graph = rfp.read_graph(edges).graph
    return rfp.encode(graph, SETTINGS, **settings).node_first().numpy()


def there(edges: Path) -> set[str]:
    return {path.name for path in edges.parent.iterdir()} - {"edges.csv"}


@pytest.mark.parametrize("stream", [None, True, False])
def test_the_array_its_names_and_how_it_was_made(edges: Path, stream: bool | None) -> None:
    about = encode_file(job(edges, stream=stream))
    assert there(edges) == {"out.npy", "out.npy.json", "out.npy.nodes.csv"}
    np.testing.assert_array_equal(
        np.load(edges.parent / "out.npy"), expected(edges, backend=about["report"]["backend"])
    )
    assert (edges.parent / "out.npy.nodes.csv").read_text().split() == ['"node"', '"ann"', '"bob"', '"cy"']
    written = json.loads((edges.parent / "out.npy.json").read_text())
    assert written == json.loads(json.dumps({name: about[name] for name in written}))
    assert written["output"]["streamed"] is bool(stream)
    assert set(about["seconds"]) == ({"read", "encode_and_write", "write"} if stream else {"read", "encode", "write"})


def test_numbers_need_no_file_of_names_and_force_removes_that_of_before(edges: Path) -> None:
    encode_file(job(edges))
    edges.write_text("0,1\n1,2\n")
    with pytest.raises(FileError, match="already there; choose another name, or replace with --force"):
        encode_file(job(edges))
    encode_file(job(edges, force=True))
    assert there(edges) == {"out.npy", "out.npy.json"}
    assert np.load(edges.parent / "out.npy").shape == (3, 8)


def test_it_is_told_what_happens(edges: Path) -> None:
    stages: list[tuple[str, int | None]] = []
    done: list[int] = []
    read: list[LoadedGraph] = []
    encode_file(
        job(edges), Progress(lambda name, total: stages.append((name, total)), done.append), on_read=read.append
    )
    assert [(name.split()[0], total) for name, total in stages] == [
        ("reading", None),
        ("propagating", 3),
        ("writing", None),
    ]
    assert sum(done) == 3
    assert [one.graph.num_nodes for one in read] == [3]


class Broken(io.RawIOBase):
    """A disk that is full."""

    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")

    @property
    def buffer(self) -> "Broken":
        return self


class Printed(io.BytesIO):
    @property
    def buffer(self) -> "Printed":
        return self


@pytest.mark.parametrize("stream", [True, False])
def test_standard_output(edges: Path, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    printed = Printed()
    monkeypatch.setattr(sys, "stdout", printed)
    about = encode_file(job(edges, "-", stream=stream))
    np.testing.assert_array_equal(
        np.load(io.BytesIO(printed.getvalue())), expected(edges, backend=about["report"]["backend"])
    )
    assert there(edges) == set()
    monkeypatch.setattr(sys, "stdout", Broken())
    with pytest.raises(WriteError, match="standard output cannot be written"):
        encode_file(job(edges, "-", stream=stream))


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"output": "out.npz", "stream": True}, ArgumentError, r"--stream writes .npy only, got .*use -o .*out.npy"),
        ({"settings": Settings(cache="x"), "stream": True}, ArgumentError, "--stream and --cache contradict"),
        ({"output": "edges.csv", "force": True}, FileError, "edges.csv"),
        ({"output": "out.txt"}, FileError, ".npy"),
        ({"output": "no/out.npy"}, FileError, r"no/out\.npy: the folder .*no does not exist; create it first"),
        ({"settings": Settings(num_steps=1_000_001)}, ArgumentError, "-P 1,000,001 .* may never end"),
    ],
)
def test_what_is_refused_before_anything_is_done(
    edges: Path, more: dict[str, Any], error: type[Exception], message: str
) -> None:
    before = edges.read_bytes()
    with pytest.raises(error, match=message):
        encode_file(job(edges, **more))
    assert there(edges) == set()
    assert edges.read_bytes() == before


def test_of_two_that_write_one_new_file_one_is_told(edges: Path) -> None:
    one = job(edges)

    def while_it_is_read(loaded: LoadedGraph) -> None:
        with atomic_files([one.path]) as (file,):  # another process is done before this one
            file.write(b"other")

    with pytest.raises(FileError, match="was written by another process meanwhile"):
        encode_file(one, on_read=while_it_is_read)
    assert one.path.read_bytes() == b"other"
    assert not one.sidecar.exists()
    encode_file(job(edges, force=True))
    assert one.path.read_bytes() != b"other"


def test_a_folder_is_no_file(edges: Path) -> None:
    (edges.parent / "out.npy").mkdir()
    with pytest.raises(FileError, match="is a folder; give a file name"):
        encode_file(job(edges, force=True))


def test_nothing_is_left_of_states_that_overflow(edges: Path) -> None:
    edges.write_text("0,1,1e30\n1,2,0.5\n")
    steep = Settings(num_channels=2, num_steps=3, operators=["adjacency"], normalization="none")
    for stream in (True, False):
        with pytest.raises(NumericalError, match="the state of step 2 is not finite"):
            encode_file(job(edges, settings=steep, stream=stream))
        assert there(edges) == set()


def test_memory_decides_what_is_streamed(edges: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.encode_file.available_memory", lambda device: 1_000_000)
    assert not encode_file(job(edges))["output"]["streamed"]
    monkeypatch.setattr("rfp.encode_file.MEMORY_SHARE", 1e-6)
    assert encode_file(job(edges, "streamed.npy"))["output"]["streamed"]
    with pytest.raises(ArgumentError, match=r"write it step by step with -o .*out.npy"):
        encode_file(job(edges, "out.parquet"))
    monkeypatch.setattr("rfp.encode_file.available_memory", lambda device: 10)
    with pytest.raises(ArgumentError, match="of memory beside the result and 10 bytes is free"):
        encode_file(job(edges, "larger.npy"))
    assert not (edges.parent / "larger.npy").exists()
    monkeypatch.setattr("rfp.encode_file.available_memory", lambda device: None)  # nobody knows
    assert not encode_file(job(edges, "unknown.npy"))["output"]["streamed"]


def test_several_files_and_another_format(edges: Path) -> None:
    more = edges.parent / "more.csv"
    more.write_text("cy,dan,1\n")
    out = edges.parent / "out.pt"
    encode_file(FileJob((str(edges), str(more)), str(out), SETTINGS))
    stored = torch.load(out, weights_only=True)
    assert stored["encoding"].shape == (4, 8)
    assert stored["node_ids"] == ["ann", "bob", "cy", "dan"]


def test_a_small_graph_in_a_new_process_is_done_before_numba_is_loaded(
    edges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the plain loop, which the report says; a larger one, and one in a process that has Numba, is not."""
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    for keep in ("all", "last"):
        report = encode_file(job(edges, keep=keep, force=True))["report"]
        assert report["backend"] == "reference"
        assert "Numba" in report["reason"]
    graph = rfp.read_graph(edges).graph
    small = file_contents._done_before_numba_is_loaded
    assert small(SETTINGS, graph)
    assert not small(replace(SETTINGS, num_steps=1000), graph)
    assert not small(replace(SETTINGS, num_channels=4000), graph)
    assert not small(replace(SETTINGS, backend="compiled"), graph)
    monkeypatch.setitem(sys.modules, "numba", sys)
    assert not small(SETTINGS, graph)
