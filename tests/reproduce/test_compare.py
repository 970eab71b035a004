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
    assert (texas.mean, texas.num_runs, texas.wanted) == (pytest.approx(83), 4, 50)
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
    assert "rfp-qr-A on texas is not complete: 4 of 50 runs" in table.notes
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


def test_products_and_the_best_linear_result_beside_them() -> None:
    part = PART.only(["rfp-qr-A"], ["texas"])
    (cell,) = part.cells()
    chosen = made_up(cell, [0.86] * 50, **{"model.embed": "products", "training.lr": 3e-2})
    linear = made_up(cell, [0.84, 0.85] * 25, **{"model.embed": "linear"}).runs
    table = compare(part, results(replace(chosen, alternatives={"model.embed=linear": linear})))
    ours = table.entries["rfp-qr-A", "texas"].ours
    assert ours is not None
    assert ours.linear is not None
    assert ours.linear.mean == pytest.approx(84.5)
    text = as_markdown(table)
    assert "86.00 ± 0.00 (50)ᵖ, linear 84.50 ± 0.51 · 84.74 · +1.26" in text
    assert "validation chose products of the trajectory as K_embed, which goes beyond the paper" in text
    # The largest learning rate of the grid.
    assert "chosen at the edge of the grid: rfp-qr-A on texas (training.lr)" in text


def test_gcnii_and_the_best_result_without_it_beside_it() -> None:
    """Of the results without it (with the linear K_embed) the one with the better validation score."""
    part = PART.only(["rfp-qr-A"], ["cora"])
    (cell,) = part.cells()
    deep = {"model.backbone": "gcnii", "model.initial_residual": 0.2}
    chosen = made_up(cell, [0.88] * 30, val=0.9, **deep, **{"model.embed": "products"})
    others = {
        "model.embed=linear, model.initial_residual=0.2": (0.87, 0.89, {**deep, "model.embed": "linear"}),
        "model.embed=linear": (0.86, 0.85, {"model.backbone": "gcn", "model.embed": "linear"}),
        "model.embed=products": (0.85, 0.86, {"model.backbone": "gcn", "model.embed": "products"}),
    }
    runs = {among: made_up(cell, [test] * 30, val=val, **values).runs for among, (test, val, values) in others.items()}
    table = compare(part, results(replace(chosen, alternatives=runs)))
    text = as_markdown(table)
    assert "88.00 ± 0.00 (30)ᵖⁱ, linear 87.00 ± 0.00, without GCNII 85.00 ± 0.00 · 87.99" in text
    assert "ⁱ validation chose GCNII" in text
    (record,) = as_records(table)
    assert (record["linear_mean"], record["plain_mean"]) == (pytest.approx(87), pytest.approx(85))
    # Where it was tried and not chosen, nothing is marked and nothing stands beside it.
    plain = replace(chosen, runs=runs["model.embed=linear"], alternatives={"model.embed=products": chosen.runs})
    assert "86.00 ± 0.00 (30) · 87.99" in as_markdown(compare(part, results(plain)))


def test_many_choices_at_the_edge_are_counted() -> None:
    part = TABLES[2].only(["mlp", "gcn"], ["squirrel", "film", "chameleon", "cora"])
    edge, inside = {"training.lr": 3e-2, "model.num_layers": 16}, {"training.lr": 1e-2, "model.num_layers": 4}
    cells = part.cells()
    found = [made_up(cell, [0.5] * len(cell.runs), **(edge if n else inside)) for n, cell in enumerate(cells)]
    text = as_markdown(compare(part, results(*found)))
    counted = "of 8 cells that were searched: training.lr=0.03 in 7, model.num_layers=16 in 7; the table's CSV file"
    assert f"chosen at the edge of the grid, {counted} names them" in text


def test_an_earlier_result_stands_until_there_is_a_new_one() -> None:
    part = PART.only(["rfp-qr-A"], ["texas"])
    (cell,) = part.cells()
    old = replace(cell, config=cell.config.with_values({"training.epochs": 7}))
    earlier = made_up(old, [0.8] * 10)
    begun = replace(made_up(cell, []), runs=())  # its search is under way
    tuned = made_up(replace(cell, config=cell.config.with_values({"training.epochs": 8})), [0.1] * 10)
    tuned = replace(tuned, runs=tuple(replace(run, metrics={"val": 0.9}) for run in tuned.runs))
    table = compare(part, results(earlier, begun, tuned))
    ours = table.entries["rfp-qr-A", "texas"].ours
    assert ours is not None
    assert (ours.earlier, ours.mean, ours.key) == (True, pytest.approx(80), old.config.key)
    assert "80.00 ± 0.00 (10)° · 84.74" in as_markdown(table)
    now = compare(part, results(earlier, made_up(cell, [0.9] * 50))).entries["rfp-qr-A", "texas"].ours
    assert now is not None
    assert (now.earlier, now.num_runs) == (False, 50)
