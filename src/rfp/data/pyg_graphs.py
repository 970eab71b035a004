"""PyG graphs of one's own, from a file or a class, as a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import HeteroData

from rfp.data.collection import GraphCollection
from rfp.data.data_config import DataConfig
from rfp.data.labels import choose_masks, labels_from_numbers
from rfp.data.link_task import link_task
from rfp.data.loaded import LoadedTask
from rfp.data.tasks import PARTS
from rfp.errors import ArgumentError, GraphError
from rfp.nn.levels import LEVELS, Level
from rfp.ragged import owners


def task_from_graphs(
    graphs: Sequence[Any], config: DataConfig, name: str, source: str, masks: dict[str, Tensor] | None = None
) -> LoadedTask:
    """A task from PyG graphs with ``y`` (a row for each node, or one for the graph).

    Args:
        graphs: ``Data`` objects; ``x``, ``edge_attr``, ``edge_weight``, ``y`` and, for node tasks, ``train_mask``,
            ``val_mask`` and ``test_mask`` (``[n]`` or ``[n, num_splits]``) are read.
        config: May name level, kind, metric and split.
        name: Name of the task.
        source: For errors.
        masks: The split over graphs, if it is known: ``[num_graphs, num_splits]``. In a node task the nodes of a graph
            follow it.
    """
    if not graphs:
        raise GraphError(f"{source}: there are no graphs")
    if any(isinstance(graph, HeteroData) for graph in graphs):
        raise GraphError(f"{source}: nodes of several types, which no task here takes; use to_homogeneous()")
    try:
        collection = GraphCollection.from_data_list(graphs).check()
    except GraphError as error:
        raise GraphError(f"{source}: {error}") from error
    if config.level == "link":
        return link_task(collection, config, name, source)
    values = [_label(graph, i, source) for i, graph in enumerate(graphs)]
    level = _find_level(collection, values, source) if config.level is None else LEVELS[config.level]
    sizes = level.row_ptr(collection.ptr).diff().tolist()
    for i, (value, rows) in enumerate(zip(values, sizes, strict=True)):
        if len(value) != rows or value.shape[1] != values[0].shape[1]:
            raise ArgumentError(
                f"{source}: y of graph {i} must have shape [{rows}, {values[0].shape[1]}] for a {level} task, got "
                f"{list(value.shape)}"
            )
    integer_type = all(not graph.y.is_floating_point() and graph.y.dtype != torch.bool for graph in graphs)
    kind = config.kind or ("binary" if all(graph.y.dtype == torch.bool for graph in graphs) else None)
    labels = labels_from_numbers(torch.cat(values), kind, source, integer_type=integer_type)
    given = _masks_of_graphs(graphs) if level.shares_graphs else None
    if masks is not None:
        given = {part: masks[part][owners(torch.tensor(sizes))] for part in PARTS}
    chosen = choose_masks(given, labels, config, source, level.split_hint)
    return LoadedTask(labels.task(name, level, config), collection, labels.y, chosen, source, notes=labels.notes)


def _label(graph: Any, number: int, source: str) -> Tensor:  # -> [rows, targets]
    y = getattr(graph, "y", None)
    if not isinstance(y, Tensor):
        raise ArgumentError(f"{source}: graph {number} has no label tensor y")
    y = y.double()
    return y.view(-1, 1) if y.dim() < 2 else y.flatten(start_dim=1)


def _find_level(graphs: GraphCollection, values: Sequence[Tensor], source: str) -> Level:
    """The one level at which every graph has as many rows as its ``y``."""
    rows = torch.tensor([len(value) for value in values])
    fitting = [level for level in LEVELS.values() if torch.equal(level.row_ptr(graphs.ptr).diff(), rows)]
    if len(fitting) != 1:
        neither = "y has a row for neither each node nor the graph"
        why = "both nodes and graphs have one label each" if fitting else neither
        raise ArgumentError(f"{source}: {why}; say level='node' or level='graph'")
    return fitting[0]


def _masks_of_graphs(graphs: Sequence[Any]) -> dict[str, Tensor] | None:
    masks = {}
    for part in PARTS:
        values = [getattr(graph, f"{part}_mask", None) for graph in graphs]
        if any(value is None for value in values):
            return None
        joined = torch.cat([value for value in values if value is not None]).bool()
        masks[part] = joined[:, None] if joined.dim() == 1 else joined
    # Some data sets have several training splits and one test set.
    width = max(mask.size(1) for mask in masks.values())
    return {part: mask.expand(-1, width) if mask.size(1) == 1 else mask for part, mask in masks.items()}
