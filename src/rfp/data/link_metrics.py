r"""Scores of link prediction: Hits@K and the mean reciprocal rank.

A label is a row ``(answer, group)``. Positives have the answer 1 and a group number each; a negative has the answer 0
and the group of the positive that it is the rival of, or -1 where it is the rival of all. Both scores count ties as
half: a model that gives all pairs the same score knows nothing, and neither score may say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rfp.errors import ArgumentError

HITS_AT = (10, 20, 50, 100)
SHARED = -1


def hits_at(k: int, prediction: Tensor, label: Tensor) -> float:
    r"""The fraction of positives that score above the k-th best negative.

    A positive that ties with it counts for the part of the tied negatives that leaves it among the best k if ties are
    broken at random: with a negatives above and t tied ones, :math:`\min(1, \max(0, (k - a) / (t + 1)))`. The rivals
    are the shared negatives, or all where there are none.

    Args:
        k: K. With fewer negatives than K every positive is a hit.
        prediction: ``[rows, 1]``, scores of any scale.
        label: ``[rows, 2]``, see the module.

    Example:
        >>> label = torch.tensor([[1.0, 0], [1, 1], [0, -1], [0, -1]])
        >>> hits_at(1, torch.tensor([[0.9], [0.4], [0.5], [0.1]]), label)
        0.5
    """
    positive, negative, _ = _parts(prediction, label)
    ordered = negative.sort().values
    below_or_tied = torch.searchsorted(ordered, positive, right=True)
    below = torch.searchsorted(ordered, positive)
    above, tied = len(ordered) - below_or_tied, below_or_tied - below
    return ((k - above).double() / (tied + 1)).clamp(0, 1).mean().item()


def mean_reciprocal_rank(prediction: Tensor, label: Tensor) -> float:
    r"""The mean of 1 / rank of each positive among its own negatives, :math:`1 + a + t / 2` with ties.

    The rivals are the negatives of its group, or the shared ones where no negative has a group.

    Args:
        prediction: ``[rows, 1]``.
        label: ``[rows, 2]``, see the module.

    Costs O(rows log rows).

    Example:
        >>> label = torch.tensor([[1.0, 0], [1, 1], [0, 0], [0, 1], [0, 1]])
        >>> mean_reciprocal_rank(torch.tensor([[0.9], [0.4], [0.5], [0.7], [0.1]]), label)
        0.75
    """
    positive, negative, group = _parts(prediction, label, own=True)
    if not len(group):
        ordered = negative.sort().values
        below_or_tied = torch.searchsorted(ordered, positive, right=True)
        below = torch.searchsorted(ordered, positive)
        rank = 1 + (len(ordered) - below_or_tied).double() + (below_or_tied - below) / 2
        return (1 / rank).mean().item()
    rival = positive[group]
    beaten = (negative > rival).double() + (negative == rival).double() / 2
    rank = torch.ones(len(positive), dtype=torch.double, device=prediction.device).index_add_(0, group, beaten)
    return (1 / rank).mean().item()


def _parts(prediction: Tensor, label: Tensor, own: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of the positives in the order of their groups, of their rivals, and with ``own`` the rivals' groups."""
    if label.dim() != 2 or label.size(1) != 2 or prediction.shape != (len(label), 1):
        raise ArgumentError(
            f"expected predictions [rows, 1] and labels [rows, 2] (answer, group), got {list(prediction.shape)} and "
            f"{list(label.shape)}"
        )
    score, answer, group = prediction[:, 0].double(), label[:, 0] > 0.5, label[:, 1].long()
    positive, negative = score[answer][group[answer].argsort()], score[~answer]
    if not len(positive) or not len(negative):
        raise ArgumentError("links are ranked against negatives: there must be at least one pair of each kind")
    of_negative = group[~answer]
    shared = of_negative == SHARED
    if own and not bool(shared.all()):
        return positive, negative[~shared], of_negative[~shared]
    return positive, negative[shared] if bool(shared.any()) else negative, of_negative[:0]


# Name -> score of (prediction [rows, 1], label [rows, 2]).
LINK_METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {
    **{f"hits@{k}": partial(hits_at, k) for k in HITS_AT},
    "mrr": mean_reciprocal_rank,
}
