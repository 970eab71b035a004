"""Return probabilities of random walks for graphs of any size, as a transform."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from rfp import products
from rfp.graph import Graph
from rfp.transforms.node_encoding import NodeEncodingTransform


@functional_transform("add_estimated_random_walk_pe")
@dataclass(frozen=True, repr=False)
class AddEstimatedRandomWalkPE(NodeEncodingTransform):
    r"""Adds return probabilities of random walks (:func:`rfp.products.return_probabilities`), ``[N, K]``.

    This is what PyG's ``AddRandomWalkPE`` adds, for graphs on which that cannot run: its matrix powers fill up, with n²
    numbers on a connected graph. Here the probabilities are estimated from products of k random features, in O(K m k)
    time and O(n k) memory. The relative error of an even power is about :math:`\sqrt{2 / (k B)}`. Odd powers (0 on
    bipartite graphs) have errors of the same size. The result is exact for graphs of at most k nodes, and for walks of
    one and (undirected) two steps. Edge weights are transition probabilities after division by the weighted degree.

    Args:
        walk_length: K.
        num_channels: k.
        num_trajectories: B, the number of independent draws that are averaged.
        seed: Any integer.
        attr_name: Where the encoding is stored; ``None`` concatenates it to ``x``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> ring = Data(edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), num_nodes=3)
        >>> AddEstimatedRandomWalkPE(walk_length=3)(ring).estimated_random_walk_pe[0].round(decimals=4).abs()
        tensor([0.0000, 0.5000, 0.2500])
    """

    walk_length: int = 16
    num_channels: int = 64
    num_trajectories: int = 1
    seed: int = 0
    attr_name: str | None = "estimated_random_walk_pe"

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        estimate = products.return_probabilities(
            graph,
            walk_length=self.walk_length,
            num_channels=self.num_channels,
            num_trajectories=self.num_trajectories,
            seed=self.seed,
        )
        return estimate.value

    def width(self, in_channels: int) -> int:
        return self.walk_length
