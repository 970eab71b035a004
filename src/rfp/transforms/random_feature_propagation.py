"""The encoding as a PyG transform."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from rfp.encode import encode
from rfp.graph import Graph
from rfp.settings import Settings
from rfp.transforms.node_encoding import NodeEncodingTransform


@functional_transform("add_random_feature_propagation_pe")
@dataclass(frozen=True, repr=False)
class AddRandomFeaturePropagationPE(NodeEncodingTransform, Settings):
    r"""Adds the trajectory :math:`t = r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}` of random feature propagation to
    each node (`Graph Positional Encoding via Random Feature Propagation <https://arxiv.org/abs/2303.02918>`_, Eq.
    1-3).

    Takes a ``Data``, a ``Batch``, or a list of ``Data``, which is encoded in one batched call. Works in ``T.Compose``
    and as ``pre_transform``. :meth:`~rfp.transforms.node_encoding.NodeEncodingTransform.apply_to` encodes an in-memory
    data set at once. The draw depends on the seed and on each graph's own content, so a graph gets the same encoding
    alone, in any batch and in any order.

    A precomputed attribute survives ``NeighborLoader``, which slices it with the nodes. Encoding the sampled subgraph
    instead gives another encoding, of another graph.

    Args:
        attr_name: Where the encoding is stored; ``None`` concatenates it to ``x``.

    All other arguments are the fields of :class:`rfp.Settings`, which explains each.

    Shapes:
        The attribute is node-first, as PyG's batching needs: ``[N, C]`` for one trajectory, ``[N, B, C]`` for several,
        with C = O (P + 1) k. With ``attr_name=None`` the trajectories are side by side, ``[N, F + B C]``.

    Example:
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> ring = Data(edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), num_nodes=3)
        >>> transform = AddRandomFeaturePropagationPE(num_channels=2, num_steps=3)
        >>> transform(ring).random_feature_propagation_pe.shape
        torch.Size([3, 8])
    """

    attr_name: str | None = "random_feature_propagation_pe"

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return encode(graph, Settings.of(self, {})).node_first()

    def width(self, in_channels: int) -> int:
        return self.num_columns
