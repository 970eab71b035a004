"""Losses against values worked out by hand."""

import math

import pytest
import torch

from rfp.errors import ArgumentError
from rfp.train.losses import MeanLoss

from .test_batches import molecules

ROWS = torch.tensor([True, False, True])


def test_cross_entropy() -> None:
    prediction = torch.tensor([[0.0, 0.0], [9.0, 0.0], [math.log(3.0), 0.0]])
    label = torch.tensor([0, 1, 0])
    # -log 1/2 and -log 3/4; the row in between does not count
    expected = (math.log(2) + math.log(4 / 3)) / 2
    assert float(MeanLoss("classification")(prediction, label, ROWS)) == pytest.approx(expected)
    assert float(MeanLoss("classification")(prediction[::2], label[::2])) == pytest.approx(expected)


def test_a_row_without_a_class_has_no_loss_and_no_gradient() -> None:
    prediction = torch.zeros(3, 2, requires_grad=True)
    value = MeanLoss("classification")(prediction, torch.tensor([0, -1, 1]), ROWS)
    assert value.item() == pytest.approx(math.log(2))
    (gradient,) = torch.autograd.grad(value, prediction)
    # (1/2 - y) / 2 at the two rows that count
    assert gradient.flatten().tolist() == pytest.approx([-1 / 4, 1 / 4, 0, 0, 1 / 4, -1 / 4])


def test_absolute_error() -> None:
    prediction, label = (
        torch.tensor([[1.0, 2.0], [50.0, 0.0], [0.0, 0.0]]),
        torch.tensor([[2.0, 2.0], [0.0, 0.0], [3.0, -4.0]]),
    )
    assert float(MeanLoss("regression")(prediction, label, ROWS)) == (1 + 0 + 3 + 4) / 4
    assert float(MeanLoss("regression")(prediction, label)) == pytest.approx((1 + 50 + 3 + 4) / 6)


def test_yes_or_no_with_unknown_answers() -> None:
    prediction = torch.zeros(3, 2, requires_grad=True)
    label = torch.tensor([[1.0, torch.nan], [0.0, 1.0], [torch.nan, torch.nan]])
    loss = MeanLoss("binary", complete=False)
    value = loss(prediction, label)
    assert float(value) == pytest.approx(math.log(2))
    (gradient,) = torch.autograd.grad(value, prediction)
    # (1/2 - y) / 3 at the three known answers
    assert gradient.flatten().tolist() == pytest.approx([-1 / 6, 0, 1 / 6, -1 / 6, 0, 0])
    (gradient,) = torch.autograd.grad(loss(prediction, label, ROWS), prediction)
    assert gradient.flatten().tolist() == pytest.approx([-1 / 2, 0, 0, 0, 0, 0])


def test_nothing_known_is_zero() -> None:
    prediction = torch.ones(2, 1, requires_grad=True)
    loss = MeanLoss("binary", complete=False)(prediction, torch.full((2, 1), torch.nan))
    assert float(loss) == 0
    assert torch.autograd.grad(loss, prediction)[0].tolist() == [[0], [0]]


def test_of_a_task() -> None:
    assert MeanLoss.of(molecules(6)) == MeanLoss("regression", True)
    with pytest.raises(ArgumentError, match="kind must be one of"):
        MeanLoss("ranking")
