"""``rfp links`` as a user runs it."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import networkx as nx
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rfp.cli.main import app
from rfp.errors import ArgumentError, FileError, GraphError


def rfp_links(*arguments: str | Path, text: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["links", *map(str, arguments)], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def rows(text: str) -> list[tuple[str, str, float, float]]:
    read = csv.DictReader(io.StringIO(text))
    return [(r["source"], r["target"], float(r["score"]), float(r["standard_error"])) for r in read]


@pytest.fixture
def club(tmp_path: Path) -> Path:
    path = tmp_path / "club.csv"
    path.write_text("".join(f"{u},{v}\n" for u, v in nx.karate_club_graph().edges))
    return path


def test_top_exact_against_networkx(club: Path) -> None:
    graph = nx.karate_club_graph()
    expected = sorted((p for _, _, p in nx.resource_allocation_index(graph)), reverse=True)[:7]
    found = rows(rfp_links(club, "--score", "resource_allocation", "--top", "7", "--exact"))
    assert [score for _, _, score, _ in found] == pytest.approx(expected)
    assert all(error == 0 for *_, error in found)
    best = next(nx.resource_allocation_index(graph, [(int(found[0][0]), int(found[0][1]))]))
    assert best[2] == pytest.approx(found[0][2])


def test_pairs_of_named_nodes_to_files(tmp_path: Path) -> None:
    (tmp_path / "friends.csv").write_text("ann,bob\nbob,cy\ncy,dan\ndan,ann\n")
    (tmp_path / "pairs.csv").write_text("ann,cy\nann,bob\n")
    found = rows(rfp_links(tmp_path / "friends.csv", "--pairs", tmp_path / "pairs.csv", "-q"))
    assert [row[:2] for row in found] == [("ann", "cy"), ("ann", "bob")]
    assert [row[2] for row in found] == pytest.approx([2, 0], abs=1e-5)
    out = tmp_path / "scores.parquet"
    rfp_links(tmp_path / "friends.csv", "--pairs", tmp_path / "pairs.csv", "-o", out, "--exact")
    assert pq.read_table(out).to_pydict() == {
        "source": ["ann", "ann"],
        "target": ["cy", "bob"],
        "score": [2.0, 0.0],
        "standard_error": [0.0, 0.0],
    }
    with pytest.raises(FileError, match="already there"):
        rfp_links(tmp_path / "friends.csv", "--pairs", tmp_path / "pairs.csv", "-o", out)
    rfp_links(tmp_path / "friends.csv", "--top", "1", "-o", out, "--force")
    assert pq.read_table(out).num_rows == 1


def test_katz_from_standard_input(club: Path) -> None:
    found = rows(
        rfp_links(club, "--score", "katz", "--beta", "0.1", "--max-length", "2", "--pairs", "-", text="0 33\n")
    )
    assert found[0][2] == pytest.approx(4 * 0.01, abs=1e-6)  # four common neighbours, no edge


def test_estimates_say_their_error(tmp_path: Path) -> None:
    path = tmp_path / "graph.csv"
    path.write_text("".join(f"{u},{v}\n" for u, v in nx.powerlaw_cluster_graph(200, 4, 0.6, seed=1).edges))
    found = rows(rfp_links(path, "--top", "5", "-k", "32", "-B", "2", "--seed", "4"))
    assert len(found) == 5
    assert all(error > 0 for *_, error in found)
    assert rows(rfp_links(path, "--top", "5", "-k", "32", "-B", "2", "--seed", "4")) == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--pairs FILE, or --top K"),
        (("--top", "3", "--pairs", "x.csv"), "one of the two"),
        (("--top", "3", "-o", "out.txt"), "writes .csv or .parquet"),
        (("--top", "3", "--score", "jaccard"), "is not one of"),
        (("--top", "3", "--beta", "0.3"), "--beta and --max-length belong to --score katz, not to common_neighbors"),
        (("--top", "3", "--score", "adamic_adar", "--max-length", "5"), "belong to --score katz, not to adamic_adar"),
    ],
)
def test_what_does_not_go_together(club: Path, arguments: tuple[str, ...], message: str) -> None:
    shown = " ".join(rfp_links(club, *arguments, code=2).replace("│", " ").split())
    assert message in shown


def test_bad_input_is_one_clear_error(club: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("0,99\n")
    with pytest.raises(GraphError, match=r"line 1: node .*99.* is not in the graph"):
        rfp_links(club, "--pairs", tmp_path / "pairs.csv")
    (tmp_path / "same.csv").write_text("0,1\n5,5\n")
    with pytest.raises(GraphError, match="pair 2: node 5 twice"):
        rfp_links(club, "--pairs", tmp_path / "same.csv")
    (tmp_path / "complete.csv").write_text("0,1\n1,2\n0,2\n")
    with pytest.raises(ArgumentError, match="every pair of the 3 nodes is an edge"):
        rfp_links(tmp_path / "complete.csv", "--top", "1")
    (tmp_path / "weighted.csv").write_text("source,target,weight\n0,1,2.5\n1,2,1\n2,3,1\n")
    with pytest.raises(GraphError, match=r"weight 2\.5.*--simplify"):
        rfp_links(tmp_path / "weighted.csv", "--top", "1")
    assert len(rows(rfp_links(tmp_path / "weighted.csv", "--top", "1", "--simplify"))) == 1
    with pytest.raises(FileError, match="which would be lost"):
        rfp_links(club, "--top", "1", "-o", club, "--force")
