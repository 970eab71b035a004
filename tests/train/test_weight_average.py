"""A moving average of the weights: its values, and that a model gets its own back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rfp.nn import ModelConfig, RFPModel
from rfp.nn.layers import real_rows
from rfp.train.weight_average import WeightAverage

from .plain_run import many_graphs


def test_the_average_by_hand() -> None:
    model = torch.nn.Linear(1, 1, bias=False)
    weights = [1.0, 3.0, -2.0, 0.5, 4.0]
    with torch.no_grad():
        model.weight.fill_(7.0)
    average, expected = WeightAverage(model, 0.3), 7.0
    for t, weight in enumerate(weights, start=1):
        with torch.no_grad():
            model.weight.fill_(weight)
        average.update()
        share = min(0.3, (1 + t) / (10 + t))  # 2/11, 3/12, then 0.3
        expected = share * expected + (1 - share) * weight
    with average.in_place():
        assert model.weight.item() == pytest.approx(expected)
    assert model.weight.item() == 4.0


def test_a_model_gets_its_weights_back_whatever_happens() -> None:
    model = torch.nn.Linear(2, 2)
    before = model.weight.detach().clone()
    average = WeightAverage(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1.0)

    def fail() -> None:
        assert torch.equal(model.weight, before)
        raise KeyError

    with pytest.raises(KeyError), average.in_place():
        fail()
    assert torch.equal(model.weight, before + 1)


def test_it_goes_on_from_its_state() -> None:
    model = torch.nn.Linear(2, 2)
    average, other = WeightAverage(model, 0.9), WeightAverage(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1.0)
    average.update()
    other.load_state_dict(average.state_dict())
    with torch.no_grad():
        model.weight.mul_(2.0)
    for one in (average, other):
        one.update()
    for a, b in zip(average.state_dict()["averages"], other.state_dict()["averages"], strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("norms", [{"norm": "batch"}, {"norm": "layer", "product_norm": "settled"}])
@pytest.mark.parametrize("padded", [False, True])
def test_running_statistics_are_averaged_where_the_model_has_them(norms: dict[str, Any], padded: bool) -> None:
    """A norm that put another tensor in the place of its own would be found out."""
    products = {"embed": "products", "encodings": [{"name": "rfp", "num_channels": 3, "num_steps": 2}]}
    model = RFPModel(
        ModelConfig.from_dict(
            {"in_channels": 2, "out_channels": 1, "hidden_channels": 4, "num_layers": 2, **products, **norms}
        )
    )
    graphs = many_graphs().graphs
    data = graphs.data(0)
    average = WeightAverage(model, 0.5)
    before = [value.clone() for value in average.state_dict()["averages"]]
    model.train()
    if padded:
        with real_rows(model, torch.ones(data.num_nodes, 1)):
            model(data)
    else:
        model(data)
    average.update()
    with average.in_place():
        assert any(
            not torch.equal(a, b) for a, b in zip(before, average._weights, strict=True)
        )  # statistics alone have changed


def test_a_tensor_that_was_replaced_is_told() -> None:
    model = torch.nn.BatchNorm1d(2)
    average = WeightAverage(model, 0.5)
    model.running_mean = torch.zeros(2)
    with pytest.raises(AssertionError, match="replaced by another"), average.in_place():
        pass
