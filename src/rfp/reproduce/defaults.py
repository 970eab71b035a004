"""A config for a data set of which nothing but the name is given: RFP-QR as in the tables, without a search."""

from __future__ import annotations

from dataclasses import replace

from rfp.data import DATASETS, DataConfig
from rfp.errors import unknown_choice
from rfp.nn.levels import LINK
from rfp.reproduce.links_spec import default_link_config
from rfp.reproduce.spec import cell_config, first_of_search
from rfp.reproduce.tables import TABLES
from rfp.train.run_config import RunConfig

_ROWS = ("rfp-qr-A", "rfp-qr-LA")
# Data sets that are in no table of their own.
_LIKE = {"counting-generated": "counting"}


def default_config(dataset: str) -> RunConfig:
    """The config that the tables have for RFP-QR on a data set, with the first value where they try several.

    Example:
        >>> config = default_config("texas")
        >>> config.name, config.model["backbone"], config.search
        ('rfp-qr-A', 'gcn', {})
    """
    if dataset not in DATASETS:
        raise unknown_choice("data set", dataset, DATASETS)
    if DATASETS[dataset].task.level is LINK:
        return default_link_config(dataset)
    name = _LIKE.get(dataset, dataset)
    for table in TABLES.values():
        column = next((column for column in table.columns if column.dataset == name), None)
        row = next((row for row in table.rows if row.id in _ROWS), None)
        if column is not None and row is not None:
            return replace(first_of_search(cell_config(row, column)), data=DataConfig(name=dataset), name=row.id)
    raise unknown_choice("data set with a default config", dataset, [d for d in DATASETS if d != dataset])
