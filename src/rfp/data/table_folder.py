"""A folder of CSV or Parquet files as a task: one graph or many.

===========================  ==========================================================================================
``edges.csv``                ``source``, ``target``; optional ``graph``, ``weight``; all other columns are edge features
``nodes.csv``                ``node``; optional ``graph``, ``label``, ``split``; all other columns are node features
``graphs.csv``               ``graph``; ``label``, ``split``
===========================  ==========================================================================================

Each may be ``.csv``, ``.csv.gz`` or ``.parquet``. Labels are in ``nodes`` (node task) or in ``graphs`` (graph task):
one column ``label``, or several ``label_<name>``. The split is a column ``split`` of train, val, test or nothing, or
several, ``split_0``, ``split_1``, …. Without ``nodes`` the nodes are those that edges name. For ``level: link`` see
:mod:`rfp.data.link_folder`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.data_config import DataConfig
from rfp.data.folder_ids import GraphIds, NumberedNodes, number_graphs, number_nodes
from rfp.data.labels import Labels, choose_masks, labels_from_numbers, labels_from_texts
from rfp.data.link_folder import load_link_folder
from rfp.data.loaded import LoadedTask
from rfp.data.table_files import PART_NAMES, TABLE_SUFFIXES, Table, find_table
from rfp.data.tasks import PARTS
from rfp.edge_table.columns import SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES
from rfp.errors import ArgumentError, FileError
from rfp.nn.levels import GRAPH, NODE, Level
from rfp.ragged import offsets


def load_folder(folder: Path, config: DataConfig) -> LoadedTask:
    """Read the files of a folder (see the module)."""
    if config.level == "link":
        return load_link_folder(folder, config)
    edges, nodes, graphs = (find_table(folder, name) for name in ("edges", "nodes", "graphs"))
    if edges is None:
        raise FileError(f"{folder}: there is no edges file; expected edges{', edges'.join(TABLE_SUFFIXES)}")
    source, target = (edges.required(names) for names in (SOURCE_NAMES, TARGET_NAMES))
    graph_ids = number_graphs(edges, nodes, graphs)
    node_ids = number_nodes(edges, source, target, nodes, graph_ids)
    collection = _collection(edges, source, target, nodes, graph_ids, node_ids)
    table, level = _labelled(nodes, graphs, config, folder)
    order = node_ids.order if table is nodes else np.arange(table.num_rows)
    labels = _labels(table, config, order)
    masks = choose_masks(_masks(table, order), labels, config, str(table.path), "add a column split")
    name = folder.resolve().name
    return LoadedTask(labels.task(name, level, config), collection, labels.y, masks, str(folder), notes=labels.notes)


def _collection(
    edges: Table, source: str, target: str, nodes: Table | None, graph_ids: GraphIds, node_ids: NumberedNodes
) -> GraphCollection:
    order = np.argsort(graph_ids.of_edges, kind="stable")
    weight = next((name for name in WEIGHT_NAMES if name in edges.columns), None)
    attributes = {}
    features = edges.features({source, target, "graph", weight})
    if features is not None:
        attributes["edge_attr"] = features[order]
    if weight is not None:
        attributes["edge_weight"] = torch.from_numpy(edges.numbers(weight)[order]).float()
    of_nodes = {}
    if nodes is not None:
        x = nodes.features({"node", "graph", *nodes.of_role("label"), *nodes.of_role("split")})
        if x is not None:
            of_nodes["x"] = x[node_ids.order]
    counts = torch.from_numpy(np.bincount(graph_ids.of_edges, minlength=graph_ids.count))
    return GraphCollection(
        torch.from_numpy(np.ascontiguousarray(node_ids.ends[:, order])),
        torch.from_numpy(node_ids.ptr),
        offsets(counts),
        of_nodes,
        attributes,
    )


def _labelled(nodes: Table | None, graphs: Table | None, config: DataConfig, folder: Path) -> tuple[Table, Level]:
    tables = {NODE: nodes, GRAPH: graphs}
    have = {level: table for level, table in tables.items() if table is not None and table.of_role("label")}
    if config.level is not None:
        have = {level: table for level, table in have.items() if level.name == config.level}
    if len(have) == 2:
        raise ArgumentError(f"{folder}: both nodes and graphs have labels; say level='node' or level='graph'")
    if not have:
        wanted = f" for level={config.level!r}" if config.level else ""
        raise ArgumentError(f"{folder}: there are no labels{wanted}; add a column label to the nodes or graphs file")
    level, table = next(iter(have.items()))
    return table, level


def _labels(table: Table, config: DataConfig, order: NDArray[np.int64]) -> Labels:
    names = table.of_role("label")
    source = f"{table.path}, column {', '.join(names)}"
    if len(names) == 1 and table.is_text(names[0]):
        texts = table.texts(names[0])
        return labels_from_texts([texts[row] for row in order], config.kind, source)
    values = np.stack([table.numbers(name, missing=True) for name in names], axis=1)[order]
    targets = tuple(name.removeprefix("label_") for name in names) if len(names) > 1 else ()
    return labels_from_numbers(torch.from_numpy(values), config.kind, source, names=targets)


def _masks(table: Table, order: NDArray[np.int64]) -> dict[str, Tensor] | None:
    names = table.of_role("split")
    if not names:
        return None
    masks = {part: torch.zeros(table.num_rows, len(names), dtype=torch.bool) for part in PARTS}
    for split, name in enumerate(names):
        for row, text in enumerate(table.texts(name)):
            if text is None:
                continue
            if text.lower() not in PART_NAMES:
                raise ArgumentError(
                    f"{table.where(row)}: column {name!r} must be train, val, test or empty, got {text!r}"
                )
            masks[PART_NAMES[text.lower()]][row, split] = True
    return {part: mask[torch.from_numpy(order)] for part, mask in masks.items()}
