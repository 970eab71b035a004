"""Ours beside the paper's: means, deviations and differences by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rfp.reproduce.compare import Comparison, compare
from rfp.reproduce.render import as_markdown, as_records
from rfp.reproduce.tables import TABLES
from rfp.train.results import RunRecord
from tests.reproduce.results import PART, made_up, results


def test_mean_deviation_difference(table: Comparison) -> None:
    gcn = table.entries["gcn", "cora"]
    assert gcn.ours is not None
    assert gcn.ours.mean == pytest.approx(85.5)
    # Sample deviation of ten values, five each 0.5 from the mean: sqrt(10 * 0.25 / 9).
    assert gcn.ours.std == pytest.approx(math.sqrt(2.5 / 9))
    assert gcn.difference == pytest.approx(85.5 - 85.77)
    assert gcn.reached is False
    rfp = table.entries["rfp-qr-A", "cora"]
    assert rfp.difference == pytest.approx(88 - 87.99)
    assert rfp.reached is True
    assert rfp.ours is not None
    assert rfp.ours.values == {"training.lr": 0.01}
    texas = table.entries["rfp-qr-A", "texas"].ours
    assert texas is not None
    assert (texas.mean, texas.num_runs, texas.wanted) == (pytest.approx(83), 4, 10)
    assert table.entries["gcn", "texas"].ours is None
    assert table.entries["gcn", "texas"].paper is not None


def test_the_best_of_ours_is_marked(table: Comparison) -> None:
    assert [key for key, entry in table.entries.items() if entry.best] == [("rfp-qr-A", "cora")]
    assert table.entries["rfp-qr-A", "texas"].paper_best
    assert not table.entries["gcn", "texas"].paper_best


def test_smaller_is_better_for_errors() -> None:
    part = TABLES[3].only(["gin", "rfp-qr-LA"], ["star"])
    gin, rfp = part.cells()
    table = compare(part, results(made_up(gin, [0.02]), made_up(rfp, [0.01])))
    assert table.entries["rfp-qr-LA", "counting/star"].best
    assert table.entries["rfp-qr-LA", "counting/star"].reached is True  # 0.01 against 0.0118
    assert table.entries["gin", "counting/star"].difference == pytest.approx(0.02 - 0.0224)
    assert "0.0200 (1) · 0.0224 · −0.0024" in as_markdown(table)


def test_notes_of_data_paper_and_incomplete_cells(table: Comparison) -> None:
    assert "a note of the data" in table.notes
    assert "rfp-qr-A on texas is not complete: 4 of 10 runs" in table.notes
    assert any(note.startswith("paper, rfp-qr-A (texas): table 6 has 84.32") for note in table.notes)
    assert len(set(table.notes)) == len(table.notes)
    assert table.environments == ("a machine, torch 2",)


def test_runs_beyond_the_cell_are_not_counted() -> None:
    part = PART.only(["gcn"], ["cora"])
    (cell,) = part.cells()
    result = made_up(cell, [0.8] * 10)
    extra = RunRecord(7, 0, {"val": 0.1, "test": 0.1}, 0, 1, 1.0, 10)
    table = compare(part, results(replace(result, runs=(*result.runs, extra))))
    ours = table.entries["gcn", "cora"].ours
    assert ours is not None
    assert (ours.mean, ours.num_runs) == (pytest.approx(80), 10)
    two_seeds = compare(part, results(result), num_seeds=2).entries["gcn", "cora"].ours
    assert two_seeds is not None
    assert (two_seeds.num_runs, two_seeds.wanted) == (10, 20)


def test_other_methods_of_the_paper_on_request() -> None:
    table = compare(PART, {}, others=True)
    assert table.entries["ggcn", "cora"].paper is not None
    assert table.entries["ggcn", "cora"].ours is None
    assert "ggcn" not in compare(PART, {}).labels
    assert "| GGCN | – · 84.86 · – | – · 87.95 · – |" in as_markdown(table)
    assert "homophily" not in table.labels


def test_quick_is_not_set_against_the_paper() -> None:
    quick = TABLES[3].as_quick()
    table = compare(quick, results(*(made_up(cell, [0.3]) for cell in quick.cells())))
    assert all(entry.paper is None for entry in table.entries.values())
    text = as_markdown(table)
    assert "quick subset, not the table" in text
    assert " · " not in text
    assert {record["table"] for record in as_records(table)} == {"3-quick"}
