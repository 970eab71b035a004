"""``rfp predict`` and ``rfp table links`` as a user runs them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rfp.cli.main import app
from rfp.errors import ArgumentError, FileError

EDGES = [(f"n{i}", f"n{(i + step) % 24}") for i in range(24) for step in (1, 2, 5)]


def rfp(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A link model of named nodes, two epochs old."""
    folder = tmp_path_factory.mktemp("links")
    (folder / "data").mkdir()
    (folder / "data" / "edges.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in EDGES))
    config = {
        "data": {"path": str(folder / "data"), "level": "link", "hard_negatives": 5},
        "model": {
            "backbone": "gcn",
            "norm": "none",
            "hidden_channels": 8,
            "num_layers": 1,
            "pair_products": True,
            "encodings": [{"name": "rfp", "num_channels": 8, "num_steps": 2, "normalization": "none"}],
        },
        "training": {"epochs": 2, "batch_size": 30},
    }
    (folder / "links.json").write_text(json.dumps(config))
    where = ["--results", folder / "results", "--checkpoints", folder / "runs", "--device", "cpu", "-q"]
    rfp("train", folder / "links.json", *where)
    (found,) = (folder / "runs").glob("*/seed0-split0")
    return found


def test_partners_of_named_nodes(trained: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(rfp("predict", trained, "--node", "n3", "--top", "4", "--device", "cpu"))))
    assert [row["node"] for row in rows] == ["n3"] * 4
    values = [float(row["probability"]) for row in rows]
    assert values == sorted(values, reverse=True)
    assert all(0 < value < 1 for value in values)
    every = json.loads(
        rfp("predict", trained / "best.ckpt", "--node", "n3", "--top", "99", "--json", "--device", "cpu")
    )
    with_known = json.loads(
        rfp("predict", trained, "--node", "n3", "--top", "99", "--known", "--json", "--device", "cpu")
    )
    assert len(with_known) == 23
    linked = {row["partner"] for row in with_known} - {row["partner"] for row in every}
    assert 0 < len(linked) <= 6
    assert linked <= {v for u, v in EDGES if u == "n3"} | {u for u, v in EDGES if v == "n3"}


def test_several_nodes_and_the_same_again(trained: Path) -> None:
    ask = ("predict", trained, "--node", "n0", "--node", "n1", "--top", "2", "--device", "cpu")
    assert rfp(*ask) == rfp(*ask)
    assert len(rfp(*ask).splitlines()) == 5


def test_bad_input(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="node 'n99' is not in the graph, whose nodes are"):
        rfp("predict", trained, "--node", "n99")
    with pytest.raises(FileError, match="there is no checkpoint"):
        rfp("predict", tmp_path, "--node", "n1")
    (tmp_path / "best.ckpt").write_bytes(b"not a checkpoint")
    with pytest.raises(FileError, match="damaged checkpoint"):
        rfp("predict", tmp_path, "--node", "n1")


def test_data_that_have_changed_since_the_training(trained: Path) -> None:
    edges = trained.parents[2] / "data" / "edges.csv"
    before = edges.read_text()
    for now in (before.replace("n3,", "n4,"), before.replace("n3", "ann")):  # another edge, another name
        edges.write_text(now)
        with pytest.raises(FileError, match=r"best\.ckpt: trained on other data: the files in .* have changed since"):
            rfp("predict", trained, "--node", "n5", "--device", "cpu")
    edges.write_text(before)
    rfp("predict", trained, "--node", "n5", "--device", "cpu")


def test_a_model_of_something_else(tmp_path: Path) -> None:
    config = {
        "data": {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.5, 0.25, 0.25]},
        "model": {"backbone": "gcn", "norm": "none", "hidden_channels": 8, "encodings": []},
        "training": {"epochs": 1, "engine": "lightning"},
    }
    (tmp_path / "nodes.json").write_text(json.dumps(config))
    where = ["--results", tmp_path / "results", "--checkpoints", tmp_path / "runs", "--device", "cpu", "-q"]
    rfp("train", tmp_path / "nodes.json", *where)
    (found,) = (tmp_path / "runs").glob("*/seed0-split0")
    with pytest.raises(ArgumentError, match="a model of node predictions"):
        rfp("predict", found, "--node", "1")


def test_the_table_of_links(tmp_path: Path) -> None:
    plan = rfp("table", "links", "--dry-run", "--results", tmp_path, "--only", "usair")
    assert "usair      rfp-products" in plan
    assert plan.splitlines()[-1] == "6 lines, 25 runs to do"
    assert "give the number of a table" in rfp("table", "eight", code=2)
    assert "five splits" in rfp("table", "links", "--seeds", "2", code=2)
    assert "a row of the table of links" in " ".join(rfp("table", "links", "--rows", "gat", code=2).split())
    shown = rfp("table", "links", "--render-only", "--results", tmp_path)
    assert "| RFP products | –" in shown
    assert not (tmp_path / "tables").exists()
