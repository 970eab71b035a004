"""The encoding of every node type as a module: new features at every training step, a fixed draw in evaluation."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor, nn

from rfp.hetero import encode_hetero, hetero_widths
from rfp.nn.counted_draws import CountedDraws
from rfp.settings import Arguments, Settings, shows_settings


class HeteroRandomFeaturePropagation(CountedDraws, nn.Module):
    """Encodes the node types of a ``HeteroData`` along relations (:func:`rfp.hetero.encode_hetero`).

    Training draws new features at every call and evaluation one fixed draw, as
    :class:`rfp.nn.RandomFeaturePropagation`; the number of draws made is in ``state_dict``.

    Args:
        settings: All arguments in one :class:`rfp.Settings`, or as keywords; operators by name.
        relations: ``"edge_types"``, or a list of edge types, metapaths and ``"homogeneous"``.

    Example:
        >>> from torch_geometric.data import HeteroData
        >>> data = HeteroData()
        >>> data["author"].num_nodes, data["paper"].num_nodes = 2, 3
        >>> data["author", "writes", "paper"].edge_index = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]])
        >>> layer = HeteroRandomFeaturePropagation(num_channels=2, num_steps=3)
        >>> layer.out_channels(data), layer(data)["author"].shape
        ({'author': 8, 'paper': 8}, torch.Size([1, 2, 8]))
    """

    @shows_settings(Arguments)
    def __init__(
        self, settings: Settings | None = None, *, relations: Any = "edge_types", **arguments: Unpack[Arguments]
    ) -> None:
        super().__init__()
        self.settings, self.relations, self.num_draws = Settings.of(settings, arguments), relations, 0

    def out_channels(self, data: Any) -> dict[str, int]:
        """The width of each node type's encoding."""
        return hetero_widths(data, self.settings, self.relations)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    @torch.no_grad()
    def forward(self, data: Any) -> dict[str, Tensor]:
        """Encode a ``HeteroData`` or a batch of them: ``[B, n_t, C_t]`` for each node type."""
        settings = self.next_training_settings() if self.training else self.settings
        found = encode_hetero(data, settings, relations=self.relations)
        return {
            node_type: rows[None] if settings.num_trajectories == 1 else rows.transpose(0, 1)
            for node_type, rows in found.items()
        }

    def extra_repr(self) -> str:
        return f"{self.settings.as_text()}, relations={self.relations!r}"
