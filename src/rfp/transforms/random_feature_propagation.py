"""The encoding as a PyG transform."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data.datapipes import functional_transform

from rfp.encode import encode_with
from rfp.features import Distribution
from rfp.graph import Graph
from rfp.normalization import NormalizationChoice
from rfp.settings import Settings
from rfp.transforms.node_encoding import NodeEncodingTransform


@functional_transform("add_random_feature_propagation_pe")
class AddRandomFeaturePropagationPE(NodeEncodingTransform):
    r"""Adds the trajectory :math:`t = r \oplus a^{(1)} \oplus \dots \oplus a^{(P)}` of random feature propagation to
    each node (`Graph Positional Encoding via Random Feature Propagation <https://arxiv.org/abs/2303.02918>`_, Eq.
    1-3).

    Takes a ``Data``, a ``Batch``, or a list of ``Data`` (one batched call for all of them); works in ``T.Compose``
    and as ``pre_transform``; :meth:`~rfp.transforms.node_encoding.NodeEncodingTransform.apply_to` encodes an
    in-memory data set at once. The draw depends on the seed and on each graph's own content, so a graph is encoded
    the same alone, in any batch and in any order.

    A precomputed attribute survives ``NeighborLoader``: it is sliced with the nodes. Recomputing on the sampled
    subgraph is another encoding, of another graph.

    Args:
        num_channels: k.
        num_steps: P.
        operators: Names, matrices or callables; see :mod:`rfp.operators`.
        normalization: ``"qr"``, ``"l2"``, ``"none"``, ``"inverse_gram"`` or a callable.
        normalize_every: w.
        num_trajectories: B.
        distribution: ``"normal"``, ``"rademacher"``, ``"uniform"`` or a callable.
        start: How the features begin: ``"drawn"``, ``"unit"`` or ``"orthonormal"``.
        seed: Any integer.
        dtype: Precision of the computation.
        storage_dtype: Precision of the stored attribute, if another.
        backend: See :func:`rfp.encode`.
        strict: Raise where a column is dependent instead of setting it to zero.
        cache: Folder of stored encodings, or ``None``.
        attr_name: Where the encoding is stored; ``None`` concatenates it to ``x``.

    Shapes:
        The attribute is node-first, as PyG's batching needs: ``[N, C]`` for one trajectory, ``[N, B, C]`` for several,
        with C = O (P + 1) k. With ``attr_name=None`` the trajectories are laid side by side, ``[N, F + B C]``.

    Example:
        >>> from torch_geometric.data import Data
        >>> ring = Data(edge_index=torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]]), num_nodes=3)
        >>> transform = AddRandomFeaturePropagationPE(num_channels=2, num_steps=3)
        >>> transform(ring).random_feature_propagation_pe.shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        num_channels: int = 16,
        *,
        num_steps: int = 16,
        operators: Sequence[Any] = ("normalized_adjacency",),
        normalization: NormalizationChoice = "qr",
        normalize_every: int = 1,
        num_trajectories: int = 1,
        distribution: Distribution = "normal",
        start: str = "drawn",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        storage_dtype: torch.dtype | None = None,
        backend: str = "auto",
        strict: bool = False,
        cache: str | Path | None = None,
        attr_name: str | None = "random_feature_propagation_pe",
    ) -> None:
        self.settings = Settings(
            num_channels=num_channels,
            num_steps=num_steps,
            operators=operators,  # type: ignore[arg-type]  # Settings makes it a tuple
            normalization=normalization,
            normalize_every=normalize_every,
            num_trajectories=num_trajectories,
            distribution=distribution,
            start=start,
            seed=seed,
            dtype=dtype,
            storage_dtype=storage_dtype,
            backend=backend,
            strict=strict,
        )
        self.cache = cache
        self.attr_name = attr_name

    def encode_nodes(self, graph: Graph, x: Tensor | None) -> Tensor:
        return encode_with(self.settings, graph, cache=self.cache).node_first()

    def width(self, in_channels: int) -> int:
        return self.settings.width

    def arguments(self) -> str:
        return f"{self.settings.as_text()}, cache={self.cache!r}"
