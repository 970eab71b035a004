r"""Rows of nodes that arrive after the encoding, by the stored factor of each step.

Every normalisation here is a product with a k x k matrix, :math:`a^{(p)} = (S a^{(p-1)}) W_p`, and so is the start,
:math:`a^{(0)} = r W_0`. Those matrices are what a node needs besides its neighbours to be encoded like the others: it
is placed in the basis that is there, instead of in a new one.

* :func:`extend` computes the rows of new nodes and keeps all others as they are;
* :func:`replay` computes all rows of a larger or changed graph with the stored factors;
* :func:`save` and :func:`load` keep what both need in a file.

The methods of a :class:`rfp.Trajectory` are the same.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from rfp.trajectory import Trajectory
from rfp.trajectory.arrivals import extend
from rfp.trajectory.replay import replay
from rfp.trajectory.state_file import save_trajectory as save
from rfp.trajectory.step_factors import find_factors

__all__ = ["extend", "load", "replay", "save", "step_factors"]


def load(path: str | Path, device: torch.device | str = "cpu") -> Trajectory:
    """Read what :func:`save` wrote.

    Nothing is unpickled and no more is read than the file holds. A file that is damaged, or not one of these, is
    refused in one line.

    Args:
        path: The file.
        device: Where the tensors go.
    """
    return Trajectory.load(path, device)


def step_factors(trajectory: Trajectory) -> Tensor:
    r"""The factors of all steps, ``[O, P + 1, B, k, k]`` float64.

    .. math:: a^{(p)} = (S a^{(p-1)}) W_p, \qquad a^{(0)} = r W_0

    They are found from the states alone, so those of any backend will do. With :math:`b = S a^{(p-1)}`:
    :math:`W = I` where nothing is normalised; :math:`W_{jj} = 1 / \lVert b_j \rVert` for ``l2``; for ``qr``
    :math:`W = R^{-1}`, :math:`R = q^\top b`, on the columns that were kept; :math:`W = (b^\top b)^{+}` for
    ``inverse_gram``. The rows and columns of a column that was set to zero are zero.

    Costs one more product with every operator and O(n k²) a step.
    """
    settings, graph = trajectory.origin()
    return find_factors(trajectory.storage, settings, graph, drawn=trajectory.drawn)
