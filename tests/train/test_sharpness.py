"""The climb before an update: by hand, and that a model gets its own weights back."""

from __future__ import annotations

import pytest
import torch

from rfp.nn.layers import MLP
from rfp.train.sharpness import Ascent


def test_the_climb_by_hand() -> None:
    """Weights 3 and -1 with gradients 2 and 1: T g is (3.01 2, 1.01 1), and T T g over its norm is the way."""
    model = torch.nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[3.0, -1.0]]))
    model.weight.grad = torch.tensor([[2.0, 1.0]])
    norm = ((3.01 * 2) ** 2 + 1.01**2) ** 0.5
    with Ascent(model, 0.5).climb():
        expected = [3 + 0.5 * 3.01**2 * 2 / norm, -1 + 0.5 * 1.01**2 / norm]
        assert model.weight.flatten().tolist() == pytest.approx(expected)
    assert model.weight.tolist() == [[3.0, -1.0]]
    assert model.weight.grad.tolist() == [[2.0, 1.0]]


def test_the_loss_rises_and_all_is_put_back() -> None:
    torch.manual_seed(0)
    model, x, y = MLP(3, 1, hidden_channels=8, norm="batch"), torch.randn(20, 3), torch.randn(20, 1)

    def loss() -> torch.Tensor:
        return (model(x) - y).pow(2).mean()

    loss().backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    here = float(loss())
    before |= {name: value.clone() for name, value in model.named_buffers()}
    with Ascent(model, 0.1).climb():
        assert float(loss()) > here  # and the running statistics have seen it
        assert not torch.equal(model.parts[1].norm.running_mean, before["parts.1.norm.running_mean"])
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_without_gradients_there_is_nowhere_to_climb() -> None:
    """A parameter that nothing reads has none; where all are zero, weights stay numbers."""
    model = torch.nn.Linear(2, 1)
    model.weight.grad = torch.zeros(1, 2)
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    with Ascent(model, 0.5).climb():
        assert torch.equal(model.weight, weight)
        assert torch.equal(model.bias, bias)


def test_weights_are_put_back_whatever_happens() -> None:
    model = torch.nn.Linear(2, 1)
    before = model.weight.detach().clone()
    model.weight.grad = torch.ones(1, 2)

    def fail() -> None:
        assert not torch.equal(model.weight, before)
        raise KeyError

    with pytest.raises(KeyError), Ascent(model, 0.5).climb():
        fail()
    assert torch.equal(model.weight, before)
