"""Batches come with what their model reads of random encodings, drawn beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from rfp.nn import RFPModel
from rfp.train.model_batches import training_batches, validation_batches

from .test_batches import molecules

RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2}
MODEL: dict[str, Any] = {"out_channels": 1, "node_encoder": "zinc", "hidden_channels": 8, "num_layers": 1}
LEARNED = {**RFP, "operators": ["normalized_adjacency", "learned"]}


@pytest.mark.parametrize(
    ("more", "drawn_as", "widths"),
    [
        ({"encodings": [RFP]}, "drawn", [9]),
        ({"encodings": [RFP, {**RFP, "num_steps": 1}]}, "drawn", [9, 6]),
        ({"encodings": [RFP], "embed": "products"}, "grams", [16]),  # 3 states: 6 numbers, filled up to 16
        ({"encodings": [LEARNED]}, "drawn", [9]),  # the start and two steps of the other operator
        ({"encodings": []}, "drawn", None),
    ],
)
def test_what_is_drawn_is_what_the_model_reads(more: dict[str, Any], drawn_as: str, widths: list[int] | None) -> None:
    torch.manual_seed(0)
    model = RFPModel({**MODEL, **more}).train()
    for batches in (
        training_batches(model, molecules(20), 0, batch_size=3, seed=1),
        validation_batches(model, molecules(20), 0, batch_size=1),
    ):
        for batch in batches:
            assert (None if batch.drawn is None else [one.size(-1) for one in batch.drawn]) == widths
            if batch.drawn is not None:
                assert batch.drawn_as == drawn_as
                assert not any(one.requires_grad for one in batch.drawn)
                out = model(batch.data, graph=batch.graph, **{batch.drawn_as: batch.drawn})
                assert out.isfinite().all()


def test_training_draws_anew_and_validation_once() -> None:
    model = RFPModel({**MODEL, "encodings": [RFP]}).train()
    first, second = (
        [batch.drawn for batch in batches]
        for batches in [training_batches(model, molecules(20), 0, batch_size=30, seed=1)] * 2
    )
    assert not torch.equal(first[0][0], second[0][0])  # type: ignore[index]
    kept = validation_batches(model, molecules(20), 0, batch_size=1)
    once, again = [batch.drawn for batch in kept], [batch.drawn for batch in kept]
    assert all(a[0] is b[0] for a, b in zip(once, again, strict=True))  # type: ignore[index]


def test_signs_of_eigenvectors_are_drawn_where_there_are_some() -> None:
    model = RFPModel({**MODEL, "encodings": [{"name": "eigenvectors", "num_eigenvectors": 2}]}).train()
    loaded = molecules(20)
    stored = {model.fixed[0].attr_name: torch.ones(loaded.graphs.num_nodes, 2)}
    loaded = replace(loaded, graphs=loaded.graphs.with_nodes(**stored))
    batches = list(training_batches(model, loaded, 0, batch_size=3, seed=1))
    assert all(batch.data.signs_drawn for batch in batches)
    assert not any(batch.data.signs_drawn for batch in validation_batches(model, loaded, 0, batch_size=3))
