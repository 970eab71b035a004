"""The link table: its cells, its scores without learning, and that what is committed is what files render to."""

from __future__ import annotations

from pathlib import Path

import pytest

from rfp.data import load
from rfp.errors import ArgumentError, FileError
from rfp.nn import RFPModel
from rfp.reproduce.links_heuristics import (
    heuristics_file,
    judge,
    missing_heuristics,
    read_heuristics,
    run_heuristics,
)
from rfp.reproduce.links_spec import COLUMNS, HEURISTICS, ROWS, LinkTable, data_values, link_config
from rfp.reproduce.links_table import entries, links_as_markdown, plan, write_links
from rfp.train.results import Result, RunRecord

RESULTS = Path(__file__).parents[2] / "results"
AIR = next(column for column in COLUMNS if column.id == "usair")


def test_rows_columns_and_configs() -> None:
    cells = LinkTable().cells()
    assert len(cells) == 5 * 6
    assert len({cell.config.key for cell in cells}) == len(cells)
    assert {cell.column.id for cell in cells} == {"cora", "citeseer", "pubmed", "usair", "celegans", "yeast"}
    assert all(len(cell.runs) == 5 for cell in cells)
    for cell in cells:
        config = cell.config
        assert config.data.level == "link"
        assert config.training.batch_size >= 256
        searched = config.with_values({key: tried[0] for key, tried in config.search.items()})
        RFPModel({"task": "link", "out_channels": 1, "in_channels": 3, **searched.model})
    plain = [link_config(row, AIR) for row in ROWS]
    assert [config.data.identity_features for config in plain] == [True, False, False, False, False]
    products = plain[-1].model
    assert products["pair_products"]
    assert products["encodings"][0]["num_channels"] == 332  # no more than there are nodes


def test_parts_of_it() -> None:
    part = LinkTable().only(["gae", "katz"], ["yeast"])
    assert (part.name, part.heuristics, [row.id for row in part.rows]) == ("table-links-part", ("katz",), ["gae"])
    assert LinkTable().as_quick().name == "table-links-quick"
    with pytest.raises(ArgumentError, match="a row of the table of links must be one of"):
        LinkTable().only(["gat"])
    with pytest.raises(ArgumentError, match="a column of the table of links must be one of"):
        LinkTable().only([], ["texas"])


def test_scores_without_learning_go_on_where_they_stopped(data_root: Path, tmp_path: Path) -> None:
    run_heuristics(AIR, ["common_neighbors"], 1, tmp_path, data_root=data_root)
    first = read_heuristics(tmp_path, "usair")
    assert {one.metric for one in first} >= {"hits@50", "mrr", "roc_auc"}
    told: list[str] = []
    run_heuristics(AIR, ["common_neighbors"], 1, tmp_path, data_root=data_root, say=told.append)
    assert told == []
    run_heuristics(AIR, ["common_neighbors", "resource_allocation"], 1, tmp_path, data_root=data_root, say=told.append)
    assert len(told) == 1
    both = read_heuristics(tmp_path, "usair")
    assert first == [one for one in both if one.score == "common_neighbors"]
    assert missing_heuristics(both, list(HEURISTICS), 1) == [("adamic_adar", 0), ("katz", 0)]
    heuristics_file(tmp_path, "usair").write_text("dataset,score\nusair,katz\n")
    with pytest.raises(FileError, match="damaged file of scores"):
        read_heuristics(tmp_path, "usair")


def test_katz_is_chosen_on_validation(data_root: Path) -> None:
    at = load(data_values(AIR), data_root=data_root).at_split(0)
    chosen = judge(AIR, "katz", at, 0)
    assert len({one.beta for one in chosen}) == 1
    committed = [one for one in read_heuristics(RESULTS, "usair") if one.score == "katz" and one.split == 0]
    assert [(one.metric, one.beta) for one in committed] == [(one.metric, one.beta) for one in chosen]
    for mine, other in zip(committed, chosen, strict=True):
        assert (mine.val, mine.test) == pytest.approx((other.val, other.test))


def test_trained_rows_are_rendered_beside_the_others(tmp_path: Path) -> None:
    table = LinkTable().only([], ["usair"])
    cell = next(cell for cell in table.cells() if cell.row.id == "rfp-products")
    scores = {f"{part}_{name}": 0.5 for part in ("val", "test") for name in ("hits@50", "roc_auc")}
    values = {key: tried[0] for key, tried in cell.config.search.items()}
    runs = tuple(
        RunRecord(
            0, split, {"val": 0.5, "test": 0.5, **scores, "test_hits@50": 0.9 + split / 100}, 1, 2, 1.0, 3, values
        )
        for split in range(2)
    )
    Result(cell.config, "usair", "hits@50", True, runs).write(tmp_path)
    text, found, paths = write_links(table, tmp_path, tmp_path / "tables")
    assert [path.name for path in paths] == ["table-links-part.md", "table-links-part.csv"]
    assert "| RFP products | **90.5 ± 0.7** (2 of 5) | **50.0 ± 0.0** (2 of 5) |" in text
    assert "| GCN (GAE) | – | – |" in text
    assert "not trained yet, on usair" in text
    assert {entry.metric for entry in found} == {"hits@50", "roc_auc"}
    assert plan(table, tmp_path)[-1] == "6 lines, 23 runs to do"
    with pytest.raises(FileError, match="no such folder of results"):
        write_links(table, tmp_path / "missing", tmp_path)


def test_the_committed_table_is_rendered_from_files(tmp_path: Path) -> None:
    _, found, _ = write_links(LinkTable(), RESULTS, tmp_path)
    for name in ("table-links.md", "table-links.csv"):
        committed = RESULTS / "tables" / name
        assert (tmp_path / name).read_text() == committed.read_text(), "run: rfp table links --render-only"
    text = links_as_markdown(LinkTable(), entries(LinkTable(), RESULTS))
    assert "under another split" in text
    assert {entry.row for entry in found} >= set(HEURISTICS)
