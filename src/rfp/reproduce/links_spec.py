"""The link prediction table as data: methods, graphs, and the config of each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rfp.data import DATASETS
from rfp.errors import unknown_choice
from rfp.reproduce.methods import COUNTS, A, Row, eigenvector_values, rfp_values, rnf_values
from rfp.reproduce.spec import Cell, Column, first_of_search
from rfp.train.run_config import RunConfig

LINK_SPLITS = 5
# Steps whose products tell walks of up to six.
LINK_STEPS = 3
PAIR_CHANNELS, LINEAR_CHANNELS = 1024, 64


@dataclass(frozen=True)
class LinkColumn:
    """A graph of the table.

    Args:
        id: Name of the data set.
        label: For people.
        metrics: The two scores that are shown.
        chosen_by: The score on validation that chooses values and epochs. The graphs without features have so few
            validation edges that Hits@50 is 1 for many models; the area under the curve is not.
        batch_size: Training edges in a batch: about a tenth of them.
        has_features: Whether nodes have features; the others get a constant, or the identity for the autoencoder.
    """

    id: str
    label: str
    metrics: tuple[str, str]
    chosen_by: str
    batch_size: int
    has_features: bool

    @property
    def column(self) -> Column:
        """For the runner of tables."""
        return Column(self.id, self.label, "links")


_CITATIONS, _PLAIN = ("hits@100", "mrr"), ("hits@50", "roc_auc")
COLUMNS = (
    LinkColumn("cora", "Cora", _CITATIONS, "hits@100", 512, True),
    LinkColumn("citeseer", "CiteSeer", _CITATIONS, "hits@100", 512, True),
    LinkColumn("pubmed", "PubMed", _CITATIONS, "hits@100", 4096, True),
    LinkColumn("usair", "USAir", _PLAIN, "roc_auc", 256, False),
    LinkColumn("celegans", "Celegans", _PLAIN, "roc_auc", 256, False),
    LinkColumn("yeast", "Yeast", _PLAIN, "roc_auc", 1024, False),
)

# Scores without learning, by their name in rfp.links.
HEURISTICS = {
    "common_neighbors": "common neighbours",
    "adamic_adar": "Adamic-Adar",
    "resource_allocation": "resource allocation",
    "katz": "Katz",
}

_products = rfp_values(COUNTS, A, k=PAIR_CHANNELS, P=LINK_STEPS, normalization="none", start="orthonormal")
ROWS = (
    Row("gae", "GCN (GAE)", {"encodings": [], "pair_degrees": False}),
    Row("rnf", "RNF", {"encodings": [{**rnf_values(LINEAR_CHANNELS), "start": "unit"}]}),
    Row("eigvecs", "Â eigenvectors", {"encodings": [eigenvector_values(A, 32)]}),
    Row("rfp-linear", "RFP-QR-Â, linear", {"encodings": [rfp_values(A, k=LINEAR_CHANNELS, P=8, start="unit")]}),
    Row("rfp-products", "RFP products", {"encodings": [_products], "embed": "products", "pair_products": True}),
)
_MODEL: Mapping[str, Any] = {
    "backbone": "gcn",
    "num_layers": 2,
    "hidden_channels": 128,
    "norm": "none",
    "residual": True,
    "product_channels": 32,
    "input_dropout": 0.2,
}
_TRAINING: Mapping[str, Any] = {"epochs": 200, "patience": 40, "eval_draws": 4}
# One small grid for every row, tried on the first split.
_SEARCH: Mapping[str, Sequence[Any]] = {
    "training.lr": (5e-3, 1e-3),
    "model.dropout": (0.5, 0.0),
}


@dataclass(frozen=True)
class LinkTable:
    """The table, or a part of it.

    Args:
        rows: Trained methods.
        heuristics: Keys of :data:`HEURISTICS`.
        columns: Graphs.
        is_part: Whether something was left out.
        quick: Values replaced in every config, for a small run that is never taken for the table.
    """

    rows: tuple[Row, ...] = ROWS
    heuristics: tuple[str, ...] = tuple(HEURISTICS)
    columns: tuple[LinkColumn, ...] = COLUMNS
    is_part: bool = False
    quick: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For file names."""
        return "table-links" + ("-quick" if self.quick else "") + ("-part" if self.is_part else "")

    @property
    def labels(self) -> dict[str, str]:
        """Of all rows, those without learning first."""
        return {**{name: HEURISTICS[name] for name in self.heuristics}, **{row.id: row.label for row in self.rows}}

    @property
    def num_splits(self) -> int:
        return 1 if self.quick else LINK_SPLITS

    def only(self, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> LinkTable:
        """Some rows and columns alone, by id."""
        known_rows = [row.id for row in self.rows] + list(self.heuristics)
        for row in rows:
            if row not in known_rows:
                raise unknown_choice("a row of the table of links", row, known_rows)
        for column in columns:
            if column not in [c.id for c in self.columns]:
                raise unknown_choice("a column of the table of links", column, [c.id for c in self.columns])
        return LinkTable(
            tuple(row for row in self.rows if not rows or row.id in rows),
            tuple(name for name in self.heuristics if not rows or name in rows),
            tuple(c for c in self.columns if not columns or c.id in columns),
            self.is_part or bool(rows or columns),
            self.quick,
        )

    def as_quick(self) -> LinkTable:
        """A subset that a laptop does in a minute."""
        small = self.only(("gae", "rfp-products", "common_neighbors", "resource_allocation"), ("usair",))
        values = {"training.epochs": 4, "training.eval_draws": 1, "model.hidden_channels": 32}
        return LinkTable(small.rows, small.heuristics, small.columns, False, values)

    def cells(self) -> list[Cell]:
        """Every cell that is trained, graph by graph."""
        found = []
        for column in self.columns:
            for row in self.rows:
                config = link_config(row, column)
                if self.quick:
                    config = first_of_search(config).with_values(self.quick)
                    config = RunConfig.from_dict({**config.to_dict(), "name": f"quick-{config.name}"})
                found.append(Cell(row, column.column, config, (0,), tuple(range(self.num_splits))))
        return found


def data_values(column: LinkColumn) -> dict[str, Any]:
    """The data section of a config."""
    return {"name": column.id, "level": "link", "num_splits": LINK_SPLITS, "metric": column.chosen_by}


def link_config(row: Row, column: LinkColumn) -> RunConfig:
    """The config of a method on a graph."""
    data = data_values(column)
    if row.id == "gae" and not column.has_features:
        data["identity_features"] = True  # as in the paper of the graph autoencoder
    training = {**_TRAINING, "batch_size": column.batch_size}
    # As many orthonormal columns as there are nodes are all there can be.
    nodes = DATASETS[column.id].sizes["nodes"]
    encodings = [
        {**e, "num_channels": min(nodes, e["num_channels"])} if "start" in e else e for e in row.model["encodings"]
    ]
    model = {**_MODEL, **row.model, "encodings": encodings}
    values = {"name": f"links-{row.id}", "data": data, "model": model, "training": training, "search": dict(_SEARCH)}
    return RunConfig.from_dict(values)


def default_link_config(dataset: str) -> RunConfig:
    """RFP with products as in the table, with the first value where it tries several."""
    column = next(column for column in COLUMNS if column.id == dataset)
    return first_of_search(link_config(ROWS[-1], column))
