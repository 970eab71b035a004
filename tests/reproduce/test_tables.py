"""The tables as data: shared cells are the same config, every model can be built, quick runs are never the table's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from rfp.data import DATASETS
from rfp.errors import ArgumentError
from rfp.nn import RFPModel
from rfp.nn.backbones import READ_EDGE_FEATURES
from rfp.nn.model_config import ModelConfig
from rfp.reproduce.execute import missing_runs
from rfp.reproduce.hyperparameters import (
    CHOSEN_FOR_SWEEPS,
    COUNTING_PRODUCT_ROWS,
    GCNII,
    PRODUCT_ROWS,
    WITHOUT_ENCODING,
)
from rfp.reproduce.paper import paper_numbers
from rfp.reproduce.spec import Cell
from rfp.reproduce.tables import TABLES
from rfp.train import read_result, read_results
from rfp.train.halving import IN_PROGRAM
from rfp.train.halving_choice import choices
from rfp.train.halving_plan import SCREEN, outer_values, point_text, tried_also
from rfp.train.results import Result

RESULTS = Path(__file__).parents[2] / "results"
FEATURES = {"cora": 1433, "texas": 1703, "squirrel": 2089, "ogbn-arxiv": 128}


def cell(table: int, row: str, column: str) -> Cell:
    (found,) = TABLES[table].only([row], [column]).cells()
    return found


def model_values(found: Cell) -> dict[str, object]:
    """The model's config with what the data would tell."""
    task = DATASETS[found.column.dataset].task
    outputs = 1 if "/" in found.column.id else task.num_outputs
    values: dict[str, object] = {"task": task.level.name, "out_channels": outputs}
    if task.categorical:
        values["node_encoder"] = task.categorical
        if found.config.model["backbone"] in READ_EDGE_FEATURES:
            values["edge_encoder"] = task.categorical
    else:
        values["in_channels"] = 1 if task.level.name == "graph" else FEATURES.get(found.column.dataset, 100)
    return {**values, **found.config.model}


def test_the_rows_that_the_issue_lists() -> None:
    listed = "mlp gcn gcnii eigvecs-A eigvecs-L rnf rnf-eigvecs-A sgc sign power-embed nfp-qr-A"
    listed += " rfp-l2-A rfp-qr-A rfp-qr-A-dss rfp-qr-LAS-dss"
    table = TABLES[2].only()
    assert {row.id for row in table.rows} == set(listed.split())
    assert len(table.columns) == 9
    assert all(len(found.splits) == 10 for found in table.cells())
    zinc = {found.row.id for found in TABLES[1].only().cells() if found.column.id == "zinc"}
    assert {"gine", "rnf", "eigvecs-L", "rwpe", "rfp-l2-LA", "rfp-qr-LA", "rfp-qr-LA-dss", "rfp-qr-LAS"} <= zinc
    molhiv = {found.row.id for found in TABLES[1].only().cells() if found.column.id == "ogbg-molhiv"}
    assert molhiv == zinc
    for row in zinc:
        for data in ("zinc", "ogbg-molhiv"):
            assert len(cell(1, row, data).seeds) == (3 if row.startswith("rfp") else 1)


@pytest.mark.parametrize(
    ("tables", "row", "columns"),
    [
        ((2, 6), "rfp-qr-A-dss", ["cora", "texas"]),
        ((2, 6), "rfp-qr-LAS-dss", ["pubmed"]),
        ((1, 4), "rfp-qr-LA", ["zinc", "ogbg-molhiv"]),
        ((1, 4), "rfp-l2-LA", ["zinc"]),
        ((3, 5), "rfp-qr-LA-dss", ["triangle", "star"]),
    ],
)
def test_shared_cells_are_trained_once(tables: tuple[int, int], row: str, columns: list[str]) -> None:
    for column in columns:
        first, second = (cell(number, row, column) for number in tables)
        assert first.config == second.config
        assert first.runs == second.runs


def test_different_cells_have_different_keys() -> None:
    keys = [found.config.key for found in TABLES[6].cells()]
    assert len(set(keys)) == len(keys)
    names = {(found.config.data.name, found.config.name) for found in TABLES[3].cells()}
    assert len(names) == len(TABLES[3].cells())  # file names too


def test_every_config_is_a_model() -> None:
    for number, table in TABLES.items():
        for found in table.cells():
            config = ModelConfig.from_dict(model_values(found))
            names = [e.attr_name for e in config.encodings if hasattr(e, "attr_name")]
            assert len(set(names)) == len(names), (number, found.row.id)  # two under one name would be read twice
            if config.task == "node":
                assert config.norm != "batch"
                assert config.backbone == "gcn" or found.row.id in ("mlp", "gcnii") or found.row.of_sweep


