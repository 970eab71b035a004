"""What a table is: rows times columns, each cell a config with its seeds and splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rfp.data import DATASETS
from rfp.errors import ArgumentError, unknown_choice
from rfp.reproduce import hyperparameters
from rfp.reproduce.budget import widest
from rfp.reproduce.methods import ALL_NODES, Row
from rfp.train.run_config import RunConfig

# What GCNII has and no other backbone: the best choice with it is known beside the best without.
OF_GCNII_ALONE = "model.initial_residual"


@dataclass(frozen=True)
class Column:
    """A data set of a table.

    Args:
        id: As in ``paper.csv``: the data set's name, or ``counting/<target>``.
        label: For people.
        family: A key of :data:`rfp.reproduce.hyperparameters.FAMILIES`.
        needed: ``False`` for data that most people do not have: its absence is said and is no failure.
    """

    id: str
    label: str
    family: str
    needed: bool = True

    @property
    def dataset(self) -> str:
        return self.id.split("/")[0]

    @property
    def data(self) -> dict[str, str]:
        """The data section of the config."""
        name, _, target = self.id.partition("/")
        return {"name": name, "target": target} if target else {"name": name}

    @property
    def metric(self) -> str:
        return DATASETS[self.dataset].task.metric


@dataclass(frozen=True)
class Quick:
    """A small subset of a table that a laptop does in minutes; its results are never those of the table.

    Args:
        rows: Ids.
        columns: Ids.
        num_splits: The first few.
        values: Replaced in every config, by dotted key.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    num_splits: int = 1
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One number of a table: a config and the runs to average."""

    row: Row
    column: Column
    config: RunConfig
    seeds: tuple[int, ...]
    splits: tuple[int, ...]

    @property
    def runs(self) -> list[tuple[int, int]]:
        """(seed, split) of each run."""
        return [(seed, split) for seed in self.seeds for split in self.splits]


@dataclass(frozen=True)
class TableSpec:
    """A table.

    Args:
        number: 1 to 7 as in the paper, 8 beyond it.
        title: What it shows.
        rows: Methods, in the order of the paper where it has them.
        columns: Data sets.
        quick: See :class:`Quick`.
        sweeps: For plots: what varies (k, P, start) and the rows with its values.
        notes: What must be said below it.
        left_out: (row, column) pairs that are trained only if :meth:`only` names the row.
        is_quick: Whether this is the quick subset.
        is_part: Whether rows or columns were chosen: its files must not take the place of the whole table's.
    """

    number: int
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    quick: Quick
    sweeps: Mapping[str, Mapping[int | str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    left_out: frozenset[tuple[str, str]] = frozenset()
    is_quick: bool = False
    is_part: bool = False

    @property
    def name(self) -> str:
        """For file names: ``table-2``, ``table-2-quick``, ``table-2-part``."""
        return f"table-{self.number}" + ("-quick" if self.is_quick else "") + ("-part" if self.is_part else "")

    def only(self, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> TableSpec:
        """Some rows and columns alone, by id; without any named, all rows but those on request.

        A column is also found by its data set (``counting``) or target (``triangle``).
        """
        here = f"table {self.number}" + (" in its quick subset" if self.is_quick else "")
        for row in rows:
            if row not in [r.id for r in self.rows]:
                raise unknown_choice(f"a row of {here}", row, [r.id for r in self.rows])
        for name in columns:
            if not any(name in _names(column) for column in self.columns):
                raise unknown_choice(f"a column of {here}", name, [c.id for c in self.columns])
        kept = tuple(row for row in self.rows if (row.id in rows if rows else not row.on_request))
        return replace(
            self,
            rows=kept,
            columns=tuple(c for c in self.columns if not columns or set(columns) & _names(c)),
            left_out=frozenset(pair for pair in self.left_out if pair[0] not in rows),
            is_part=self.is_part or bool(rows or columns),
        )

    def as_quick(self) -> TableSpec:
        """The quick subset."""
        small = self.only(self.quick.rows, self.quick.columns)
        values = ", ".join(f"{key}={value}" for key, value in self.quick.values.items())
        note = f"quick subset with {values}, {self.quick.num_splits} split(s), one seed and no search: not the table"
        title = f"{self.title} (quick subset, not the table)"
        return replace(small, is_quick=True, is_part=False, title=title, notes=(note,))

    def cells(self, num_seeds: int | None = None) -> list[Cell]:
        """Every cell that is trained, data set by data set.

        Args:
            num_seeds: For each cell; by default what the settings say.
        """
        if num_seeds is not None and num_seeds < 1:
            raise ArgumentError(f"the number of seeds must be at least 1, got {num_seeds}")
        pairs = [(row, column) for column in self.columns for row in self.rows]
        return [self._cell(row, column, num_seeds) for row, column in pairs if (row.id, column.id) not in self.left_out]

    def _cell(self, row: Row, column: Column, num_seeds: int | None) -> Cell:
        config = cell_config(row, column)
        family = hyperparameters.FAMILIES[column.family]
        splits = family.num_splits
        if self.is_quick:
            config = first_of_search(config).with_values(self.quick.values)
            config = replace(config, name=f"quick-{config.name}")
            splits = min(splits, self.quick.num_splits)
        usual = 1 if self.is_quick else hyperparameters.SEEDS.get((column.id, row.id), family.num_seeds)
        return Cell(row, column, config, tuple(range(num_seeds or usual)), tuple(range(splits)))


def cell_config(row: Row, column: Column) -> RunConfig:
    """The config of a method on a data set: the family's values, then the data set's, then the row's."""
    family = hyperparameters.FAMILIES[column.family]
    of_row = [hyperparameters.ROW_VALUES.get((name, row.id), {}) for name in (column.family, column.id)]
    model, training, search = dict(family.model), dict(family.training), dict(family.search)
    halving = dict(family.halving)
    if halving:
        backbones = (hyperparameters.WITHOUT_ENCODING, row.also), (hyperparameters.GCNII, row.with_gcnii)
        halving["also"] = [
            {**found[column.id], **own} for found, own in backbones if own is not None and column.id in found
        ]
    layers: list[Mapping[str, Mapping[str, Any]]] = [
        hyperparameters.DATASET_VALUES.get(column.id, {}),
        {"model": row.model, "search": row.search if halving else {}},
        *of_row,
    ]
    for layer in layers:
        model |= layer.get("model", {})
        training |= layer.get("training", {})
        search |= layer.get("search", {})
        halving |= layer.get("halving", {})
    search = {key: tried for key, tried in search.items() if key.removeprefix("model.") not in row.model}
    if halving and "apart" not in halving:
        beyond = any(OF_GCNII_ALONE in one for one in halving["also"])
        halving["apart"] = [
            *(["model.embed"] if "model.embed" in search else []),
            *([OF_GCNII_ALONE] if beyond else []),
        ]
    encodings = [_with_all_nodes(encoding, column) for encoding in model["encodings"]]
    # Chosen for the paper's linear K_embed; rows with another say themselves how the features begin.
    of_family = family.rfp if model.get("embed", "linear") == "linear" else {}
    model["encodings"] = [{**e, **of_family} if e["name"] == "rfp" else e for e in encodings]
    if "max_parameters" in model and "hidden_channels" not in model:
        model["hidden_channels"] = widest(model, DATASETS[column.dataset].task)
    target = column.data.get("target")
    name = row.id if target is None else f"{row.id}-{target}"
    chosen = hyperparameters.CHOSEN_FOR_SWEEPS.get(column.id, {}) if row.of_sweep else {}
    if chosen and halving:
        halving |= {"held": [], "carried": []}  # keys that are chosen already
    values = {"name": name, "data": column.data, "model": model, "training": training, "search": search}
    config = RunConfig.from_dict({**values, "halving": halving} if halving else values)
    return config.with_values(chosen) if chosen else config


def first_of_search(config: RunConfig) -> RunConfig:
    """The config without its search, every searched key at the first value."""
    return config.with_values({key: tried[0] for key, tried in config.search.items()})


def _with_all_nodes(encoding: Mapping[str, Any], column: Column) -> dict[str, Any]:
    nodes = DATASETS[column.dataset].sizes.get("nodes")
    return {key: nodes if value == ALL_NODES else value for key, value in encoding.items()}


def _names(column: Column) -> set[str]:
    return {column.id, *column.id.split("/")}
