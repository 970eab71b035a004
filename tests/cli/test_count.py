"""``rfp count`` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from typer.testing import CliRunner

from rfp.cli import count as count_module
from rfp.cli.count import parse_query
from rfp.cli.main import app
from rfp.errors import ArgumentError, FileError, GraphError, NumericalError
from rfp.theory import SampleEstimate
from rfp.theory.sampling import Sampling


def rfp_count(*arguments: str | Path, text: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["count", *map(str, arguments)], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


@pytest.fixture
def club(tmp_path: Path) -> Path:
    """The karate club: 45 triangles, 154 4-cycles."""
    path = tmp_path / "club.csv"
    path.write_text("".join(f"{u},{v}\n" for u, v in nx.karate_club_graph().edges))
    return path


def test_estimate_as_json(club: Path) -> None:
    report = json.loads(rfp_count(club, "--epsilon", "0.1", "--deflation", "4", "--hubs", "0", "--seed", "3", "--json"))
    assert (report["num_nodes"], report["num_edges"], report["pattern"]) == (34, 78, "triangle")
    assert report["reached"] is True
    assert report["exact"] is False
    low, high = report["interval"]
    assert low < report["count"] < high
    assert (high - low) / 2 <= 0.1 * report["count"]
    assert abs(report["count"] - 45) < 9
    again = json.loads(rfp_count(club, "--epsilon", "0.1", "--deflation", "4", "--hubs", "0", "--seed", "3", "--json"))
    assert again["count"] == report["count"]
    other = json.loads(rfp_count(club, "--epsilon", "0.1", "--deflation", "4", "--hubs", "0", "--seed", "4", "--json"))
    assert other["count"] != report["count"]


@pytest.mark.parametrize(
    ("pattern", "expected"), [("triangle", 45), ("cycle4", 154), ("walk:3", 270), ("walk:0", 34), ("star", 1764)]
)
def test_exact(club: Path, pattern: str, expected: int) -> None:
    if pattern == "star":
        degrees = [d for _, d in nx.karate_club_graph().degree]
        expected = sum(d * (d - 1) * (d - 2) // 6 for d in degrees)
    report = json.loads(rfp_count(club, "--pattern", pattern, "--exact", "--json"))
    assert report["count"] == expected
    assert isinstance(report["count"], int)


def test_text_for_people(club: Path) -> None:
    assert rfp_count(club, "--exact").startswith("triangle: 45 (exact, ")
    line = rfp_count(club)  # 32 of 34 directions are deflated: nearly exact
    assert line.startswith("triangle: 45.0, 95% interval ")
    assert "32 samples" in line


def test_standard_input_with_names() -> None:
    assert rfp_count("-", "--exact", text="ann bob\nbob cy\ncy ann\ncy dan\n").startswith("triangle: 1 ")


def test_per_node_csv_has_the_ids(tmp_path: Path) -> None:
    out = tmp_path / "nodes.csv"
    edges = "ann bob\nbob cy\ncy ann\ncy dan\n"
    rfp_count("-", "--per-node", out, text=edges)
    rows = {row["node"]: row for row in csv.DictReader(io.StringIO(out.read_text()))}
    assert {name: round(float(row["count"]), 6) for name, row in rows.items()} == {
        "ann": 1,
        "bob": 1,
        "cy": 1,
        "dan": 0,
    }
    assert all(float(row["standard_error"]) >= 0 for row in rows.values())
    rfp_count("-", "--per-node", out, "--force", "--exact", "--pattern", "tailed_triangle", text=edges)
    rows = {row["node"]: row for row in csv.DictReader(io.StringIO(out.read_text()))}
    assert rows["cy"] == {"node": "cy", "joint": "1", "tail": "0", "corner": "0"}
    assert rows["dan"] == {"node": "dan", "joint": "0", "tail": "1", "corner": "0"}


def test_per_node_npy(club: Path, tmp_path: Path) -> None:
    out = tmp_path / "nodes.npy"
    rfp_count(club, "--per-node", out, "--exact")
    np.testing.assert_array_equal(np.load(out)[:, 0], list(nx.triangles(nx.karate_club_graph()).values()))
    rfp_count(club, "--per-node", out, "--force", "--pattern", "walk:2")
    values = np.load(out)
    assert values.shape == (34, 2)
    np.testing.assert_allclose(values[:, 0], [d for _, d in nx.karate_club_graph().degree], atol=2)


def test_weights_loops_and_directions_are_refused_and_simplified(tmp_path: Path) -> None:
    path = tmp_path / "weighted.csv"
    path.write_text("source,target,weight\n0,1,2.5\n1,2,1\n2,0,1\n2,2,1\n")
    with pytest.raises(GraphError, match=r"weight 2\.5.*--simplify"):
        rfp_count(path)
    with pytest.raises(GraphError, match="self-loops"):
        rfp_count(path, "--unweighted")
    with pytest.raises(GraphError, match="both directions"):
        rfp_count(path, "--unweighted", "--directed", "--pattern", "walk:2")
    assert rfp_count(path, "--simplify", "--exact").startswith("triangle: 1 ")


def test_not_reached_is_said(club: Path) -> None:
    result = CliRunner().invoke(
        app, ["count", str(club), "--epsilon", "0.001", "--deflation", "0", "--hubs", "0", "--max-samples", "40"]
    )
    assert result.exit_code == 0
    assert "rfp: warning" in result.stderr
    assert "--num-samples" in result.stderr
    report = json.loads(
        rfp_count(club, "--epsilon", "0.001", "--deflation", "0", "--hubs", "0", "--max-samples", "40", "--json", "-q")
    )
    assert report["reached"] is False
    assert report["num_samples"] == 40


def test_no_triangles_is_explained() -> None:
    arguments = ["count", "-", "--deflation", "0", "--hubs", "0", "--max-samples", "100"]
    result = CliRunner().invoke(app, arguments, input="0 1\n1 2\n2 3\n3 0\n")
    assert "holds 0" in result.stderr


@pytest.mark.parametrize("more", [[], ["--per-node", "nodes.npy"]])
def test_walks_whose_samples_have_no_square_in_float64(
    club: Path, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(club.parent)
    arguments = [club, "--pattern", "walk:200", "--json", "-q"]
    expected = json.loads(rfp_count(*arguments, "--exact"))["count"]
    plain = json.loads(rfp_count(*arguments, "--num-samples", "64", "--deflation", "0", *more))
    low, high = plain["interval"]
    assert 0 < low < expected < high < 2 * expected
    assert plain["standard_error"] < expected
    if more:
        values = np.load("nodes.npy")
        assert np.isfinite(values).all()
        assert (values[:, 1] > 0).all()
    report = json.loads(rfp_count(*arguments))
    assert (report["reached"], report["num_samples"]) == (True, 32)
    assert report["count"] == pytest.approx(expected)


def test_what_float64_does_not_hold_is_an_error(club: Path) -> None:
    with pytest.raises(NumericalError, match=r"S\^400 has entries beyond 1e308"):
        rfp_count(club, "--pattern", "walk:400", "--num-samples", "32")


def test_an_interval_without_ends_is_null_and_not_called_few(club: Path) -> None:
    arguments = ["--confidence", "0.9999999999999999", "--num-samples", "32", "--deflation", "0", "--json"]
    result = CliRunner().invoke(app, ["count", str(club), *arguments])
    assert result.exit_code == 0

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    assert json.loads(result.stdout, parse_constant=refuse)["interval"] == [None, None]
    assert "the interval has no ends at --confidence 0.9999999999999999" in result.stderr
    assert "few or none" not in result.stderr


def test_no_file_is_lost(club: Path, tmp_path: Path) -> None:
    before = club.read_text()
    os.link(club, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(club)
    for name in ("club.csv", "hard.csv", "soft.csv", "sub/../club.csv"):
        (tmp_path / "sub").mkdir(exist_ok=True)
        with pytest.raises(FileError, match=r"is the input .* would be lost"):
            rfp_count(club, "--exact", "--per-node", tmp_path / name, "--force")
    other = tmp_path / "notes.csv"
    other.write_text("mine")
    with pytest.raises(FileError, match=r"notes.csv already there; .*--force"):
        rfp_count(club, "--exact", "--per-node", other)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FileError, match="is a folder"):
        rfp_count(club, "--exact", "--per-node", tmp_path / "folder.csv")
    assert (club.read_text(), other.read_text()) == (before, "mine")
    rfp_count(club, "--exact", "--per-node", other, "--force")
    assert other.read_text().startswith('"node","count"')


def test_a_full_folder_name_is_checked_before_the_work(club: Path) -> None:
    with pytest.raises(FileError, match="does not exist"):
        rfp_count(club, "--per-node", club.parent / "no" / "nodes.csv")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--pattern", "walk:-1"],
        ["--pattern", "walk:"],
        ["--pattern", "clique"],
        ["--pattern", "star"],
        ["--epsilon", "0"],
        ["--epsilon", "-0.1"],
        ["--confidence", "1"],
        ["--max-samples", "1"],
        ["--deflation", "-1"],
        ["--hubs", "-1"],
        ["--pattern", "walk:3", "--hubs", "5"],
        ["--distribution", "uniform"],
        ["--force"],
        ["--per-node", "nodes.txt"],
        ["--exact", "--pattern", "walk:3", "--per-node", "nodes.csv"],
    ],
)
def test_a_wrong_command_line_exits_with_2(club: Path, arguments: list[str]) -> None:
    rfp_count(club, *arguments, code=2)


def test_unaffordable_exact_count_is_refused_unless_forced(club: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rfp.cli.count.MAX_WORK", 5)
    monkeypatch.setattr("rfp.cli.count.MAX_EXACT_WORK", 5)
    for pattern, expected in (("triangle", "45"), ("walk:3", "270")):
        with pytest.raises(ArgumentError, match="--force"):
            rfp_count(club, "--exact", "--pattern", pattern)
        assert rfp_count(club, "--exact", "--pattern", pattern, "--force").startswith(f"{pattern}: {expected} ")


def test_running_line_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    query = parse_query("cycle4", Sampling(epsilon=0.05))
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    assert count_module.running_line(query) is None
    monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
    show = count_module.running_line(query)
    assert show is not None
    show(SampleEstimate(200.0, 10.0, (180.0, 220.0), 0.95, 32, False))
    assert screen.getvalue().endswith("cycle4 200 ± 10.0% after 32 samples, about 128 needed for ± 5.0%")
    show(SampleEstimate(200.0, 5.0, (190.0, 210.0), 0.95, 128, True))
    assert screen.getvalue().endswith("\r\033[K")  # and leaves no trace
