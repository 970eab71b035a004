"""A trained model of links asked about a node: with whom it should be linked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from rfp.data import load
from rfp.data.loaded import LoadedTask
from rfp.errors import ArgumentError, FileError
from rfp.nn import RFPModel
from rfp.nn.kinds import LINK_KINDS
from rfp.train.batches import Batch
from rfp.train.checkpoints import BEST, OWN, read_checkpoint
from rfp.train.evaluation import predict_batches
from rfp.train.fixed_encodings import fixed_encodings
from rfp.train.run_config import RunConfig


@dataclass(frozen=True)
class Partners:
    """Nodes that a node should be linked with, most likely first.

    Args:
        node: The node, as a number.
        partners: ``[K]`` node numbers.
        probability: ``[K]``; among as many links as non-links, as in training.
        names: Ids of all nodes, or ``None`` for their numbers.
    """

    node: int
    partners: Tensor
    probability: Tensor
    names: tuple[Any, ...] | None

    def name(self, node: int) -> Any:
        """The id of a node."""
        return node if self.names is None else self.names[node]


class LinkPredictor:
    """A trained link model with its graph.

    Args:
        path: A checkpoint (``best.ckpt``), or the folder that holds it.
        data_root: See :func:`rfp.data.load`.
        device: Where to compute.

    Raises:
        FileError: There is no checkpoint, or it is damaged.
        ArgumentError: It is of a model of nodes or graphs.
    """

    def __init__(self, path: Path, *, data_root: Path | None = None, device: torch.device | str = "cpu") -> None:
        path = path / BEST if path.is_dir() else path
        if not path.exists():
            raise FileError(f"{path}: there is no checkpoint; rfp train writes {BEST} below its --checkpoints folder")
        content = read_checkpoint(path)
        own = content[OWN]
        self.config = RunConfig.from_dict(own["config"])
        loaded = load(self.config.data, data_root=data_root)
        if own.get("data", "") != loaded.digest and own.get("data"):
            raise FileError(
                f"{path}: trained on other data: the files in {loaded.source} have changed since; train again"
            )
        if loaded.links is None:
            raise ArgumentError(f"{path}: a model of {loaded.task.level} predictions; links are asked of a link model")
        self.loaded: LoadedTask = loaded.at_split(own["split"]).to(device)
        self.links = loaded.links
        self.model = RFPModel(self.config.model_config(loaded, own["seed"]))
        try:
            self.model.load_state_dict(content["state_dict"])
        except RuntimeError as error:
            raise FileError(f"{path}: the weights are not of this config; train again") from error
        self.model.to(device).eval()

    def find_node(self, text: str) -> int:
        """The number of a node from its id as text."""
        if self.links.names is None:
            if text.isascii() and text.isdigit() and int(text) < self.loaded.graphs.num_nodes:
                return int(text)
            raise ArgumentError(f"node {text!r} is not in the graph; expected 0 to {self.loaded.graphs.num_nodes - 1}")
        for number, name in enumerate(self.links.names):
            if str(name) == text:
                return number
        known = ", ".join(str(name) for name in self.links.names[:3])
        raise ArgumentError(f"node {text!r} is not in the graph, whose nodes are {known}, …")

    def partners(self, node: int, count: int, *, known: bool = False) -> Partners:
        """The ``count`` nodes most likely linked with a node.

        The graph that is encoded has the training edges of the split that the model was trained on.

        Args:
            node: Its number.
            count: At most so many.
            known: Whether neighbours in the training graph are listed too.
        """
        graph = self.loaded.graphs.graph
        others = torch.arange(graph.num_nodes, device=graph.device)
        closed = others == node
        if not known:
            closed[graph.edge_index[1][graph.edge_index[0] == node]] = True
        others = others[~closed]
        if not len(others):
            raise ArgumentError(f"node {node} is linked to all other nodes, so there is no link to predict")
        pairs = torch.stack([torch.full_like(others, node), others])
        stored = fixed_encodings(self.model, graph, self.loaded.graphs.x)
        data = SimpleNamespace(edge_attr=None, pairs=pairs, **{"x": None, **self.loaded.graphs.nodes, **stored})
        label = torch.zeros(len(others), 2, device=graph.device)
        draws = self.config.training.eval_draws
        logits, _ = predict_batches(self.model, [Batch(data, graph, label)], "link", draws)
        best = torch.topk(logits[:, 0], min(count, len(others)))
        probability = LINK_KINDS["link"].averaged(best.values)
        return Partners(node, others[best.indices].cpu(), probability.cpu(), self.links.names)
