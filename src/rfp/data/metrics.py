r"""Scores of predictions: accuracy, ROC-AUC, average precision, mean absolute error; Hits@K and MRR of links.

All take predictions and labels of the same rows and give a Python float; they run on the device the tensors are on.
For several yes/no targets, a score is the mean over the targets that have both answers among their known labels, as in
OGB; a label of NaN is unknown and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rfp.data.link_metrics import LINK_METRICS, SHARED
from rfp.errors import ArgumentError


def accuracy(prediction: Tensor, label: Tensor) -> float:
    """Fraction of right answers.

    Args:
        prediction: ``[rows, classes]`` scores, or ``[rows, targets]`` scores of yes (positive means yes).
        label: ``[rows]`` int64, or ``[rows, targets]`` of 0, 1 and NaN.

    Example:
        >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0], [5.0, 1.0]]), torch.tensor([0, 1, 1]))
        0.6666666666666666
    """
    _check_rows(prediction, label)
    if not label.is_floating_point():
        if label.dim() != 1 or prediction.dim() != 2:
            raise ArgumentError(
                f"expected predictions [rows, classes] and labels [rows], got {list(prediction.shape)} and "
                f"{list(label.shape)}"
            )
        return (prediction.argmax(dim=1) == label).double().mean().item()
    known = ~label.isnan()
    return ((prediction > 0) == (label > 0.5))[known].double().mean().item()


def roc_auc(prediction: Tensor, label: Tensor) -> float:
    r"""Probability that a random yes scores above a random no, ties counting half (Mann-Whitney).

    .. math:: \frac{\sum_{i: y_i = 1} \mathrm{rank}_i - n_1 (n_1 + 1) / 2}{n_1 n_0}

    Args:
        prediction: ``[rows, targets]`` scores of any scale.
        label: ``[rows, targets]`` of 0, 1 and NaN.

    Costs :math:`O(n \log n)` for each target.

    Example:
        >>> roc_auc(torch.tensor([[0.1], [0.4], [0.35], [0.8]]), torch.tensor([[0.0], [0.0], [1.0], [1.0]]))
        0.75
    """
    return _mean_over_targets(_one_roc_auc, prediction, label)


def average_precision(prediction: Tensor, label: Tensor) -> float:
    r"""Area under the precision-recall curve as a sum of steps, :math:`\sum_t (R_t - R_{t-1}) P_t`, ties together.

    Args:
        prediction: ``[rows, targets]`` scores of any scale.
        label: ``[rows, targets]`` of 0, 1 and NaN.

    Costs :math:`O(n \log n)` for each target.

    Example:
        >>> scores, answers = torch.tensor([[0.1], [0.4], [0.35], [0.8]]), torch.tensor([[0.0], [0.0], [1.0], [1.0]])
        >>> round(average_precision(scores, answers), 4)  # 1/2 · 1 + 1/2 · 2/3
        0.8333
    """
    return _mean_over_targets(_one_average_precision, prediction, label)


def mae(prediction: Tensor, label: Tensor) -> float:
    """Mean absolute error over rows and targets.

    Example:
        >>> mae(torch.tensor([[1.0], [2.0]]), torch.tensor([[1.5], [0.0]]))
        1.25
    """
    _check_rows(prediction, label)
    return (prediction.double() - label.double()).abs().mean().item()


@dataclass(frozen=True)
class Metric:
    """A score, the kinds of task it is for, and in which direction it is better."""

    function: Callable[[Tensor, Tensor], float]
    kinds: tuple[str, ...]
    higher_is_better: bool
    # Of links: the negatives it is about; uniform ones are shared by all positives, hard ones belong to one.
    negatives: str = "uniform"

    def __call__(self, prediction: Tensor, label: Tensor, kind: str) -> float:
        """The score; of a link's label (answer, group) most read the answers and the shared negatives alone."""
        if kind == "link" and self.function in _OF_ANSWERS:
            shared = (label[:, 0] > 0.5) | (label[:, 1] == SHARED)
            if bool((shared & (label[:, 0] <= 0.5)).any()):
                prediction, label = prediction[shared], label[shared]
            label = label[:, :1]
        return self.function(prediction, label)

    def can_score(self, label: Tensor) -> bool:
        """Whether these labels (of no link) let it tell a good prediction from a bad one."""
        return self.function not in _OF_ANSWERS or bool(_have_both_answers(label).any())


_OF_ANSWERS = (roc_auc, average_precision)
METRICS: dict[str, Metric] = {
    "accuracy": Metric(accuracy, ("classification", "binary"), True),
    "roc_auc": Metric(roc_auc, ("binary", "link"), True),
    "average_precision": Metric(average_precision, ("binary", "link"), True),
    "mae": Metric(mae, ("regression",), False),
    **{
        name: Metric(function, ("link",), True, "hard" if name == "mrr" else "uniform")
        for name, function in LINK_METRICS.items()
    },
}


def _check_rows(prediction: Tensor, label: Tensor) -> None:
    same_shape = not label.is_floating_point() or prediction.shape == label.shape
    if len(prediction) != len(label) or not len(label) or not same_shape:
        raise ArgumentError(
            f"predictions and labels must be of the same rows (at least one) and targets, got shapes "
            f"{list(prediction.shape)} and {list(label.shape)}"
        )


def _mean_over_targets(one: Callable[[Tensor, Tensor], Tensor], prediction: Tensor, label: Tensor) -> float:
    if prediction.shape != label.shape or label.dim() != 2:
        raise ArgumentError(
            f"expected predictions and labels [rows, targets], got {list(prediction.shape)} and {list(label.shape)}"
        )
    both = _have_both_answers(label)
    if not bool(both.any()):
        raise ArgumentError("the score needs a target with both answers (0 and 1) among its labels; none has")
    scores = []
    for score, answer in zip(prediction.T[both], label.T[both], strict=True):
        known = ~answer.isnan()
        scores.append(one(score[known].double(), answer[known] > 0.5))
    return torch.stack(scores).mean().item()


def _have_both_answers(label: Tensor) -> Tensor:  # [rows, targets] -> [targets]
    """Whether a yes and a no are among the known labels of each target."""
    return (label > 0.5).any(dim=0) & (label <= 0.5).any(dim=0)


def _ties(score: Tensor) -> tuple[Tensor, Tensor]:
    """For each row the number of its distinct score, in ascending order, and how many rows have each of them."""
    _, group, size = torch.unique(score, return_inverse=True, return_counts=True)
    return group, size


def _one_roc_auc(score: Tensor, yes: Tensor) -> Tensor:
    group, size = _ties(score)  # ascending
    last = size.cumsum(0).double()
    rank = last - (size - 1) / 2  # the mean rank of those that tie
    positive = yes.sum().double()
    return (rank[group][yes].sum() - positive * (positive + 1) / 2) / (positive * (len(yes) - positive))


def _one_average_precision(score: Tensor, yes: Tensor) -> Tensor:
    group, size = _ties(-score)  # best first
    hits = torch.zeros(len(size), dtype=torch.double, device=score.device).index_add_(0, group, yes.double())
    precision = hits.cumsum(0) / size.cumsum(0)
    return (hits * precision).sum() / yes.sum()