def test_sweeps_change_one_value_of_what_was_chosen() -> None:
    """Of table 6: the values are those that RFP-QR's 36 tries gave, the best with the linear K_embed."""
    table = TABLES[6]
    swept = {row for by_value in table.sweeps.values() for row in by_value.values()}
    beside = {"rfp-qr-LAS"}  # what changes is that an operator stands beside
    assert swept | beside == {row.id for row in table.rows if row.of_sweep}
    known = read_results(RESULTS)
    for column in table.columns:
        result = known[cell(2, "rfp-qr-A", column.id).config.key]
        values = dict(usual_choices(result)["model.embed=linear"])
        assert values.pop("model.embed") == "linear"
        expected = {key: value for key, value in values.items() if key in CHOSEN_FOR_SWEEPS[column.id]}
        assert expected == CHOSEN_FOR_SWEEPS[column.id]
        assert set(values) - set(expected) == {*IN_PROGRAM, "model.encodings.0.num_channels"}
        for row in swept | beside:
            config = cell(6, row, column.id).config
            assert set(config.search) == {*IN_PROGRAM, *(["training.operator_lr"] if row in beside else [])}
            assert config.halving is not None
            encoding = config.model["encodings"][0]
            assert config.model["hidden_channels"] == expected["model.hidden_channels"]
            assert encoding["start"] == expected["model.encodings.*.start"]
            if row in swept:
                assert (encoding["num_channels"] == 64) != (encoding["num_steps"] == 16) or row == "rfp-qr-A-k64"


def usual_choices(result: Result) -> dict[str, Mapping[str, Any]]:
    """What a search chose before it tried anything ``also``."""
    config = result.config
    assert config.halving is not None
    beyond = {point_text(point) for point in tried_also(config, config.halving)}
    screened = [trial for trial in result.trials if trial.stage == SCREEN][: config.halving.tries]
    beyond -= {point_text(outer_values(trial.values)) for trial in screened}
    usual = [trial for trial in result.trials if point_text(outer_values(trial.values)) not in beyond]
    return {point.among: point.values for point in choices(config, config.halving, usual)}


def test_rows_that_draw_are_tried_with_the_backbone_chosen_without_an_encoding() -> None:
    known = read_results(RESULTS)
    for column in TABLES[2].columns:
        without = [known[cell(2, row, column.id).config.key] for row in ("mlp", "gcn")]
        best = max(without, key=lambda result: result.mean_std("val")[0])
        chosen = {"model.backbone": best.config.name, **best.runs[0].values}
        expected = {key: value for key, value in chosen.items() if key not in IN_PROGRAM}
        assert expected == WITHOUT_ENCODING[column.id]
        for row in TABLES[2].only().rows:
            halving = cell(2, row.id, column.id).config.halving
            assert halving is not None
            draws = row.id.startswith(("rfp", "rnf")) and "LAS" not in row.id
            assert [one for one in halving.also if one["model.backbone"] != "gcnii"] == ([expected] if draws else [])


def test_every_row_with_an_encoding_is_tried_with_gcnii_where_validation_prefers_it() -> None:
    known = read_results(RESULTS)
    for column in TABLES[2].columns:
        found = {row: known.get(cell(2, row, column.id).config.key) for row in ("mlp", "gcn", "gcnii")}
        if found["gcnii"] is None or not found["gcnii"].runs:  # not searched to the end here
            assert column.id not in GCNII
            continue
        scores = {row: result.mean_std("val")[0] for row, result in found.items() if result is not None}
        assert (column.id in GCNII) == (scores["gcnii"] == max(scores.values()))
        if column.id not in GCNII:
            continue
        chosen = {"model.backbone": "gcnii", "model.residual": False, **found["gcnii"].runs[0].values}
        assert {key: value for key, value in chosen.items() if key not in IN_PROGRAM} == GCNII[column.id]
        for row in TABLES[2].only().rows:
            halving = cell(2, row.id, column.id).config.halving
            assert halving is not None
            tried = [one for one in halving.also if one["model.backbone"] == "gcnii"]
            assert len(tried) == (0 if row.id in ("mlp", "gcn", "gcnii") else 1), row.id
            for one in tried:
                assert one.items() >= GCNII[column.id].items()
                assert ("model.initial_residual" in halving.apart) == bool(tried)


