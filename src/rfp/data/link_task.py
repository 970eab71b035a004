"""A graph as a link task: its edges once each, a split of them that does not leak, and no edge in sight before that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from rfp.data.collection import GraphCollection
from rfp.data.data_config import DataConfig
from rfp.data.link_edges import HELD_OUT, LinkEdges
from rfp.data.link_negatives import no_negatives, pair_keys
from rfp.data.loaded import LoadedTask
from rfp.data.splits import check_disjoint, random_masks
from rfp.data.tasks import PARTS, Task
from rfp.errors import ArgumentError, GraphError
from rfp.nn.levels import LINK

# The usual split of edges.
FRACTIONS = (0.85, 0.05, 0.1)
DEFAULT_METRIC = "hits@100"


def link_task(
    graphs: GraphCollection,
    config: DataConfig,
    name: str,
    source: str,
    *,
    part_of: Tensor | None = None,
    time: Tensor | None = None,
    where: Callable[[int], str] = lambda row: f"edge {row}",
    given: Mapping[str, Tensor] | None = None,
    names: tuple[Any, ...] | None = None,
    metric: str = DEFAULT_METRIC,
) -> LoadedTask:
    """The edges of one graph as a task.

    Edges count once, whichever way round and however often they are listed; self-loops are left out; weights and edge
    features are dropped. The graph of the result has no edges until a split is chosen (:meth:`LoadedTask.at_split`).

    Args:
        graphs: One graph with all its edges.
        config: Split, metric and negatives.
        name: Name of the task.
        source: For errors.
        part_of: ``[m]`` or ``[m, num_splits]``: the part of each edge as its number in :data:`PARTS`, -1 for none.
        time: ``[m]``: the earliest edges are for training, the latest for the test; of an edge that is listed several
            times the first time counts.
        where: The place of an edge in the data, for errors.
        given: Negatives of ``val`` and ``test``.
        names: Ids of the nodes.
        metric: Unless the config says otherwise.

    Raises:
        ArgumentError: The split leaks (an edge is in two parts), a part is empty, or there are no negatives.
    """
    if graphs.num_graphs != 1:
        raise GraphError(f"{source}: links are predicted in one graph, got {graphs.num_graphs}")
    if not config.undirected:
        raise ArgumentError(f"{source}: links have no direction here; leave undirected=false out")
    n = graphs.num_nodes
    between = (graphs.edge_index[0] != graphs.edge_index[1]).nonzero().squeeze(1)
    keys, number = torch.unique(pair_keys(graphs.edge_index[:, between], n), return_inverse=True)
    if not len(keys):
        raise GraphError(f"{source}: the graph has no edges, so there are no links to predict")
    if len(keys) == n * (n - 1) // 2:
        raise no_negatives(n, source)
    given_split = part_of is not None and config.random_split is None
    if config.num_splits != 1 and (given_split or time is not None):
        have = "comes with its split" if given_split else "is split by time"
        raise ArgumentError(
            f"{source}: num_splits={config.num_splits} is of random splits, and this data {have}; leave it out"
        )
    if part_of is not None and given_split:
        masks = _given_masks(part_of[between], number, len(keys), between, where, source)
    elif time is not None:
        masks = _temporal_masks(time[between], number, len(keys), config.random_split or FRACTIONS, source)
    else:
        fractions = config.random_split or FRACTIONS
        masks = random_masks(len(keys), fractions, num_splits=config.num_splits, seed=config.split_seed)
    pairs = torch.stack([keys // n, keys % n])
    given = given or {}
    _check_given(given, keys, n, source)
    links = LinkEdges(pairs, config.negatives, config.hard_negatives, config.split_seed, given, names)
    nodes = dict(graphs.nodes)
    if config.identity_features:
        nodes["x"] = torch.eye(n)
    elif "x" not in nodes:
        nodes["x"] = torch.ones(n, 1)
    bare = replace(
        graphs,
        edge_index=graphs.edge_index[:, :0],
        edge_ptr=torch.zeros(2, dtype=torch.int64),
        nodes=nodes,
        edges={},
    )
    task = Task(name, LINK, "link", config.metric or metric, 1)
    notes = _says_nothing(task.metric, links, masks)
    return LoadedTask(task, bare, torch.ones(len(keys), 1), masks, source, notes=notes, links=links)


def _says_nothing(metric: str, links: LinkEdges, masks: Mapping[str, Tensor]) -> tuple[str, ...]:
    """A note where a part has fewer shared negatives than K: every positive is among the best K then."""
    if not metric.startswith("hits@") or links.negatives == "hard":
        return ()
    k = int(metric.removeprefix("hits@"))
    counts = {p: links.given[p].size(1) if p in links.given else int(masks[p].sum(dim=0).min()) for p in HELD_OUT}
    small = [f"{part} ({count})" for part, count in counts.items() if count < k]
    if not small:
        return ()
    return (
        f"{metric} is 1 whatever a model says where there are fewer than {k} uniform negatives, as in "
        f"{' and '.join(small)}; set data.metric to roc_auc, mrr or a smaller K",
    )


def _given_masks(
    part_of: Tensor, number: Tensor, count: int, rows: Tensor, where: Callable[[int], str], source: str
) -> dict[str, Tensor]:
    """Masks over the distinct edges; an edge that is listed in two parts leaks."""
    part_of = part_of[:, None] if part_of.dim() == 1 else part_of
    masks = {part: torch.zeros(count, part_of.size(1), dtype=torch.bool) for part in PARTS}
    for split in range(part_of.size(1)):
        for i, part in enumerate(PARTS):
            masks[part][number[part_of[:, split] == i], split] = True
        times = sum(mask[:, split].long() for mask in masks.values())
        twice = torch.as_tensor(times > 1).nonzero()
        if len(twice):
            same = (number == int(twice[0])).nonzero().squeeze(1)
            of = part_of[same, split]
            first = int(same[of >= 0][0])
            other = int(same[(of >= 0) & (of != part_of[first, split])][0])
            parts = [PARTS[int(part_of[row, split])] for row in (first, other)]
            raise ArgumentError(
                f"{source}: the split leaks: one edge is in {parts[0]} ({where(int(rows[first]))}) and in {parts[1]} "
                f"({where(int(rows[other]))}); an edge belongs to one part, whichever way round it is written"
            )
    check_disjoint(masks, source)
    return masks


def _temporal_masks(
    time: Tensor, number: Tensor, count: int, fractions: tuple[float, ...], source: str
) -> dict[str, Tensor]:
    """The earliest edges for training; edges of one time stay together."""
    first = torch.full((count,), float("inf"), dtype=torch.float64)
    first.scatter_reduce_(0, number, time.double(), reduce="amin")
    ordered = first.sort().values
    ends = [min(round(count * sum(fractions[: i + 1])), count) for i in range(2)]
    bounds = [float(ordered[max(end - 1, 0)]) for end in ends]
    masks = {
        "train": first <= bounds[0],
        "val": (first > bounds[0]) & (first <= bounds[1]),
        "test": first > bounds[1],
    }
    for part, mask in masks.items():
        if not bool(mask.any()):
            raise ArgumentError(
                f"{source}: by time the {part} part is empty, since too many of the {count} edges have the same time; "
                "give other fractions with random_split, or a column split"
            )
    return {part: mask[:, None] for part, mask in masks.items()}


def _check_given(given: Mapping[str, Tensor], keys: Tensor, num_nodes: int, source: str) -> None:
    for part, pairs in given.items():
        edges = torch.isin(pair_keys(pairs, num_nodes), keys)
        if bool(edges.any()):
            u, v = pairs[:, int(edges.nonzero()[0])].tolist()
            raise ArgumentError(f"{source}: the negative ({u}, {v}) of {part} is an edge of the graph; remove it")
