"""Predictions of a part and their average over draws."""

from typing import Any

import pytest
import torch

from rfp.data.metrics import mae
from rfp.errors import NumericalError
from rfp.nn import RFPModel
from rfp.train.batches import Batches
from rfp.train.evaluation import predict_batches, score

from .test_batches import molecules

MODEL: dict[str, Any] = {
    "out_channels": 1,
    "node_encoder": "zinc",
    "hidden_channels": 8,
    "num_layers": 1,
    "encodings": [{"name": "rfp", "num_channels": 3, "num_steps": 2}],
}


@pytest.mark.parametrize("kind", ["classification", "binary", "regression"])
def test_mean_over_draws(kind: str) -> None:
    torch.manual_seed(0)
    model = RFPModel({**MODEL, "out_channels": 3 if kind == "classification" else 1}).train()
    loaded = molecules(20)
    batches = Batches(loaded, "val", 0, batch_size=2)
    mean, label = predict_batches(model, batches, kind, draws=4)
    assert model.training
    rows = loaded.rows("val")
    assert torch.equal(label, loaded.y[rows])
    model.eval()
    form = {"classification": lambda p: p.softmax(1), "binary": torch.sigmoid, "regression": lambda p: p}[kind]
    answers = []
    for number in range(4):
        with model.evaluation_draw(number), torch.no_grad():
            answers.append(form(model(loaded.batch(rows))))
    assert not torch.allclose(answers[0], answers[1])
    expected = torch.stack(answers).mean(0)
    torch.testing.assert_close(mean.sigmoid() if kind == "binary" else mean, expected, atol=1e-5, rtol=1e-4)


LEARNED = {"name": "rfp", "num_channels": 3, "num_steps": 2, "operators": ["normalized_adjacency", "learned"]}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"encodings": [LEARNED]},
        {"encodings": [{**LEARNED, "eval_draws": 2}]},
        {"encodings": [{**MODEL["encodings"][0], "num_trajectories": 3}], "trajectories": "dss"},
        {"embed": "products", "product_scale": "nodes"},
        {"encodings": [{"name": "rnf", "num_channels": 3}, *MODEL["encodings"]]},
    ],
)
@pytest.mark.parametrize("draws", [1, 3])
def test_what_is_kept_is_what_would_be_drawn(more: dict, draws: int) -> None:
    """Draws of an evaluation, kept with the batches while weights change, with Gram matrices where these are read."""
    torch.manual_seed(0)
    model = RFPModel({**MODEL, **more}).train()
    kept = Batches(
        molecules(20),
        "val",
        0,
        batch_size=2,
        draw=lambda data, graph: (model.draw_grams if model.reads_grams else model.draw)(data, graph=graph),
        drawn_as="grams" if model.reads_grams else "drawn",
        draw_once=True,
    )
    for _ in range(2):
        expected, _ = predict_batches(model, Batches(molecules(20), "val", 0, batch_size=2), "regression", draws)
        prediction, _ = predict_batches(model, kept, "regression", draws)
        torch.testing.assert_close(prediction, expected, atol=1e-5, rtol=1e-4)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))


def test_nodes_that_count() -> None:
    loaded = molecules(8, "node")
    model = RFPModel({**MODEL, "task": "node"})
    prediction, label = predict_batches(model, Batches(loaded, "test", 0, batch_size=3), "regression")
    assert torch.equal(label, loaded.y[loaded.rows("test")])
    assert prediction.shape == label.shape


def test_score() -> None:
    task = molecules(6).task
    prediction, label = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [0.0]])
    assert score(task, prediction, label, "here") == mae(prediction, label) == 1.5
    with pytest.raises(NumericalError, match="epoch 3: 1 of 2 predictions are NaN or infinite"):
        score(task, torch.tensor([[torch.inf], [0.0]]), label, "epoch 3")