def test_one_grid_and_as_many_tries_for_every_row_of_table_2() -> None:
    shared = {
        "training.lr": {1e-3, 3e-3, 1e-2, 3e-2},
        "training.weight_decay": {0.0, 1e-4, 1e-3, 5e-3, 1e-2},
        "model.backbone": {"mlp", "gcn"},
        "model.residual": {True, False},
        "model.norm": {"none", "layer"},
        "model.input_dropout": {0.0, 0.5},
        "model.hidden_channels": {64, 128, 256},
        "model.num_layers": {2, 4, 8, 16},
    }
    drawn = {
        "model.encodings.*.start": {"drawn", "unit"},
        "model.encodings.0.num_channels": {16, 64},
        "model.embed": {"linear", "products"},
    }
    for found in TABLES[2].cells():
        search, halving = found.config.search, found.config.halving
        assert halving is not None
        assert halving.tries == 36
        if (found.column.id, found.row.id) == ("pubmed", "rfp-qr-LAS-dss"):  # a try is dear
            searched = {key: tried for key, tried in search.items() if len(tried) > 1}
            assert set(searched) == {*IN_PROGRAM, "training.operator_lr", "model.embed"}
            assert {key: tried[0] for key, tried in search.items()}.items() >= WITHOUT_ENCODING["pubmed"].items()
            continue
        expected = dict(shared)
        if found.row.id in ("mlp", "gcn"):
            del expected["model.backbone"]
        if found.row.id == "gcnii":
            if found.column.id == "pubmed":  # a try is dear
                assert math.prod(len(tried) for key, tried in search.items() if key not in IN_PROGRAM) == 8
                continue
            del expected["model.backbone"], expected["model.residual"]
            expected["model.num_layers"] = {4, 8, 16}
            expected |= {"model.initial_residual": {0.1, 0.2, 0.5}, "model.identity_mapping": {0.5, 1.0, 1.5}}
        if found.row.id.startswith("rfp"):
            expected |= drawn
            assert halving.apart[0] == "model.embed"
        for key, values in expected.items():
            assert set(search[key]) == values, (found.row.id, key)
        extra = set(search) - set(expected)
        assert all("encodings.0" in key or key in (*drawn, "training.operator_lr") for key in extra)
        sizes = [len(tried) for key, tried in search.items() if not key.startswith("training.")]
        assert math.prod(sizes) >= halving.tries  # every row can have them


def test_k_and_p_are_the_papers() -> None:
    (encoding,) = cell(2, "rfp-qr-A", "cora").config.model["encodings"]
    assert (encoding["num_channels"], encoding["num_steps"]) == (64, 16)
    both, learned = cell(2, "rfp-qr-LAS-dss", "cora").config.model["encodings"]
    assert both["operators"] == ["normalized_laplacian", "normalized_adjacency"]
    assert (learned["operators"], learned["num_channels"], learned["num_steps"]) == (["learned"], 32, 8)
    assert both["num_trajectories"] == learned["num_trajectories"] == 5
    (graph,) = cell(1, "rfp-qr-LA", "zinc").config.model["encodings"]
    assert (graph["num_channels"], graph["num_steps"]) == (16, 16)
    (counting,) = cell(3, "rfp-qr-LA", "star").config.model["encodings"]
    assert counting["distribution"] == "rademacher"
    (rnf,) = cell(3, "rnf", "star").config.model["encodings"]
    assert "distribution" not in rnf  # normal
    for k, row in TABLES[6].sweeps["k"].items():
        assert cell(6, row, "cora").config.model["encodings"][0]["num_channels"] == k
    for P, row in TABLES[6].sweeps["P"].items():
        assert cell(6, row, "cora").config.model["encodings"][0]["num_steps"] == P
    everything = cell(6, "rfp-qr-A-kall", "texas").config.model["encodings"][0]
    assert everything["num_channels"] == 183


def test_zinc_models_fill_their_budget() -> None:
    for row in ("gine", "rfp-qr-LAS-dss", "gps-rfp-qr-LA"):
        values = model_values(cell(4 if row.startswith("gps") else 1, row, "zinc"))
        assert RFPModel(values).num_parameters <= 500_000
        wider = {**values, "hidden_channels": values["hidden_channels"] + 4, "max_parameters": None}  # type: ignore[operator]
        assert RFPModel(wider).num_parameters > 500_000


