"""ZINC-12k as something to train on, wherever its structures are: types of atoms and bonds and targets are drawn."""

from __future__ import annotations

import torch

from rfp.data.collection import GraphCollection
from rfp.data.loaded import LoadedTask
from rfp.data.splits import masks_of_consecutive
from rfp.data.tasks import Task
from rfp.graph import Graph
from rfp.nn.levels import LEVELS
from rfp.nn.molecules import ATOM_FEATURES, BOND_FEATURES
from rfp.ragged import offsets


def drawn_task(graph: Graph, seed: int = 0) -> LoadedTask:
    """Regression on these molecules, ten of twelve to train on; nothing can be learned, and times do not depend on it.

    Args:
        graph: A batch whose edges come graph by graph, on a CPU.
        seed: Seed of types and targets.
    """
    generator = torch.Generator().manual_seed(seed)
    of_graph = graph.batch[graph.edge_index[0]]
    graphs = GraphCollection(
        graph.edge_index,
        graph.offsets,
        offsets(torch.bincount(of_graph, minlength=graph.num_graphs)),
        nodes={"x": torch.randint(ATOM_FEATURES["zinc"][0], (graph.num_nodes, 1), generator=generator)},
        edges={"edge_attr": torch.randint(1, BOND_FEATURES["zinc"][0], (graph.num_edges,), generator=generator)},
    )
    held_out = graph.num_graphs // 12
    masks = masks_of_consecutive([graph.num_graphs - 2 * held_out, held_out, held_out])
    task = Task("molecules", LEVELS["graph"], "regression", "mae", 1, categorical="zinc")
    return LoadedTask(task, graphs, torch.randn(graph.num_graphs, 1, generator=generator), masks, "drawn")
