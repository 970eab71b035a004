"""Kinds of answers: what is minimised, what the mean of several predictions is, and the usual score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, l1_loss


def _as_it_is(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True)
class Kind:
    """One kind of answer.

    Args:
        name: As in a config.
        metric: Name of the score that is taken when none is asked for.
        loss: ``(prediction, label, reduction="mean") -> Tensor``.
        averaged: From a model's output to the form in which outputs of several draws are averaged.
        answer: From that mean back to the form of an output.
    """

    name: str
    metric: str
    loss: Callable[..., Tensor]
    averaged: Callable[[Tensor], Tensor] = _as_it_is
    answer: Callable[[Tensor], Tensor] = _as_it_is


def _class_loss(prediction: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Cross entropy; 0 where the label is -1, which is none: such nodes are in no part, but in the graph."""
    return cross_entropy(prediction, label, reduction=reduction, ignore_index=-1)


def _pair_loss(prediction: Tensor, label: Tensor, reduction: str = "mean") -> Tensor:
    """Cross entropy of the answer, the first column of a link's label."""
    return binary_cross_entropy_with_logits(prediction, label[:, :1].to(prediction.dtype), reduction=reduction)


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        # Classes are averaged as probabilities, which rank as logits do.
        Kind("classification", "accuracy", _class_loss, lambda out: out.softmax(-1)),
        Kind("binary", "roc_auc", binary_cross_entropy_with_logits, Tensor.sigmoid, lambda p: p.logit(eps=1e-7)),
        Kind("regression", "mae", l1_loss),
    )
}
# Of pairs of nodes: whether they are linked, ranked among others.
LINK_KINDS: dict[str, Kind] = {
    "link": Kind("link", "hits@100", _pair_loss, Tensor.sigmoid, lambda p: p.logit(eps=1e-7)),
}
ALL_KINDS: dict[str, Kind] = {**KINDS, **LINK_KINDS}
