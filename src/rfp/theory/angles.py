"""Principal angles: how far two subspaces are from each other."""

from __future__ import annotations

import torch
from torch import Tensor

from rfp.errors import ArgumentError


def principal_angles(U: Tensor, V: Tensor) -> Tensor:
    r"""The principal angles between the column spaces of two matrices, ascending, in radians.

    With orthonormal bases :math:`Q_U, Q_V`, the cosines are the singular values of :math:`Q_U^\top Q_V` and the sines
    those of :math:`Q_V - Q_U Q_U^\top Q_V`. The cosine cannot tell an angle below :math:`\sqrt\epsilon` from zero, the
    sine one near a right angle, so each angle is read from the one that is accurate [1]_.

    Args:
        U: ``[n, k]`` of full column rank.
        V: ``[n, l]`` of full column rank, with ``l <= k``.

    Returns:
        ``[l]`` float64, between 0 and π/2. The last is the distance between the spaces when ``k = l``.

    Costs O(n k²), in float64.

    Example:
        >>> axes = torch.eye(3)
        >>> principal_angles(axes[:, :2], axes[:, 1:]).tolist() == [0.0, torch.pi / 2]
        True

    References:
        .. [1] Å. Björck, G. Golub. Numerical methods for computing angles between linear subspaces. 1973.
    """
    if U.dim() != 2 or V.dim() != 2 or len(U) != len(V) or V.size(1) > U.size(1) or U.size(1) > len(U):
        raise ArgumentError(
            f"principal angles need U [n, k] and V [n, l] with l <= k <= n, got {list(U.shape)} and {list(V.shape)}"
        )
    u = torch.linalg.qr(U.double()).Q
    v = torch.linalg.qr(V.double()).Q
    cosine = torch.linalg.svdvals(u.T @ v).clamp(max=1)  # descending: angles ascending
    sine = torch.linalg.svdvals(v - u @ (u.T @ v)).flip(0).clamp(max=1)  # ascending
    return torch.where(sine.square() < 0.5, sine.asin(), cosine.acos())
