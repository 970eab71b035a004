r"""Levels of a task: what a row of the labels stands for, and all that follows from it.

A graph has one row at the graph level and as many as it has nodes at the node level; pairs of nodes are the rows of the
link level. Where the rows of each graph lie
(:meth:`Level.row_ptr`) decides how labels are checked, cut into batches and split; the readout and the head turn the
hidden states of nodes into an answer for each row; the kinds of answers bring loss and score. A new level is one class
here and one line in :data:`LEVELS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rfp.nn.kinds import KINDS, LINK_KINDS, Kind
from rfp.nn.layers import MLP
from rfp.nn.readout import GraphReadout, NodeReadout


@dataclass(frozen=True)
class ReadoutOptions:
    """What a readout is made of.

    Args:
        channels: Width d of the hidden states.
        joined: Whether the trajectories of a node are laid side by side, or pooled: there is then no dimension B.
        nodes: ``"sum"``, ``"mean"`` or ``"max"`` over the nodes of a graph.
        trajectories: The same over trajectories.
        act: Activation.
    """

    channels: int
    joined: bool = True
    nodes: str = "sum"
    trajectories: str = "mean"
    act: str = "relu"


class Level:
    """What a row of the labels stands for."""

    name: str
    # Whether rows of several parts of a split lie in one graph: a batch then brings rows that do not count.
    shares_graphs: bool
    # Whether a batch brings pairs of nodes, which the head reads beside the hidden states.
    reads_pairs: bool = False
    # How graphs of one's own can carry a split, for the error that they do not.
    split_hint: str
    # What may be predicted for a row: the label's kind, its loss and its score.
    kinds: Mapping[str, Kind] = KINDS

    def row_ptr(self, ptr: Tensor) -> Tensor:  # [num_graphs + 1] -> [num_graphs + 1]
        """Where the label rows of each graph lie, from where its nodes lie."""
        raise NotImplementedError

    def graphs_of(self, rows: Tensor, ptr: Tensor) -> Tensor:
        """Numbers of the graphs that these rows belong to, each once, ascending."""
        graphs: Tensor = torch.unique(torch.searchsorted(self.row_ptr(ptr), rows, right=True) - 1)
        return graphs

    def readout(self, options: ReadoutOptions) -> nn.Module:
        """A module ``(h, graph)`` from hidden states ``[..., n, d]`` to those of the rows ``[..., rows, d]``."""
        raise NotImplementedError

    def head(self, channels: int, out_channels: int, num_layers: int) -> nn.Module:
        """A module from the hidden state of a row to its answer, ``[..., d] -> [..., out_channels]``."""
        return MLP(channels, out_channels, hidden_channels=channels, num_layers=num_layers)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class GraphLevel(Level):
    """A row for each graph.

    Example:
        >>> GraphLevel().row_ptr(torch.tensor([0, 3, 5]))
        tensor([0, 1, 2])
    """

    name = "graph"
    shares_graphs = False
    split_hint = (
        "a graph task needs graphs for each part ({train: [...], val: [...], test: [...]}, or parts for a class)"
    )

    def row_ptr(self, ptr: Tensor) -> Tensor:
        return torch.arange(len(ptr), device=ptr.device)

    def readout(self, options: ReadoutOptions) -> nn.Module:
        trajectories = None if options.joined else options.trajectories
        return GraphReadout(options.channels, nodes=options.nodes, trajectories=trajectories, act=options.act)


class NodeLevel(Level):
    """A row for each node.

    Example:
        >>> NodeLevel().graphs_of(torch.tensor([0, 1, 4]), torch.tensor([0, 3, 5]))
        tensor([0, 1])
    """

    name = "node"
    shares_graphs = True
    split_hint = "a node task needs train_mask, val_mask and test_mask on every graph"

    def row_ptr(self, ptr: Tensor) -> Tensor:
        return ptr

    def readout(self, options: ReadoutOptions) -> nn.Module:
        return NodeReadout(None if options.joined else options.trajectories)


class LinkLevel(Level):
    """A row for each pair of nodes that is asked about: pairs come with a batch, not with the graphs.

    Example:
        >>> LinkLevel().row_ptr(torch.tensor([0, 3]))
        tensor([0, 0])
    """

    name = "link"
    shares_graphs = True
    reads_pairs = True
    split_hint = "a link task splits the edges of one graph at random unless a column split, or time, says how"
    kinds = LINK_KINDS

    def row_ptr(self, ptr: Tensor) -> Tensor:
        return torch.zeros_like(ptr)

    def readout(self, options: ReadoutOptions) -> nn.Module:
        return NodeReadout(None if options.joined else options.trajectories)


GRAPH, NODE, LINK = GraphLevel(), NodeLevel(), LinkLevel()
LEVELS: dict[str, Level] = {level.name: level for level in (GRAPH, NODE, LINK)}
