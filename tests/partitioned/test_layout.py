"""The manifest of a folder: what it says is read back, what it cannot say is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rfp import Graph
from rfp.errors import FileError
from rfp.partitioned import encode
from rfp.partitioned import open as open_encoding
from rfp.partitioned.layout import Layout


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, ring: Graph) -> Path:
    folder = tmp_path_factory.mktemp("layout") / "store"
    encode(ring, folder, num_channels=2, num_steps=1)
    return folder


@pytest.fixture(scope="module")
def ring() -> Graph:
    import torch

    return Graph(torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]]), 4)


def test_what_is_written_is_read(store: Path) -> None:
    layout = Layout(store)
    manifest = layout.read_manifest()
    layout.write_manifest(manifest, store)
    assert layout.read_manifest() == manifest
    assert (manifest.graph.num_nodes, manifest.graph.cuts[-1], set(manifest.finished)) == (4, 4, {"start", "0/1"})


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("graph.num_nodes", "four", "num_nodes is 'four'"),
        ("graph.num_nodes", -4, "num_nodes is -4"),
        ("graph.num_edges", True, "num_edges is True"),
        ("graph.key", 0.5, "the graph's key is 0.5"),
        ("graph.weighted", 1, "weighted is 1"),
        ("graph.cuts", [0, 3], "its row blocks do not divide 4 nodes"),
        ("graph.cuts", [0, 3, 2, 4], "its row blocks do not divide 4 nodes"),
        ("graph.cuts", [], "its row blocks do not divide 4 nodes"),
        ("graph.cuts", 3, "not a manifest of this format"),
        ("graph.source", [], "it does not say what the graph was made from"),
        ("graph", [], "not a manifest of this format"),
        ("panel", 0, "panel is 0"),
        ("arguments", [], r"its arguments are \[\]"),
        ("arguments.num_channels", "2", "num_channels is '2'"),
        ("arguments.num_steps", -1, "its arguments have fewer channels, steps"),
        ("arguments.dtype", None, "dtype is None"),
        ("arguments.operators", "adjacency", "operators is 'adjacency'"),
        ("finished", ["start"], "it does not say which steps are finished"),
        ("factors", {"start": []}, "it does not name the factors of every finished step"),
        ("factors", {"start": [], "0/1": ["../../secret.npy"]}, "a factor is in '../../secret.npy'"),
        ("factors", {"start": [], "0/1": [3]}, "a factor is in 3"),
        ("more", 1, "not a manifest of this format"),
    ],
)
def test_one_that_was_damaged(store: Path, tmp_path: Path, ring: Graph, where: str, value: Any, message: str) -> None:
    values = json.loads((store / "manifest.json").read_text())
    *path, last = where.split(".")
    place = values
    for part in path:
        place = place[part]
    place[last] = value
    (tmp_path / "manifest.json").write_text(json.dumps(values))
    for use in (open_encoding, lambda folder: encode(ring, folder, num_channels=2, num_steps=1)):
        with pytest.raises(FileError, match=message):
            use(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '"text"', "3"])
def test_what_is_no_manifest(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(FileError, match=r"cannot be read|not a manifest"):
        Layout(tmp_path).read_manifest()
