"""A halving in a config: what can be searched, and what is written of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rfp.errors import ArgumentError
from rfp.train import RunConfig
from rfp.train.halving import Halving
from tests.train.halving_config import CONFIG, HALVING, SEARCH


def test_a_plan_without_what_was_added_later_reads_as_before() -> None:
    assert not {"carried", "also"} & set(HALVING.to_dict())
    with_it = replace(HALVING, carried=("model.residual",), also={"model.norm": "none"})
    assert Halving.from_dict(with_it.to_dict()) == with_it
    assert (with_it.to_dict()["apart"], with_it.to_dict()["also"]) == ("model.norm", {"model.norm": "none"})
    assert Halving().to_dict()["apart"] == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"halving": {"trials": 3}}, "a key of halving must be one of 'tries', .*, got 'trials'"),
        ({"halving": {"tries": 0}}, "halving: tries must be at least 1, got 0"),
        ({"halving": {"held": ["model.dropout"]}}, "no values to try for model.dropout; add them to search"),
        ({"halving": {"carried": ["model.dropout"]}}, "no values to try for model.dropout; add them to search"),
        ({"halving": {"apart": ["model.dropout"]}}, "no values to try for model.dropout; add them to search"),
        ({"halving": {"apart": 3}}, "halving: apart must be a list of keys, got 3"),
        ({"halving": {"also": {"model.dropuot": 0.5}}}, "a key of the model's config must be one of .*got 'dropuot'"),
        ({"halving": {"also": {"data.name": "cora"}}}, "also sets values of the model and of the training, not data.n"),
        ({"halving": {"also": {"training.lr": 0.1}}}, "halving: also must be a mapping of keys to values .or a list"),
        ({"halving": {"also": ["model.norm"]}}, r"halving: also must be a mapping .*, got \['model.norm'\]"),
        ({"halving": {"carried": "model.norm"}}, "halving: carried must be a list of keys, got 'model.norm'"),
        ({"halving": {"held": "model.norm"}}, "halving: held must be a list of keys, got 'model.norm'"),
        ({"halving": {}, "search": {"training.lr": [0.1]}}, "no values to try for training.weight_decay"),
    ],
)
def test_what_cannot_be_searched(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        RunConfig.from_dict({"data": "texas", "search": SEARCH, **changes})


def test_part_of_a_config() -> None:
    assert RunConfig.from_dict(CONFIG.to_dict()) == CONFIG
    assert CONFIG.with_values({"training.epochs": 5}).halving == HALVING
    assert CONFIG.with_values({"training.lr": 0.1}).halving is None  # nothing is left to halve
    assert CONFIG.key != replace(CONFIG, halving=replace(HALVING, tries=9)).key
    plain = RunConfig.from_dict({"data": "texas", "search": SEARCH})
    assert "halving" not in plain.to_dict()
