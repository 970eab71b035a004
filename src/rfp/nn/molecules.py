"""Encoders of categorical atom and bond features: ZINC and OGB molecules."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rfp.errors import ArgumentError

# Number of values of each categorical feature. ZINC: atom type, bond type (0 is unused padding in the released files).
# OGB: atomic number, chirality, degree, charge, hydrogens, radicals, hybridisation, aromatic, ring; bond type, stereo,
# conjugated.
ATOM_FEATURES: dict[str, tuple[int, ...]] = {"zinc": (28,), "ogb": (119, 5, 12, 12, 10, 6, 6, 2, 2)}
BOND_FEATURES: dict[str, tuple[int, ...]] = {"zinc": (4,), "ogb": (5, 6, 2)}


class CategoricalEncoder(nn.Module):
    r"""The sum of one embedding for each categorical feature, :math:`\sum_f E_f[x_f]`.

    Computed as one product of the 0/1 matrix of values with the stacked tables: with few values and many rows (bond
    types) the gradient of a lookup would be a contended sum over rows, that of a product is another product, and
    deterministic.

    Args:
        sizes: Number of values of each feature.
        channels: d.

    Shapes:
        Integers ``[n]`` or ``[n, len(sizes)]`` to ``[n, d]``.

    Example:
        >>> CategoricalEncoder(ATOM_FEATURES["ogb"], 8)(torch.zeros(3, 9, dtype=torch.long)).shape
        torch.Size([3, 8])
    """

    offsets: Tensor

    def __init__(self, sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.weight = nn.Parameter(torch.empty(sum(sizes), channels))
        self.register_buffer("offsets", torch.tensor([0, *sizes[:-1]]).cumsum(0), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Each table as its own embedding (Glorot uniform)."""
        for table in torch.split(self.weight.data, list(self.sizes)):
            nn.init.xavier_uniform_(table)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 1:
            x = x[:, None]
        if x.dim() != 2 or x.size(1) != len(self.sizes) or x.is_floating_point():
            raise ArgumentError(
                f"expected {len(self.sizes)} integer features a row, got {x.dtype} of shape {list(x.shape)}"
            )
        if x.device.type == "cpu" and x.numel():  # on a GPU a check would wait for it
            self._check(x)
        chosen = torch.zeros(x.size(0), self.weight.size(0), dtype=self.weight.dtype, device=x.device)
        return chosen.scatter_(1, x + self.offsets, 1.0) @ self.weight

    def _check(self, x: Tensor) -> None:
        low, high = x.amin(0).tolist(), x.amax(0).tolist()
        for feature, (least, most, size) in enumerate(zip(low, high, self.sizes, strict=True)):
            if least < 0 or most >= size:
                bad = least if least < 0 else most
                raise ArgumentError(f"feature {feature} must be in 0..{size - 1}, got {bad}")

    def extra_repr(self) -> str:
        return f"sizes={self.sizes}, channels={self.weight.size(1)}"
