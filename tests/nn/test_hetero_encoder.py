"""The hetero module draws anew in training and once in evaluation."""

from __future__ import annotations

import torch
from tests.test_hetero import bibliography, settings

from rfp.hetero import encode_hetero
from rfp.nn import HeteroRandomFeaturePropagation


def test_training_draws_and_evaluation_draw() -> None:
    data, layer = bibliography(), HeteroRandomFeaturePropagation(settings())
    first, second = layer(data)["paper"], layer(data)["paper"]
    assert not torch.equal(first, second)
    assert torch.equal(layer.eval()(data)["paper"][0], encode_hetero(data, settings())["paper"])
    assert layer.out_channels(data) == {t: x.size(-1) for t, x in layer(data).items()}


def test_the_sequence_of_draws_is_in_the_state() -> None:
    data, layer = bibliography(), HeteroRandomFeaturePropagation(settings(num_trajectories=2))
    layer(data)
    other = HeteroRandomFeaturePropagation(settings(num_trajectories=2, seed=9))
    other.load_state_dict(layer.state_dict())
    one, two = layer(data), other(data)
    assert one["author"].shape == (2, 7, 15)
    assert all(torch.equal(one[t], two[t]) for t in one)
