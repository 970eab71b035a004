"""The cells of the paper, and whether a difference is more than chance: by hand, from the distribution of t."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rfp.reproduce import TABLES
from rfp.reproduce.compare import compare
from rfp.reproduce.standing import Standing, counts_as_markdown, p_value, standings, standings_as_markdown
from rfp.train.results import Result, Trial
from tests.reproduce.results import PART, made_up, results


def test_there_are_58_cells() -> None:
    cells = standings({})
    assert len(cells) == 58
    assert [sum(cell.table == number for cell in cells) for number in (1, 2, 3)] == [10, 36, 12]
    assert standings_as_markdown(cells).startswith("58 cells: 0 at or better than printed, 0 below, 58 not run.")


def test_cells_are_counted_by_table_and_those_below_by_chance_apart() -> None:
    cells = standings({})
    entry = replace(cells[0].entry, ours=None)
    assert counts_as_markdown(cells).splitlines()[2:] == [
        "| 1 | 10 | 0 | 0 | 0 | 10 |",
        "| 2 | 36 | 0 | 0 | 0 | 36 |",
        "| 3 | 12 | 0 | 0 | 0 | 12 |",
        "| all | 58 | 0 | 0 | 0 | 58 |",
    ]
    (cell,) = PART.only(["rfp-qr-A"], ["texas"]).cells(1)
    (texas,) = [
        c for c in standings(results(made_up(cell, [0.7] * 10))) if (c.label, c.column) == ("RFP-QR-Â", "Texas")
    ]
    below = [replace(texas, p_value=p) for p in (0.01, 0.2, None)]
    better = replace(texas, entry=replace(texas.entry, paper=replace(texas.entry.paper, mean=60.0)), p_value=0.01)
    assert counts_as_markdown([*below, better, Standing(1, "row", "data", entry, None)]).splitlines()[2:] == [
        "| 1 | 1 | 0 | 0 | 0 | 1 |",
        "| 2 | 4 | 1 | 3 | 1 | 0 |",
        "| 3 | 0 | 0 | 0 | 0 | 0 |",
        "| all | 5 | 1 | 3 | 1 | 1 |",
    ]


def test_splits_are_the_sample_and_seeds_are_averaged_first() -> None:
    part = PART.only(["rfp-qr-A"], ["texas"])
    (cell,) = part.cells(2)
    # Printed: 84.74. Means over the two seeds of three splits: 83, 85, 87.
    some = replace(cell, splits=(0, 1, 2))
    found = made_up(some, [0.82, 0.84, 0.86, 0.84, 0.86, 0.88])
    entry = compare(part, results(found), num_seeds=2).entries["rfp-qr-A", "texas"]
    t = (85 - 84.74) / (2 / math.sqrt(3))
    # With two degrees of freedom the distribution of t is (1 + t / sqrt(2 + t^2)) / 2.
    expected = 1 - t / math.sqrt(2 + t * t)
    assert p_value(entry) == pytest.approx(expected)
    alone = compare(part, results(made_up(cell, [0.9]))).entries["rfp-qr-A", "texas"]
    assert p_value(alone) is None


def test_the_luck_of_a_draw() -> None:
    """The final stage had 0.91 by one draw for the chosen pair, of which the runs have 0.88 by several."""
    (cell,) = PART.only(["rfp-qr-A"], ["texas"]).cells(1)
    halving = cell.config.halving
    assert halving is not None
    values = {key: tried[0] for key, tried in cell.config.search.items()}
    pair = (values["training.lr"], values["training.weight_decay"])
    found = made_up(cell, [0.8] * 10, val=0.88)
    runs = tuple(replace(run, values=values) for run in found.runs)
    final = Trial(values, 0.93, 10, "final", 0, ((0.5, 0.0, 0.93), (*pair, 0.91)))
    longer = replace(final, stage="longer", pairs=((*pair, 0.99),))
    searched = replace(found, runs=runs, trials=(longer, final))
    (one,) = [c for c in standings(results(searched)) if (c.label, c.column) == ("RFP-QR-Â", "Texas")]
    assert one.entry.ours is not None
    assert one.entry.ours.luck == pytest.approx(3.0)
    assert "| +3.00 |" in standings_as_markdown([one])
    ours = one.entry.ours
    for luck, text in ((-0.3, "| −0.30 |"), (-0.001, "| 0.00 |"), (None, "| – |")):
        assert text in standings_as_markdown([replace(one, entry=replace(one.entry, ours=replace(ours, luck=luck)))])


def test_gcnii_counts_and_is_marked() -> None:
    """Printed for RFP-QR-Â on Cora: 87.99."""
    (cell,) = TABLES[2].only(["rfp-qr-A"], ["cora"]).cells()
    plain = made_up(cell, [0.87] * 30, **{"model.backbone": "gcn"}).runs
    found = made_up(cell, [0.88, 0.9] * 15, **{"model.backbone": "gcnii", "model.initial_residual": 0.2})
    cells = standings(results(replace(found, alternatives={"": plain})))
    (one,) = [c for c in cells if (c.label, c.column) == ("RFP-QR-Â", "Cora")]
    text = standings_as_markdown([one])
    assert "89.00 ± 1.02 (30)ⁱ, without GCNII 87.00 | 87.99 | +1.01 | at or better" in text
    assert "ⁱ validation chose GCNII as the backbone" in text


def test_a_result_of_an_earlier_search_is_marked_and_explained_where_there_is_one() -> None:
    (cell,) = PART.only(["rfp-qr-A"], ["texas"]).cells(1)
    found = made_up(cell, [0.8] * 10)
    earlier = replace(found, config=replace(found.config, search={}, halving=None))
    of_own, of_earlier = (
        standings_as_markdown([c for c in standings(results(one)) if (c.label, c.column) == ("RFP-QR-Â", "Texas")])
        for one in (found, earlier)
    )
    assert "°" not in of_own
    assert "80.00 ± 0.00 (10)° |" in of_earlier
    assert "\n\n° from an earlier, smaller search; not rerun yet\n" in of_earlier


def test_products_of_the_same_row_count_where_validation_prefers_them() -> None:
    """Printed for RFP-QR-L̂,Â on ZINC: 0.1152."""
    part = TABLES[1].only(["rfp-qr-LA", "rfp-qr-LA-products"], ["zinc"])
    linear, products = part.cells()

    def standing(*found: Result) -> Standing:
        cells = standings(results(*found))
        return next(cell for cell in cells if cell.label == "RFP-QR-L̂,Â" and cell.column == "ZINC-12k")

    worse, better = made_up(linear, [0.15] * 3, val=0.2), made_up(products, [0.08] * 3, val=0.1)
    both = standing(worse, better)
    assert (both.verdict, both.by_products) == ("at or better", True)
    assert both.linear is not None
    assert both.linear.mean == pytest.approx(0.15)
    assert "0.0800 ± 0.0000 (3)ᵖ, linear 0.1500 | 0.1152 | −0.0352 | at or better" in standings_as_markdown([both])
    alone = standing(worse)
    assert (alone.verdict, alone.by_products) == ("below", False)
    # Two of three runs are not a result, and what validation finds worse is not taken, whatever its test score is.
    assert not standing(worse, made_up(products, [0.08] * 2, val=0.1)).by_products
    assert not standing(worse, made_up(products, [0.08] * 3, val=0.3)).by_products
