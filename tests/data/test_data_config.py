"""A config says one thing, and nothing it does not know."""

import numpy as np
import pytest

from rfp.data import DataConfig
from rfp.errors import ArgumentError


def test_plain_values_there_and_back() -> None:
    values = {
        "class": "torch_geometric.datasets.TUDataset",
        "args": {"name": "MUTAG"},
        "random_split": [0.8, 0.1, 0.1],
        "kind": "classification",
    }
    config = DataConfig.from_dict(values)
    assert config.dataset_class == values["class"]
    assert config.random_split == (0.8, 0.1, 0.1)
    assert DataConfig.from_dict({**values, "random_split": np.array([0.8, 0.1, 0.1])}) == config
    plain = config.to_dict()
    assert {key: plain[key] for key in values} == values
    assert DataConfig.from_dict(plain) == config


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "exactly one of name, path and class, got none"),
        ({"name": "cora", "path": "x"}, "got name, path"),
        ({"name": "cora", "args": {"a": 1}}, "args and parts belong to class, not to name"),
        ({"name": "cora", "kind": "regression"}, "kind is fixed for 'cora'"),
        ({"name": "cora", "random_split": [0.8, 0.1, 0.1]}, "random_split is fixed"),
        ({"path": "x", "level": "edge"}, "level must be one of"),
        ({"path": "x", "metric": "rmse"}, "metric must be one of 'accuracy', 'roc_auc'"),
        ({"name": "cora", "self_loops": "drop"}, "self_loops must be one of 'keep', 'remove'"),
        ({"name": "cora", "self_loops": ["keep"]}, "self_loops must be one of"),
        ({"path": "x", "drop_features": "no"}, "drop_features must be true or false, got 'no'"),
        ({"path": "x", "num_splits": 2.5}, "num_splits must be an integer, got 2.5"),
        ({"path": "x", "num_splits": "2"}, "num_splits must be a number, got '2'"),
        ({"path": "x", "num_splits": 0}, "num_splits must be an integer of at least 1, got 0"),
        ({"path": "x", "split_seed": "a"}, "split_seed must be a number, got 'a'"),
        *[
            ({"path": "x", "random_split": value}, "random_split must be three fractions, such as .*, got ")
            for value in (0.5, "0.8, 0.1, 0.1", [0.5, 0.5], [0.8, 0.1, "a"])
        ],
        ({"class": "a.B", "parts": {"train": {}, "valid": {}}}, "parts needs the keys train, val, test"),
        ({"name": "cora", "classs": 1}, "a key of the data config must be one of .*'class'.* got 'classs'"),
    ],
)
def test_what_makes_no_sense_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        DataConfig.from_dict(values)
