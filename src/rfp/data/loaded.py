"""A data set in memory: graphs, labels, splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from rfp.data.collection import GraphCollection
from rfp.data.link_edges import HeldOut, LinkEdges
from rfp.data.metrics import METRICS
from rfp.data.tasks import PARTS, Task
from rfp.errors import ArgumentError, unknown_choice
from rfp.ragged import take

# A mean or deviation of targets beyond which training is told to take long, and below whose inverse a deviation is: a
# hundred thousand steps of 1e-3. Targets of molecules and of counts lie within 10.
_FAR = 100.0


@dataclass(frozen=True)
class LoadedTask:
    """A task with its data.

    Args:
        task: What is predicted and how it is scored.
        graphs: All graphs; for most node tasks there is one.
        y: Labels, a row for each node or graph (see :class:`~rfp.data.tasks.Task` for shape and type).
        masks: ``train``, ``val`` and ``test``: ``[rows, num_splits]`` bool. They need not cover all rows.
        source: Where the data came from.
        raw_y: Labels before division by ``y_scale``, where there is one.
        y_scale: ``[targets]``: what ``raw_y`` was divided by.
        notes: What a report on results with this data must say.
        links: For a link task: its edges, which are the rows of ``y`` and of the masks. ``graphs`` has none of them.
        held_out: For a link task at one split (:meth:`at_split`): what is to be predicted. ``graphs`` has the training
            edges.
        digest: Of the content (:func:`~rfp.data.content_digest.content_digest`), where that is of files that may change
            under the same name; else empty.
    """

    task: Task
    graphs: GraphCollection
    y: Tensor
    masks: Mapping[str, Tensor]
    source: str
    raw_y: Tensor | None = None
    y_scale: Tensor | None = None
    notes: tuple[str, ...] = ()
    links: LinkEdges | None = None
    held_out: HeldOut | None = None
    digest: str = ""

    def __post_init__(self) -> None:
        expected = int(self.row_ptr[-1])
        for name, value in (("y", self.y), *((f"the mask {part!r}", self.masks[part]) for part in PARTS)):
            if len(value) != expected:
                raise ArgumentError(
                    f"{self.source}: {name} must have a row for each {self.task.level} ({expected}), "
                    f"got shape {list(value.shape)}"
                )

    @property
    def row_ptr(self) -> Tensor:
        """Where the rows of each graph lie, ``[num_graphs + 1]``."""
        if self.links is not None:
            return torch.tensor([0, self.links.pairs.size(1)])
        return self.task.level.row_ptr(self.graphs.ptr)

    @property
    def num_rows(self) -> int:
        """Nodes or graphs, whichever carry the labels."""
        return len(self.y)

    @property
    def num_splits(self) -> int:
        return self.masks["train"].size(1)

    def rows(self, part: str, split: int = 0) -> Tensor:
        """Numbers of the nodes or graphs in a part of a split, ascending.

        Args:
            part: ``"train"``, ``"val"`` or ``"test"``.
            split: 0 to ``num_splits - 1``.
        """
        if part not in PARTS:
            raise unknown_choice("part", part, PARTS)
        if not 0 <= split < self.num_splits:
            last = f"0 to {self.num_splits - 1}" if self.num_splits > 1 else "0, the only one"
            raise ArgumentError(f"split {split} of {self.task.name!r} does not exist; expected {last}")
        return self.masks[part][:, split].nonzero().squeeze(1)

    def check_parts(self, split: int, *, tested: bool = True) -> None:
        """Raise where nothing could be learned, chosen or, if it is to be ``tested``, tested on a split.

        Otherwise the test part is not looked at.
        """
        parts = PARTS if tested else ("train", "val")
        for part in parts:
            if not len(self.rows(part, split)):
                raise ArgumentError(f"split {split} of {self.task.name!r} has nothing in its {part} part")
        if self.links is not None:  # which get their negatives later
            return
        for part in parts[1:]:
            if not METRICS[self.task.metric].can_score(self.y[self.rows(part, split)]):
                raise ArgumentError(
                    f"the {part} part of split {split} of {self.task.name!r} has no target with both answers (0 and "
                    f"1), without which there is no {self.task.metric}; give it both, or set data.metric to 'accuracy'"
                )

    def far_targets(self, split: int) -> str:
        """What to say of targets to learn that lie far from where a model begins; empty where none does.

        A model begins with predictions near 0 and about 1 apart, and a step of Adam changes one by about ``lr``.
        """
        if self.task.kind != "regression":
            return ""
        y = self.y[self.rows("train", split)].double()
        mean, deviation = y.mean(0), y.std(0, correction=0)
        far = (torch.maximum(mean.abs(), deviation) > _FAR) | ((deviation > 0) & (deviation < 1 / _FAR))
        if not bool(far.any()):
            return ""
        t = int(far.nonzero()[0])
        name = f" {self.task.names[t]!r}" if self.task.names else f" {t}" if y.size(1) > 1 else ""
        return (
            f"{self.task.name}: the training targets{name} have the mean {mean[t]:.3g} and the deviation "
            f"{deviation[t]:.3g}, which may take a model very long to reach; give it (y - mean) / deviation, and "
            "multiply what it predicts"
        )

    def at_split(self, split: int) -> LoadedTask:
        """The data as training may see it: of a link task the graph then has the training edges of this split alone."""
        if self.links is None or self.held_out is not None:
            return self
        self.rows("train", split)  # raises if there is no such split
        here = self.to("cpu")  # where negatives are drawn, so that they are the same everywhere
        graphs, held_out = self.links.split(here.graphs, here.masks, split, self.source)
        return replace(here, graphs=graphs, held_out=held_out).to(self.y.device)

    def batch(self, graphs: Tensor) -> Data:
        """The graphs with these numbers as one PyG batch with their labels ``y``, put together on the device.

        Args:
            graphs: ``[b]`` int64, best on the host (see :meth:`GraphCollection.take`).
        """
        data = self.graphs.take(graphs)
        data.y = self.y[take(self.row_ptr, graphs.to(self.y.device, non_blocking=True)).rows]
        return data

    def data(self, graph: int = 0) -> Data:
        """One graph as a PyG ``Data`` with ``y`` and, for node tasks, the masks (``[n]`` if there is one split)."""
        data = self.graphs.data(graph)
        rows = slice(*self.row_ptr[graph : graph + 2].tolist())
        data.y = self.y[rows]
        if self.task.level.shares_graphs:
            for part, mask in self.masks.items():
                data[f"{part}_mask"] = mask[rows] if self.num_splits > 1 else mask[rows, 0]
        return data

    def data_list(self, part: str | None = None, split: int = 0) -> list[Data]:
        """The graphs of a part (for graph tasks), or all, as PyG ``Data``."""
        if part is None:
            return [self.data(g) for g in range(self.graphs.num_graphs)]
        if self.task.level.shares_graphs:
            raise ArgumentError(f"part chooses among graphs; in a {self.task.level} task use the masks, or rows(part)")
        return [self.data(g) for g in self.rows(part, split).tolist()]

    def to(self, device: torch.device | str) -> LoadedTask:
        """The same data on another device."""
        return replace(
            self,
            graphs=self.graphs.to(device),
            y=self.y.to(device),
            masks={part: mask.to(device) for part, mask in self.masks.items()},
            raw_y=None if self.raw_y is None else self.raw_y.to(device),
            y_scale=None if self.y_scale is None else self.y_scale.to(device),
            held_out=None if self.held_out is None else self.held_out.to(device),
        )

    def only_target(self, target: str) -> LoadedTask:
        """The same data with one of several targets, by name (or position, as text)."""
        names = self.task.names or tuple(map(str, range(self.task.num_outputs)))
        if self.task.kind == "classification" or self.task.num_outputs == 1:
            raise ArgumentError(f"target={target!r}: {self.task.name!r} has one target only; leave it out")
        if target not in names:
            raise unknown_choice("target", target, names)
        column = slice(names.index(target), names.index(target) + 1)
        return replace(
            self,
            task=replace(self.task, num_outputs=1, names=(target,)),
            y=self.y[:, column],
            raw_y=None if self.raw_y is None else self.raw_y[:, column],
            y_scale=None if self.y_scale is None else self.y_scale[column],
        )

    def summary(self) -> str:
        """One line: size, task and split.

        Example:
            >>> from rfp.data import load
            >>> config = {"class": "torch_geometric.datasets.KarateClub", "random_split": [0.5, 0.25, 0.25]}
            >>> load(config).summary()
            'KarateClub: node classification (accuracy), 4 classes, 1 graph, 34 nodes, 156 edges, 34 features, \
split 17/9/8'
        """
        task, graphs = self.task, self.graphs
        width = 0 if graphs.x is None else graphs.x[0].numel()
        sizes = "/".join(str(int(self.masks[part][:, 0].sum())) for part in PARTS)
        parts = [
            f"{task.name}: {task.level} {task.kind} ({task.metric})",
            _count(
                task.num_outputs, *(("class", "classes") if task.kind == "classification" else ("output", "outputs"))
            ),
            _count(graphs.num_graphs, "graph"),
            _count(graphs.num_nodes, "node"),
            _count(graphs.num_edges if self.links is None else self.links.pairs.size(1), "edge"),
            _count(width, "feature"),
            f"split {sizes}" if self.num_splits == 1 else f"{self.num_splits} splits, the first {sizes}",
        ]
        return ", ".join(parts)


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
