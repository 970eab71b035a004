"""``rfp demo``: what it shows is true."""

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
from typer.testing import CliRunner

from rfp.cli.demo import measure_demo
from rfp.cli.main import app


def test_table_and_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "a.png")])
    assert result.exit_code == 0, result.exception
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "…" not in result.stdout  # it fits 80 columns
    angles = [float(line.split("│")[2].strip(" °")) for line in result.stdout.splitlines() if "│" in line]
    assert len(angles) == 11
    assert angles[0] > 60
    assert angles[-1] < 1
    assert angles == sorted(angles, reverse=True)


def test_where_it_cannot_be_written_is_said_first(tmp_path: Path) -> None:
    for name, part in (("a.xyz", "the picture is a .png"), ("nowhere/a.png", "nowhere")):
        result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / name)])
        assert result.exit_code
        assert part in f"{result.output}{result.exception}".replace("│", " ")
        assert "°" not in result.stdout
    assert not any(tmp_path.iterdir())


def test_measured_against_a_dense_twin() -> None:
    data = measure_demo(num_channels=4, num_steps=16, seed=3)
    A = nx.to_numpy_array(nx.karate_club_graph(), weight=None) + np.eye(34)
    S = A / np.sqrt(np.outer(A.sum(0), A.sum(0)))
    values, vectors = np.linalg.eigh(S)
    order = np.argsort(-abs(values))
    assert np.allclose(data.eigenvalues.numpy(), values[order[:5]])
    for p in (0, 3, 16):
        iterated = np.linalg.matrix_power(S, p) @ data.states[0].numpy()
        expected = scipy.linalg.subspace_angles(iterated, vectors[:, order[:4]])[0]
        assert float(data.angles[p]) == pytest.approx(expected, rel=1e-6)
    assert (data.angles.tan() <= data.bound * (1 + 1e-9)).all()
    assert (data.cosines[-1] > 0.9).all()
