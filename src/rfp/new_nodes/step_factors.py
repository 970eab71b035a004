r"""The k x k matrices :math:`W_p` of a trajectory, from its states."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rfp.backends.problem import draw_features, fold, unfold
from rfp.errors import ArgumentError
from rfp.graph import Graph
from rfp.operators import as_operator
from rfp.settings import STARTS, Settings
from rfp.trajectory import Trajectory


def origin(trajectory: Trajectory) -> tuple[Settings, Graph]:
    """The settings and the graph of a trajectory, which must be one graph's and one of :func:`rfp.encode`."""
    if trajectory.settings is None or trajectory.graph is None:
        raise ArgumentError(
            "the trajectory does not know its graph and arguments; make it with rfp.encode, or read one with "
            "rfp.Trajectory.load"
        )
    if trajectory.graph.num_graphs != 1:
        raise ArgumentError(
            f"new nodes are added to one graph, but this is a batch of {trajectory.graph.num_graphs}; encode the graph "
            "by itself (its rows are the same)"
        )
    return trajectory.settings, trajectory.graph


def step_factors(trajectory: Trajectory) -> Tensor:
    r"""The factors of all steps, ``[O, P + 1, B, k, k]`` float64.

    .. math:: a^{(p)} = (S a^{(p-1)}) W_p, \qquad a^{(0)} = r W_0

    They are found from the states alone, so those of any backend will do. With :math:`b = S a^{(p-1)}`:
    :math:`W = I` where nothing is normalised; :math:`W_{jj} = 1 / \lVert b_j \rVert` for ``l2``; for ``qr``
    :math:`W = R^{-1}`, :math:`R = q^\top b`, on the columns that were kept; :math:`W = (b^\top b)^{+}` for
    ``inverse_gram``. The rows and columns of a column that was set to zero are zero.

    Costs one more product with every operator and O(n k²) a step.
    """
    settings, graph = origin(trajectory)
    _, b, o, length, k = trajectory.storage.shape
    identity = torch.eye(k, dtype=torch.float64, device=graph.device).expand(b, k, k)
    factors = identity.expand(o, length, b, k, k).clone()
    find = _finder(settings)
    if trajectory.drawn and settings.start != "drawn":
        begun = trajectory.storage[:, :, 0, 0].transpose(0, 1)
        factors[:, 0] = FACTORS[STARTS[settings.start]](draw_features(settings, graph).double(), begun.double())
    if settings.normalization == "none":
        return factors
    for i, choice in enumerate(settings.operators):
        operator = as_operator(choice, graph, torch.float64)
        for p in range(settings.normalize_every, length, settings.normalize_every):
            before, after = (trajectory.storage[:, :, i, q].transpose(0, 1).double() for q in (p - 1, p))
            factors[i, p] = find(unfold(operator @ fold(before).contiguous(), before), after)
    return factors


def _finder(settings: Settings) -> Callable[[Tensor, Tensor], Tensor]:
    if not isinstance(settings.normalization, str):
        raise ArgumentError(
            "normalization is a function, whose effect on new nodes is not known; it must be one of "
            f"{', '.join(map(repr, FACTORS))}"
        )
    return FACTORS[settings.normalization]


def _kept(q: Tensor) -> Tensor:  # [B, n, k] -> [B, k]
    return (q != 0).any(1)


def _none(b: Tensor, q: Tensor) -> Tensor:
    return torch.eye(b.size(2), dtype=b.dtype, device=b.device).expand(b.size(0), -1, -1)


def _l2(b: Tensor, q: Tensor) -> Tensor:
    kept = _kept(q)
    return torch.diag_embed(torch.where(kept, 1 / torch.where(kept, torch.linalg.vector_norm(b, dim=1), 1.0), 0.0))


def _qr(b: Tensor, q: Tensor) -> Tensor:
    factor = b.new_zeros(b.size(0), b.size(2), b.size(2))
    for one, kept in enumerate(_kept(q)):
        columns = kept.nonzero()[:, 0]
        r = (q[one][:, columns].T @ b[one][:, columns]).triu()
        inverse = torch.linalg.solve_triangular(r, torch.eye(len(columns), dtype=r.dtype, device=r.device), upper=True)
        factor[one, columns[:, None], columns] = inverse
    return factor


def _inverse_gram(b: Tensor, q: Tensor) -> Tensor:
    real = b * _kept(q)[:, None]
    factor: Tensor = torch.linalg.pinv(real.mT @ real, hermitian=True, rtol=1e-12)
    return factor


# Normalisation -> W [B, k, k] from b = S a and N(b), both [B, n, k] float64.
FACTORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "none": _none,
    "l2": _l2,
    "qr": _qr,
    "inverse_gram": _inverse_gram,
}
