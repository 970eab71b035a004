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


def find_factors(storage: Tensor, settings: Settings, graph: Graph, *, drawn: bool) -> Tensor:
    """The factors of all steps, ``[O, P + 1, B, k, k]`` float64, as :func:`rfp.new_nodes.step_factors` says.

    Args:
        storage: States of all steps, ``[n, B, O, P + 1, k]``.
        settings: What they were computed with.
        graph: Their graph, one.
        drawn: Whether the features were drawn.
    """
    _, b, o, length, k = storage.shape
    identity = torch.eye(k, dtype=torch.float64, device=graph.device).expand(b, k, k)
    factors = identity.expand(o, length, b, k, k).clone()
    find = _finder(settings)
    if drawn and settings.start != "drawn":
        begun = storage[:, :, 0, 0].transpose(0, 1)
        factors[:, 0] = FACTORS[STARTS[settings.start]](draw_features(settings, graph).double(), begun.double())
    if settings.normalization == "none":
        return factors
    for i, choice in enumerate(settings.operators):
        operator = as_operator(choice, graph, torch.float64)
        for p in range(settings.normalize_every, length, settings.normalize_every):
            before, after = (storage[:, :, i, q].transpose(0, 1).double() for q in (p - 1, p))
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
