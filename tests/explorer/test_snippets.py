"""What is copied from the page gives the numbers on the page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rfp
from rfp.explorer.graphs import OpenGraph, open_file
from rfp.explorer.server import karate_club
from rfp.explorer.snippets import Shown, as_command, as_python
from rfp.io import ReadOptions
from rfp.settings import Settings

SETTINGS = Settings(
    num_channels=3,
    num_steps=4,
    operators=["normalized_laplacian", "adjacency^2"],
    normalization="l2",
    normalize_every=2,
    num_trajectories=2,
    start="unit",
    distribution="rademacher",
    seed=5,
)
SHOWN = Shown(trajectory=1, operator=1, step=3, channel=2)


@pytest.fixture(params=["karate", "file"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> OpenGraph:
    if request.param == "karate":
        return karate_club()
    path = tmp_path / "a graph's edges.csv"
    path.write_text("u,v,w\na,b,2\nb,c,3\nc,a,1\nc,d,1\n")
    return open_file(str(path), ReadOptions(directed=True, unweighted=True))


def test_python_gives_the_values_on_the_screen(graph: OpenGraph) -> None:
    names: dict[str, Any] = {}
    exec(as_python(graph, SETTINGS, SHOWN), names)
    expected = rfp.encode(graph.graph, SETTINGS)
    np.testing.assert_array_equal(names["t"].storage, expected.storage)
    np.testing.assert_array_equal(names["values"], expected.states[1, :, 3, 3 + 2])


def test_commands_write_the_encoding_and_the_picture(graph: OpenGraph, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "rfp").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rfp "$@"\n')
    (folder / "rfp").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    commands = as_command(graph, SETTINGS, SHOWN)
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, env=environment, check=True, capture_output=True)
    np.testing.assert_array_equal(
        np.load(tmp_path / "encoding.npy"), rfp.encode(graph.graph, SETTINGS).node_first().numpy()
    )
    assert (tmp_path / "encoding.png").read_bytes().startswith(b"\x89PNG")
