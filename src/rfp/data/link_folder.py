"""A folder of edge tables as a link task.

===================================  ==================================================================================
``edges.csv``                        ``source``, ``target``; optional ``split`` (train, val or test; also ``split_0``,
                                     ``split_1``, …) and a column of times, named by ``time`` in the config
``train.csv``, ``val.csv``,          the same edges in three files instead
``test.csv``
``nodes.csv``                        optional: ``node``; all other columns but ``label`` and ``split`` are features
``negatives.csv``                    optional: ``source``, ``target``, ``split`` (val or test)
===================================  ==================================================================================

Each may be ``.csv``, ``.csv.gz`` or ``.parquet``. Without a split and without times it is random.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.data_config import DataConfig
from rfp.data.folder_ids import GraphIds, NumberedNodes, number_nodes
from rfp.data.link_task import link_task
from rfp.data.loaded import LoadedTask
from rfp.data.table_files import PART_NAMES, TABLE_SUFFIXES, Table, find_table
from rfp.data.tasks import PARTS
from rfp.edge_table.columns import SOURCE_NAMES, TARGET_NAMES
from rfp.errors import ArgumentError, FileError, GraphError
from rfp.ragged import offsets, owners


def load_link_folder(folder: Path, config: DataConfig) -> LoadedTask:
    """Read the files of a folder (see the module)."""
    edges, parts, places = _edges(folder)
    nodes, negatives = find_table(folder, "nodes"), find_table(folder, "negatives")
    source, target = (edges.required(names) for names in (SOURCE_NAMES, TARGET_NAMES))
    count, time = edges.num_rows, _times(edges, config.time, parts is not None)
    if negatives is not None:  # their nodes are numbered with those of the edges
        edges = _joined([edges, negatives], [source, target])
    of_rows = [None if table is None else np.zeros(table.num_rows, np.int64) for table in (edges, nodes)]
    assert of_rows[0] is not None
    alone = GraphIds(1, of_rows[0], of_rows[1])
    numbered = number_nodes(edges, source, target, nodes, alone)
    ends = torch.from_numpy(np.ascontiguousarray(numbered.ends))
    of_nodes = {}
    if nodes is not None:
        x = nodes.features({"node", *nodes.of_role("label"), *nodes.of_role("split")})
        if x is not None:
            of_nodes["x"] = x[numbered.order]
    graph = GraphCollection(ends[:, :count], torch.from_numpy(numbered.ptr), torch.tensor([0, count]), of_nodes)
    given = None if negatives is None else _negatives(negatives, ends[:, count:])
    return link_task(
        graph,
        config,
        folder.resolve().name,
        str(folder),
        part_of=parts,
        time=time,
        where=places,
        given=given,
        names=_names(edges, source, target, nodes, numbered),
    )


def _edges(folder: Path) -> tuple[Table, Tensor | None, Any]:
    whole = find_table(folder, "edges")
    tables = {part: find_table(folder, part) for part in PARTS}
    if tables["val"] is None:
        tables["val"] = find_table(folder, "valid")
    if whole is None and all(table is None for table in tables.values()):
        expected = f"edges{', edges'.join(TABLE_SUFFIXES)}, or train, val and test"
        raise FileError(f"{folder}: there is no edges file; expected {expected}")
    if whole is not None:
        if any(table is not None for table in tables.values()):
            raise FileError(f"{folder} has both an edges file and files of parts; keep one of them")
        return whole, _parts(whole), whole.where
    missing = [part for part, table in tables.items() if table is None]
    if missing:
        raise FileError(f"{folder}: there is no {missing[0]} file beside those of the other parts")
    several = [table for table in tables.values() if table is not None]
    columns = [several[0].required(names) for names in (SOURCE_NAMES, TARGET_NAMES)]
    sizes = torch.tensor([table.num_rows for table in several])
    parts, starts = owners(sizes), offsets(sizes).numpy()

    def where(row: int) -> str:
        table = int(np.searchsorted(starts, row, side="right")) - 1
        return several[table].where(row - int(starts[table]))

    return _joined(several, columns), parts, where


def _times(edges: Table, column: str | None, has_split: bool) -> Tensor | None:
    if column is None:
        return None
    if has_split or column not in edges.columns:
        why = "the folder has a split" if has_split else f"it has {', '.join(edges.columns)}"
        raise ArgumentError(f"{edges.path}: a split by the column of times {column!r} cannot be made: {why}")
    return torch.from_numpy(edges.numbers(column))


def _joined(tables: list[Table], columns: list[str]) -> Table:
    """The id columns of several tables one below the other."""
    import pyarrow as pa

    names = [SOURCE_NAMES, TARGET_NAMES]
    joined = {}
    for column, known in zip(columns, names, strict=True):
        parts = [table.ids(table.required(known)) for table in tables]
        if len({part.type for part in parts}) > 1:
            parts = [part.cast(pa.string()) for part in parts]
        joined[column] = pa.concat_arrays(parts)
    return Table(tables[0].path, joined, sum(table.num_rows for table in tables))


def _parts(table: Table) -> Tensor | None:
    names = table.of_role("split")
    if not names:
        return None
    return torch.stack([_part_numbers(table, name, PARTS) for name in names], dim=1)


def _part_numbers(table: Table, name: str, allowed: tuple[str, ...]) -> Tensor:
    numbers = torch.full((table.num_rows,), -1)
    for row, text in enumerate(table.texts(name)):
        if text is None:
            continue
        part = PART_NAMES.get(text.lower())
        if part not in allowed:
            raise ArgumentError(f"{table.where(row)}: column {name!r} must be {' or '.join(allowed)}, got {text!r}")
        numbers[row] = PARTS.index(part)
    return numbers


def _negatives(table: Table, ends: Tensor) -> dict[str, Tensor]:
    if "split" not in table.columns:
        raise GraphError(f"{table.path}: there is no column 'split' (val or test); it has {', '.join(table.columns)}")
    numbers = _part_numbers(table, "split", ("val", "test"))
    given = {part: ends[:, numbers == PARTS.index(part)] for part in ("val", "test")}
    for part, pairs in given.items():
        if not pairs.size(1):
            raise ArgumentError(f"{table.path}: there are no negatives of {part}")
        same = (pairs[0] == pairs[1]).nonzero()
        if len(same):
            raise GraphError(f"{table.path}: a negative of {part} is a node with itself")
    return given


def _names(edges: Table, source: str, target: str, nodes: Table | None, numbered: NumberedNodes) -> tuple[Any, ...]:
    if nodes is not None:
        ids = nodes.ids("node").to_pylist()
        return tuple(ids[row] for row in numbered.order.tolist())
    names: list[Any] = [None] * int(numbered.ptr[-1])
    for column, side in ((source, 0), (target, 1)):
        for name, node in zip(edges.ids(column).to_pylist(), numbered.ends[side].tolist(), strict=True):
            names[node] = name
    return tuple(names)
