"""A config from the name of a data set alone."""

from __future__ import annotations

import pytest

from rfp.data import DATASETS
from rfp.errors import ArgumentError
from rfp.reproduce.defaults import default_config


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_has_one(name: str) -> None:
    config = default_config(name)
    assert config.data.name == name
    assert config.data.target is None
    assert not config.search
    assert config.model["encodings"][0]["name"] == "rfp"


def test_an_unknown_name() -> None:
    with pytest.raises(ArgumentError, match=r"data set must be one of 'cora', .*, got 'core'"):
        default_config("core")
