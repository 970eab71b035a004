"""Hits@K, MRR, AUC and AP of links, by hand and against torchmetrics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from rfp.data.link_metrics import SHARED, hits_at, mean_reciprocal_rank
from rfp.data.metrics import METRICS
from rfp.errors import ArgumentError

functional = pytest.importorskip("torchmetrics.functional")
retrieval = pytest.importorskip("torchmetrics.functional.retrieval")


def oracle(function: Callable[..., Tensor], scores: list[float], **more: int) -> float:
    """Of a list whose first is the relevant one; torchmetrics takes probabilities, which are ordered as the scores."""
    target = torch.tensor([True] + [False] * (len(scores) - 1))
    return float(function(torch.tensor(scores).sigmoid(), target, **more))


def case(positive: list[float], shared: list[float], own: list[list[float]]) -> tuple[Tensor, Tensor]:
    scores = [*positive, *shared, *(score for some in own for score in some)]
    labels = [[1, g] for g in range(len(positive))] + [[0, SHARED]] * len(shared)
    labels += [[0, g] for g, some in enumerate(own) for _ in some]
    return torch.tensor(scores)[:, None], torch.tensor(labels, dtype=torch.float32)


def test_hits_by_hand() -> None:
    prediction, label = case([5.0, 3.0, 1.0], [4.0, 2.0, 0.0], [])
    assert hits_at(1, prediction, label) == pytest.approx(1 / 3)
    assert hits_at(2, prediction, label) == pytest.approx(2 / 3)
    assert hits_at(3, prediction, label) == pytest.approx(1)
    assert hits_at(10, prediction, label) == 1


def test_a_constant_score_is_chance() -> None:
    prediction, label = case([1.0] * 7, [1.0] * 99, [[1.0] * 9] * 7)
    assert hits_at(10, prediction, label) == pytest.approx(0.1)
    assert mean_reciprocal_rank(prediction, label) == pytest.approx(1 / 5.5)  # the middle of ten
    assert METRICS["roc_auc"](prediction, label, "link") == pytest.approx(0.5)


def test_each_positive_has_its_own_rivals() -> None:
    prediction, label = case([5.0, 3.0], [9.0, 9.0], [[6.0, 1.0], [1.0, 2.0]])
    assert mean_reciprocal_rank(prediction, label) == pytest.approx((1 / 2 + 1) / 2)
    assert hits_at(2, prediction, label) == 0  # against the shared ones
    order = torch.randperm(len(label), generator=torch.Generator().manual_seed(1))
    assert mean_reciprocal_rank(prediction[order], label[order]) == pytest.approx(0.75)


def test_without_one_kind_the_other_is_meant() -> None:
    prediction, label = case([5.0, 3.0], [4.0, 2.0], [])
    assert mean_reciprocal_rank(prediction, label) == pytest.approx((1 + 1 / 2) / 2)
    prediction, label = case([5.0, 3.0], [], [[4.0], [2.0]])
    assert hits_at(1, prediction, label) == pytest.approx(1 / 2)
    assert METRICS["roc_auc"](prediction, label, "link") == pytest.approx(3 / 4)


@pytest.mark.parametrize("seed", range(3))
def test_torchmetrics_agrees(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    positive = (torch.randn(40, generator=generator) + 1).tolist()
    shared = torch.randn(60, generator=generator).tolist()
    own = [torch.randn(25, generator=generator).tolist() for _ in positive]
    prediction, label = case(positive, shared, own)
    flat, answer = prediction[:100, 0], label[:100, 0].long()
    assert METRICS["roc_auc"](prediction, label, "link") == pytest.approx(
        float(functional.auroc(flat, answer, task="binary")), abs=1e-6
    )
    assert METRICS["average_precision"](prediction, label, "link") == pytest.approx(
        float(functional.average_precision(flat, answer, task="binary")), abs=1e-6
    )
    ranks = [oracle(retrieval.retrieval_reciprocal_rank, [p, *some]) for p, some in zip(positive, own, strict=True)]
    assert METRICS["mrr"](prediction, label, "link") == pytest.approx(sum(ranks) / len(ranks), abs=1e-6)
    for k in (10, 20, 50):
        # A positive is a hit if it is among the first K of itself and all negatives.
        hits = [oracle(retrieval.retrieval_hit_rate, [p, *shared], top_k=k) for p in positive]
        assert METRICS[f"hits@{k}"](prediction, label, "link") == pytest.approx(sum(hits) / len(hits), abs=1e-6)


def test_what_cannot_be_ranked() -> None:
    with pytest.raises(ArgumentError, match="at least one pair of each kind"):
        hits_at(1, *case([1.0], [], []))
    with pytest.raises(ArgumentError, match=r"labels \[rows, 2\]"):
        mean_reciprocal_rank(torch.zeros(3, 1), torch.zeros(3, 1))
