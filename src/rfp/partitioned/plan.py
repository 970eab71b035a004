"""What every task of a partitioned encoding knows: the folder, the graph, the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from rfp.operators import parse_name
from rfp.partitioned.layout import Layout, StoredGraph, panels


@dataclass(frozen=True)
class StoredOperator:
    """An operator as the tasks build it.

    Args:
        base: A key of :data:`rfp.operators.OPERATORS`.
        side: The matrix whose entries it has, of :data:`rfp.partitioned.layout.SIDES`.
        transposed: Whether those are the entries of its transpose.
    """

    base: str
    side: str = ""
    transposed: bool = False


def stored_operator(name: str, symmetric: bool) -> StoredOperator:
    """The operator of a name, of a graph that is symmetric or not.

    >>> stored_operator("random_walk.T^2", symmetric=True)
    StoredOperator(base='random_walk', side='', transposed=True)
    >>> stored_operator("adjacency.T", symmetric=False)
    StoredOperator(base='adjacency', side='T', transposed=True)
    """
    parts = parse_name(name)
    transposed = parts["transposed"] is not None
    side = "" if symmetric else "sym" if parts["sym"] else "T" if transposed else ""
    return StoredOperator(str(parts["base"]), side, transposed)


@dataclass(frozen=True)
class Plan:
    """What every task needs to know; small, and the same for the whole encoding.

    Args:
        folder: Folder of the encoding, as the workers see it.
        graph: From the manifest.
        num_channels: k.
        num_trajectories: B.
        panel: Channels of a panel.
        distribution: Distribution of the features.
        seed: Seed of the features.
        dtype: Name of the type of the states.
        operators: Without their powers.
        device: ``"cuda"`` for workers that have a GPU to multiply on it.
    """

    folder: str
    graph: StoredGraph
    num_channels: int
    num_trajectories: int
    panel: int
    distribution: str
    seed: int
    dtype: str
    operators: tuple[StoredOperator, ...]
    device: str = "cpu"

    @property
    def layout(self) -> Layout:
        return Layout(Path(self.folder))

    @property
    def blocks(self) -> Sequence[int]:
        return range(self.graph.num_blocks)

    @property
    def panels(self) -> list[slice]:
        return panels(self.num_channels, self.panel)

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    def files(self, name: str, block: int) -> list[Path]:
        """The files of a state's block, panel by panel."""
        return [self.layout.block_file(name, panel, block) for panel in range(len(self.panels))]
