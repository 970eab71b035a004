"""Scores by hand, and by the definition written as a double loop."""

import itertools

import pytest
import torch

from rfp.data.metrics import METRICS, accuracy, average_precision, mae, roc_auc
from rfp.errors import ArgumentError


def pairwise_auc(score: list[float], yes: list[bool]) -> float:
    """The definition: over all pairs of a yes and a no, the fraction ranked rightly."""
    ups = [s for s, y in zip(score, yes, strict=True) if y]
    downs = [s for s, y in zip(score, yes, strict=True) if not y]
    points = [1.0 if u > d else 0.5 if u == d else 0.0 for u, d in itertools.product(ups, downs)]
    return sum(points) / len(points)


def stepwise_precision(score: list[float], yes: list[bool]) -> float:
    """The definition: precision at each distinct threshold, weighted with the recall it adds."""
    total, before = 0.0, 0
    for threshold in sorted(set(score), reverse=True):
        kept = [y for s, y in zip(score, yes, strict=True) if s >= threshold]
        total += (sum(kept) - before) / sum(yes) * sum(kept) / len(kept)
        before = sum(kept)
    return total


def test_roc_auc_and_average_precision_with_ties() -> None:
    generator = torch.Generator().manual_seed(0)
    score = torch.randint(0, 12, (200, 1), generator=generator).double()  # many ties
    yes = torch.rand(200, 1, generator=generator) < 0.2 + score / 40
    pairs = (score[:, 0].tolist(), yes[:, 0].tolist())
    assert roc_auc(score, yes.float()) == pytest.approx(pairwise_auc(*pairs), abs=1e-12)
    assert average_precision(score, yes.float()) == pytest.approx(stepwise_precision(*pairs), abs=1e-12)


def test_unknown_labels_and_targets_with_one_answer_are_left_out() -> None:
    nan = float("nan")
    score = torch.tensor([[0.9, 0.1, 0.0], [0.1, 0.2, 0.0], [0.5, 0.3, 9.0]])
    label = torch.tensor([[1.0, 1.0, nan], [0.0, 1.0, 0.0], [nan, 1.0, 1.0]])
    assert roc_auc(score, label) == 1.0  # the second target has no 0; the others are ranked rightly
    assert average_precision(score, label) == 1.0
    # Positive scores mean yes: 0.1 for the 0 is the one wrong answer of 7 known ones, and 0.0 is a no.
    assert accuracy(score, label) == pytest.approx(6 / 7)
    with pytest.raises(ArgumentError, match="both answers"):
        roc_auc(score, torch.ones(3, 3))


@pytest.mark.parametrize("score_of_unknown", [-9.0, 0.3, 9.0])
def test_an_unknown_answer_is_neither_yes_nor_no(score_of_unknown: float) -> None:
    """Scores of rows without a label change nothing, wherever they rank: as a no, or as a yes, they would."""
    score, label = torch.tensor([[0.9], [-0.2], [0.4], [0.1]]), torch.tensor([[1.0], [1.0], [0.0], [0.0]])
    more = torch.cat([score, torch.full((3, 1), score_of_unknown)])
    unknown = torch.cat([label, torch.full((3, 1), torch.nan)])
    # 0.9 is above both noes, -0.2 above none; at 0.9 precision is 1, at -0.2 it is 2/4.
    assert roc_auc(more, unknown) == roc_auc(score, label) == 0.5
    assert average_precision(more, unknown) == average_precision(score, label) == 0.75
    assert accuracy(more, unknown) == accuracy(score, label) == 0.25


def test_accuracy_and_mae() -> None:
    assert accuracy(torch.tensor([[0.0, 1.0, 0.5], [3.0, 2.0, 1.0]]), torch.tensor([1, 2])) == 0.5
    assert mae(torch.tensor([[1.0, -1.0]]), torch.tensor([[3.0, 0.0]])) == 1.5
    assert {name: metric.higher_is_better for name, metric in METRICS.items()} == {
        "accuracy": True,
        "roc_auc": True,
        "average_precision": True,
        "mae": False,
        **dict.fromkeys(("hits@10", "hits@20", "hits@50", "hits@100", "mrr"), True),
    }


def test_shapes_must_agree() -> None:
    with pytest.raises(ArgumentError, match=r"\[3, 1\] and \[3\]"):
        mae(torch.ones(3, 1), torch.ones(3))  # would broadcast to [3, 3]
    with pytest.raises(ArgumentError, match="same rows"):
        accuracy(torch.ones(3, 2), torch.ones(2, dtype=torch.long))
    with pytest.raises(ArgumentError, match="targets"):
        roc_auc(torch.ones(3), torch.ones(3))
    with pytest.raises(ArgumentError, match="at least one"):
        mae(torch.ones(0, 1), torch.ones(0, 1))
