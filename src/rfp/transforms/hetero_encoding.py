"""The encoding of every node type of a ``HeteroData`` as a PyG transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from rfp.hetero import encode_hetero
from rfp.settings import Settings
from rfp.transforms.node_encoding import attach, tell_slices


@functional_transform("add_hetero_random_feature_propagation_pe")
@dataclass(frozen=True, repr=False)
class AddHeteroRandomFeaturePropagationPE(BaseTransform, Settings):  # type: ignore[misc]  # PyG has no types here
    """Adds the encoding along each relation to the nodes of a ``HeteroData`` (:func:`rfp.hetero.encode_hetero`).

    Args:
        attr_name: Where it is stored in each node type; ``None`` concatenates it to ``x``.
        relations: ``"edge_types"``, or a list of edge types, metapaths and ``"homogeneous"``.

    All other arguments are the fields of :class:`rfp.Settings`.

    Example:
        >>> import torch
        >>> from torch_geometric.data import HeteroData
        >>> data = HeteroData()
        >>> data["author"].num_nodes, data["paper"].num_nodes = 2, 3
        >>> data["author", "writes", "paper"].edge_index = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]])
        >>> transform = AddHeteroRandomFeaturePropagationPE(num_channels=2, num_steps=1, attr_name="pe")
        >>> transform(data)["paper"].pe.shape
        torch.Size([3, 4])
    """

    attr_name: str | None = "random_feature_propagation_pe"
    relations: Any = "edge_types"

    def forward(self, data: Any) -> Any:
        """Encode a ``HeteroData``, or each of a list."""
        if isinstance(data, list | tuple):
            return [self(one) for one in data]
        for node_type, rows in encode_hetero(data, Settings.of(self, {}), relations=self.relations).items():
            tell_slices(data, attach(data[node_type], rows, self.attr_name), node_type)
        return data

    def __repr__(self) -> str:
        shown = f"{Settings.of(self, {}).as_text()}, attr_name={self.attr_name!r}, relations={self.relations!r}"
        return f"{type(self).__name__}({shown})"
