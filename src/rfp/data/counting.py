"""The substructure-counting task in the form of every other data set."""

from __future__ import annotations

from pathlib import Path

import torch

from rfp.data.collection import GraphCollection
from rfp.data.counting_generator import CountingData, generate, read_published
from rfp.data.loaded import LoadedTask
from rfp.data.splits import masks_of_rows
from rfp.data.tasks import Task


def read_counting(root: Path, task: Task) -> LoadedTask:
    """The published graphs and split."""
    return _loaded(read_published(root), task)


def generate_counting(task: Task) -> LoadedTask:
    """5,000 graphs drawn from seed 0 in the same way, for use without any file."""
    return _loaded(generate(), task)


def _loaded(data: CountingData, task: Task) -> LoadedTask:
    """A constant feature, and the counts divided by their standard deviations over all graphs.

    The mean is not subtracted: that is how published errors are made (Balcilar et al. 2021, Zhao et al. 2022).
    """
    graphs = data.graphs
    collection = GraphCollection(
        graphs.edge_index,
        graphs.offsets,
        torch.searchsorted(graphs.edge_index[0].contiguous(), graphs.offsets),
        nodes={"x": torch.ones(graphs.num_nodes, 1)},
    )
    return LoadedTask(
        task,
        collection,
        data.targets.float(),
        masks_of_rows(data.split, data.num_graphs, data.source),
        data.source,
        raw_y=data.counts,
        y_scale=data.divisors,
    )