def test_rows_with_products_are_what_was_measured() -> None:
    """By name and values of the measured configs: their results must not drop out of the table."""
    folder = Path(__file__).parents[2] / "results" / "zinc"
    for row, file in (
        ("rfp-l2-LAW-products", "rfp-l2-law-products-ae79a9d3.json"),
        ("rfp-qr-LA-products", "rfp-qr-la-products-91a20535.json"),
    ):
        found = cell(1, row, "zinc")
        measured = read_result(folder / file)
        assert found.config == measured.config
        assert missing_runs(found, {measured.config.key: measured}) == []
    # On molhiv they keep the family's depth, and have what was chosen there by validation.
    molhiv = cell(1, "rfp-qr-LA-products", "ogbg-molhiv").config
    assert molhiv.model["num_layers"] == 4
    tried = [read_result(path) for path in (folder.parent / "tuning" / "ogbg-molhiv").glob("products-*.json")]
    best = max(tried, key=lambda result: fmean(run.metrics["val"] for run in result.runs))
    assert (molhiv.key, molhiv.training) == (best.config.key, best.config.training)
    for row in PRODUCT_ROWS:
        assert "with products" in cell(1, row, "zinc").row.label
        assert RFPModel(model_values(cell(1, row, "zinc"))).num_parameters <= 500_000


def test_every_row_has_the_papers_number_where_it_prints_one() -> None:
    ours_alone = {(1, "gine"), *((1, row) for row in PRODUCT_ROWS), *((3, row) for row in COUNTING_PRODUCT_ROWS)}
    ours_alone |= {(2, "gcnii"), *((8, row.id) for row in TABLES[8].rows)}  # which is beyond the paper
    for number, table in TABLES.items():
        printed = {n.row for n in paper_numbers() if n.table == number}
        assert {(number, row.id) for row in table.rows if row.printed not in printed} <= ours_alone


def test_parts_of_a_table() -> None:
    part = TABLES[2].only(["gcn", "rfp-qr-A"], ["cora", "texas"])
    assert [(c.column.id, c.row.id) for c in part.cells()] == [
        *(("texas", "gcn"), ("texas", "rfp-qr-A"), ("cora", "gcn"), ("cora", "rfp-qr-A"))
    ]
    assert [c.column.id for c in TABLES[3].only(["gin"], ["counting"]).cells()] == [c.id for c in TABLES[3].columns]
    assert [c.column.id for c in TABLES[3].only(["gin"], ["cycle4"]).cells()] == ["counting/cycle4"]
    assert "rnf-all" not in {row.id for row in TABLES[6].only().rows}
    assert [row.id for row in TABLES[6].only(["rnf-all"]).rows] == ["rnf-all"]
    assert cell(2, "gcn", "cora").seeds == (0, 1, 2)
    assert cell(2, "gcn", "texas").seeds == (0, 1, 2, 3, 4)
    assert TABLES[2].only(["gcn"], ["cora"]).cells(2)[0].seeds == (0, 1)
    with pytest.raises(ArgumentError, match=r"a row of table 2 must be one of 'mlp', .*, got 'gat'"):
        TABLES[2].only(["gat"])
    with pytest.raises(ArgumentError, match="a column of table 1 must be one of 'zinc', 'ogbg-molhiv', got 'cora'"):
        TABLES[1].only((), ["cora"])
    with pytest.raises(ArgumentError, match="number of seeds must be at least 1, got 0"):
        TABLES[2].cells(0)


def test_quick_is_small_and_never_taken_for_the_table() -> None:
    for table in TABLES.values():
        whole = {found.config.key for found in table.cells()}
        quick = table.as_quick()
        assert quick.name == f"table-{table.number}-quick"
        assert "quick" in quick.title
        for found in quick.cells():
            assert found.config.key not in whole
            assert found.config.name.startswith("quick-")
            assert not found.config.search
            assert len(found.runs) <= 3
        assert 2 <= len(quick.cells()) <= 12


def test_the_ablation_of_products_changes_one_value_at_a_time() -> None:
    usual = cell(8, "products-usual", "zinc").config.to_dict()
    changed = {"k": "num_channels", "w": "normalize_every", "start": "start", "operators": "operators"}
    for letter, rows in TABLES[8].sweeps.items():
        for value, row in rows.items():
            found = cell(8, row, "zinc").config.to_dict()
            assert found["training"] == usual["training"]
            (one,), (other,) = found["model"]["encodings"], usual["model"]["encodings"]
            different = {key for key in one if one[key] != other[key]}
            assert different == (set() if row == "products-usual" else {changed[letter]})
            if letter != "operators":
                assert one[changed[letter]] == value
            # As wide as fits in 500,000 parameters, and nothing else.
            assert {key for key in found["model"] if found["model"][key] != usual["model"][key]} <= {
                *("encodings", "hidden_channels")
            }
