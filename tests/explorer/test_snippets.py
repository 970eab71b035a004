"""What is copied from the page gives the numbers on the page."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rfp
from rfp.cli.main import app
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


# Stands in for the command: writes down what a shell hands to it, arguments and input.
RECORDER = """#!/bin/sh
number=$(ls | grep -c 'call.*args')
cat > "call$number.input"
printf '%s\\0' "$@" > "call$number.args"
"""


def test_commands_write_the_encoding_and_the_picture(
    graph: OpenGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rfp").write_text(RECORDER)
    (tmp_path / "rfp").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    commands = ["bash", "-euc", as_command(graph, SETTINGS, SHOWN)]
    subprocess.run(commands, env=environment, check=True, stdin=subprocess.DEVNULL)
    for call in ("call0", "call1"):
        arguments = Path(f"{call}.args").read_text().split("\0")[:-1]
        done = CliRunner().invoke(app, arguments, input=Path(f"{call}.input").read_text())
        assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load("encoding.npy"), rfp.encode(graph.graph, SETTINGS).node_first().numpy())
    assert Path("encoding.png").read_bytes().startswith(b"\x89PNG")
