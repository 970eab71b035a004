"""What is drawn before an epoch: the same numbers as drawn inside, always at the same place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from rfp.graph import Graph
from rfp.nn import RFPModel
from rfp.train.draws import EvaluationDraws, TrainingDraws, TrainingSigns
from rfp.train.fixed_encodings import fixed_encodings

EDGES = torch.tensor([[0, 1, 2, 3, 4, 1, 2, 3, 4, 0, 5, 0], [1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 0, 5]])
GRAPH = Graph(EDGES, 6)
X = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
RFP = {"name": "rfp", "num_channels": 2, "num_steps": 3}
LEARNED = {**RFP, "operators": ["normalized_adjacency", "learned"], "learned_heads": 1}


def model(*encodings: dict[str, Any], **changes: Any) -> RFPModel:
    torch.manual_seed(0)
    values = {
        "task": "node",
        "in_channels": 4,
        "out_channels": 3,
        "norm": "none",
        "hidden_channels": 8,
        "backbone": "mlp",
    }
    return RFPModel({**values, "encodings": list(encodings), **changes})


@pytest.mark.parametrize("encodings", [[RFP], [LEARNED], [RFP, {**LEARNED, "operators": ["learned"]}, RFP]])
def test_training_draws_are_those_of_single_calls(
    encodings: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rfp.train.draws._BYTES_AHEAD_ON_A_CPU", 4 * 6 * 8 * 2 * 3)  # some epochs at a time
    one = model(*encodings).replicate(2)
    twin = copy.deepcopy(one).train()
    draws, evaluation = TrainingDraws([one], GRAPH, 7), EvaluationDraws([one], GRAPH)
    fixed = evaluation.number(0)
    places = None
    for epoch in range(7):
        draws.begin(epoch)
        expected = [encoder.draw(GRAPH) for encoder in twin.encoders]
        for found, right in zip(draws.current, expected, strict=True):
            torch.testing.assert_close(found, right, atol=1e-6, rtol=1e-5)
            assert found.is_contiguous()
        places = places or [found.data_ptr() for found in draws.current]
        assert [found.data_ptr() for found in draws.current] == places
        assert all(torch.equal(a, b) for a, b in zip(evaluation.number(0), fixed, strict=True))


def test_signs_are_those_that_a_step_would_draw() -> None:
    first = {"name": "eigenvectors", "num_eigenvectors": 3, "attr_name": "low"}
    second = {**first, "operator": "normalized_adjacency", "which": "largest_magnitude", "attr_name": "high"}
    one = model(first, RFP, second).train()
    twin = copy.deepcopy(one)
    data = Data(x=X, edge_index=EDGES, num_nodes=6, **fixed_encodings(one, GRAPH, X))
    unsigned = {name: data[name].clone() for name in ("low", "high")}
    signs = TrainingSigns(one, data, GRAPH)
    places = {name: signs.data[name].data_ptr() for name in unsigned}
    drawn = [torch.zeros(1, 6, 8)]
    flipped = set()
    for _ in range(6):
        signs.begin()
        assert torch.equal(one(signs.data, graph=GRAPH, drawn=drawn), twin(data, graph=GRAPH, drawn=drawn))
        for name, value in unsigned.items():
            assert torch.equal(data[name], value)  # what is validated with is left alone
            assert torch.equal(signs.data[name].abs(), value.abs())
            assert signs.data[name].data_ptr() == places[name]
            flipped.add((name, tuple((signs.data[name] * value).sum(0).sign().tolist())))
    assert len(flipped) > 4  # of twice eight
    assert one.num_draws == twin.num_draws == 12


def test_without_eigenvectors_the_data_are_as_they_are() -> None:
    data = Data(x=X, edge_index=EDGES, num_nodes=6)
    signs = TrainingSigns(model(RFP), data, GRAPH)
    signs.begin()
    assert signs.data is data
