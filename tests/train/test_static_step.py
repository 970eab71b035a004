"""Padded steps of one size: equal to steps on the batches as they are."""

import copy
from dataclasses import replace

import pytest
import torch

from rfp.nn import RFPModel
from rfp.train import static_step
from rfp.train.batches import Batches
from rfp.train.fixed_encodings import fixed_encodings
from rfp.train.losses import MeanLoss
from rfp.train.static_step import StaticStep, _usual_most, recordable

from .test_batches import molecules

RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2}
MODEL = {"out_channels": 1, "node_encoder": "zinc", "hidden_channels": 8, "num_layers": 2}
LEARNED = {
    "name": "rfp",
    "num_channels": 2,
    "num_steps": 2,
    "operators": ["normalized_laplacian", "normalized_adjacency", "learned"],
    "learned_heads": 2,
    "learned_head_channels": 8,
}
GINE = {"backbone": "gine", "edge_encoder": "zinc"}
GPS = {**GINE, "backbone": "gps"}
PRODUCTS = {**GINE, "embed": "products", "product_channels": 6}


def sharpened(model: RFPModel) -> RFPModel:
    """With attention that is far from uniform: S of a fresh operator is nearly of rank one, its gradient noise."""
    with torch.no_grad():
        for encoder in model.drawn:
            for operator in encoder.learned:
                operator.query.weight.mul_(8)
                operator.key.weight.mul_(8)
    return model


@pytest.mark.parametrize(
    "more",
    [
        {"backbone": "gine", "edge_encoder": "zinc", "encodings": [RFP]},
        {"backbone": "gin", "encodings": [RFP], "readout": "mean"},
        {"backbone": "gin", "encodings": [], "readout": "max", "norm": "layer"},
        {
            "backbone": "gine",
            "edge_encoder": "zinc",
            "encodings": [{**RFP, "num_trajectories": 3}],
            "trajectories": "dss",
        },
        {"backbone": "gin", "encodings": [{"name": "eigenvectors", "num_eigenvectors": 2}]},
        {**GINE, "encodings": [LEARNED]},
        {**GINE, "encodings": [{**LEARNED, "unit_start": True}]},
        {**GINE, "encodings": [{**LEARNED, "num_trajectories": 3, "unit_start": True}], "trajectories": "dss"},
        {**GINE, "encodings": [{**LEARNED, "num_trajectories": 3}], "trajectories": "dss"},
        {"backbone": "mlp", "encodings": [{**LEARNED, "operators": ["learned"], "normalization": "l2"}, RFP]},
        {"backbone": "gin", "encodings": [{**LEARNED, "operators": ["learned"], "learned_form": "implicit"}]},
        {**PRODUCTS, "encodings": [{**RFP, "normalization": "l2"}]},
        {**PRODUCTS, "encodings": [{**RFP, "num_trajectories": 3}, RFP], "product_scale": "nodes"},
        {**PRODUCTS, "encodings": [{**RFP, "num_trajectories": 3}], "trajectories": "dss"},
        {**PRODUCTS, "encodings": [RFP], "embed": "both", "product_weights": True, "edge_products": True},
        {**PRODUCTS, "encodings": [{**RFP, "num_trajectories": 3}], "trajectories": "dss", "edge_products": True},
        {**PRODUCTS, "encodings": [RFP], "edge_products": True, "product_scale": "nodes"},
        {**PRODUCTS, "encodings": [{**LEARNED, "normalization": "l2"}], "edge_products": True},
        {**GPS, "encodings": [RFP]},
        {**GPS, "encodings": [{**RFP, "num_trajectories": 3}], "trajectories": "dss", "norm": "layer"},
        {**PRODUCTS, **GPS, "encodings": [RFP], "edge_products": True},
    ],
)
def test_equals_plain_training(more: dict) -> None:
    loaded = molecules(40)
    torch.manual_seed(0)
    model = sharpened(RFPModel({**MODEL, **more}).train())
    stored = fixed_encodings(model, loaded.graphs.graph, loaded.graphs.x)
    loaded = replace(loaded, graphs=loaded.graphs.with_nodes(**stored))
    twin = copy.deepcopy(model)
    results = []
    for one, padded in ((model, True), (twin, False)):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.05)
        grams = padded and one.reads_grams  # the plain steps read the trajectories themselves
        batches = Batches(
            loaded,
            "train",
            0,
            batch_size=6,
            seed=1,
            draw=lambda data, graph, draw=one.draw_grams if grams else one.draw: draw(data, graph=graph),
            drawn_as="grams" if grams else "drawn",
            draw_signs=one.draw_signs if one.flips_signs else None,
        )
        static = StaticStep(one, MeanLoss("regression"), optimizer, torch.zeros(()), batches, gradient_clip=1.0)
        static.num_edges += 64
        fitted = 0
        for epoch in range(2):
            batches.epoch = epoch
            for batch in batches:
                if padded and static.fits(batch):
                    static.run(batch)
                    fitted += 1
                else:
                    static.run_as_it_is(batch)
        assert not padded or fitted >= 4
        for operator in (operator for encoder in one.drawn for operator in encoder.learned):
            assert all(float(parameter.grad.abs().max()) > 0 for parameter in operator.parameters())
        results.append((float(static.total), one.state_dict()))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    for name, value in results[0][1].items():
        if isinstance(value, torch.Tensor):
            torch.testing.assert_close(
                value, results[1][1][name], atol=2e-5, rtol=1e-4, msg=lambda text, n=name: f"{n}: {text}"
            )


def test_which_batches_fit() -> None:
    loaded = molecules(40)
    model = RFPModel({**MODEL, "backbone": "gin", "encodings": []})
    batches = Batches(loaded, "train", 0, batch_size=6, seed=1)
    static = StaticStep(model, MeanLoss("regression"), torch.optim.SGD(model.parameters()), torch.zeros(()), batches)
    last = list(batches)[-1]
    assert last.graph.num_graphs == 20 % 6
    assert not static.fits(last)
    static.num_nodes = next(iter(batches)).graph.num_nodes
    assert not static.fits(next(iter(batches)))  # no padded node would remain
    static.num_nodes += 1
    assert static.fits(next(iter(batches)))


def test_usual_most() -> None:
    assert _usual_most(torch.tensor([10, 10]), 6) == 64  # 60 and one more, rounded up
    assert _usual_most(torch.tensor([10, 10]), 7) == 128
    # mean 20, deviation 10: 100 · 20 + 5 · 10 · 10 = 2500, under 100 · 30
    assert _usual_most(torch.tensor([10, 30]), 100) == 2560


@pytest.mark.parametrize(
    ("more", "precision", "devices", "answer"),
    [
        ({"backbone": "gin", "encodings": [RFP]}, "32-true", 1, True),
        ({"backbone": "gin", "encodings": [RFP]}, "bf16-mixed", 1, True),
        ({"backbone": "gin", "encodings": [RFP]}, "16-mixed", 1, False),
        ({"backbone": "gin", "encodings": [RFP]}, "32-true", 2, False),
        ({"backbone": "gcn", "encodings": [RFP]}, "32-true", 1, False),
        ({"backbone": "gin", "encodings": [LEARNED]}, "32-true", 1, True),
        ({"backbone": "gin", "encodings": [LEARNED]}, "bf16-mixed", 1, True),
        ({"backbone": "gcn", "encodings": [LEARNED]}, "32-true", 1, False),
        ({"backbone": "gin", "encodings": [RFP, {**LEARNED, "num_channels": 33}]}, "32-true", 1, False),
        ({"backbone": "gin", "encodings": [{**LEARNED, "normalization": "inverse_gram"}]}, "32-true", 1, False),
        ({"backbone": "gin", "encodings": [{**LEARNED, "learned_form": "dense"}]}, "32-true", 1, True),
        ({"backbone": "gin", "encodings": [{**LEARNED, "learned_form": "implicit"}]}, "32-true", 1, False),
        ({"backbone": "gin", "encodings": [{"name": "eigenvectors", "num_eigenvectors": 2}]}, "32-true", 1, True),
        ({"backbone": "gin", "encodings": [{"name": "random_walk", "walk_length": 2}]}, "32-true", 1, True),
    ],
)
def test_recordable(more: dict, precision: str, devices: int, answer: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_step, "triton_available", lambda: True)
    assert recordable(RFPModel({**MODEL, **more}), molecules(6), precision, devices, 4) is answer


def test_learned_operators_are_recordable_where_the_dense_backend_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_step, "triton_available", lambda: True)
    model, loaded = RFPModel({**MODEL, "encodings": [LEARNED]}), molecules(6)  # graphs of 3 to 6 nodes
    # `auto` forms S while 2 heads of 6 x 6 numbers for each graph are not too many.
    monkeypatch.setattr(static_step, "LEARNED_MAX_WORDS", 2 * 36 * 4)
    assert recordable(model, loaded, "32-true", 1, 4)
    assert not recordable(model, loaded, "32-true", 1, 5)
    monkeypatch.setattr(static_step, "LEARNED_MAX_NODES", 5)
    assert not recordable(model, loaded, "32-true", 1, 4)
    monkeypatch.setattr(static_step, "LEARNED_MAX_NODES", 6)
    assert recordable(model, loaded, "32-true", 1, 4)
    monkeypatch.setattr(static_step, "triton_available", lambda: False)
    assert not recordable(model, loaded, "32-true", 1, 4)


def test_attention_is_recordable_where_graphs_share_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    model, loaded = RFPModel({**MODEL, **GPS, "encodings": [RFP]}), molecules(6)  # graphs of 3 to 6 nodes
    assert recordable(model, loaded, "32-true", 1, 4)
    monkeypatch.setattr(static_step, "ONE_BLOCK_MAX_SIZE", 5)
    assert not recordable(model, loaded, "32-true", 1, 4)
    assert recordable(RFPModel({**MODEL, **GINE, "encodings": [RFP]}), loaded, "32-true", 1, 4)


def test_padding_holds_nothing_of_an_earlier_batch() -> None:
    """The same step whatever the padded tensors held before: also what a graph remembers is of one batch."""
    loaded = molecules(40)
    torch.manual_seed(0)
    model = sharpened(RFPModel({**MODEL, **GINE, "encodings": [{**LEARNED, "unit_start": True}]}).train())
    batches = Batches(loaded, "train", 0, batch_size=6, seed=1, draw=lambda data, graph: model.draw(data, graph=graph))
    first, second = list(batches)[:2]
    gradients = []
    for before in ([], [first]):
        one = copy.deepcopy(model)
        still = torch.optim.SGD(one.parameters(), lr=0.0)
        static = StaticStep(one, MeanLoss("regression"), still, torch.zeros(()), batches)
        for batch in [*before, second]:
            static.run(batch)
        gradients.append({name: parameter.grad for name, parameter in one.named_parameters()})
    for name, value in gradients[0].items():
        assert value.isfinite().all(), name
        torch.testing.assert_close(value, gradients[1][name], atol=1e-6, rtol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(
    "more",
    [
        {"encodings": [RFP]},
        {"encodings": [RFP], "dropout": 0.3},
        {"encodings": [LEARNED]},
        {"encodings": [{**LEARNED, "num_trajectories": 3, "unit_start": True}], "trajectories": "dss"},
        {**PRODUCTS, "encodings": [RFP], "product_scale": "nodes"},
        {**PRODUCTS, "encodings": [{**RFP, "num_trajectories": 3}], "trajectories": "dss"},
        {**PRODUCTS, "encodings": [RFP], "edge_products": True},
        {**GPS, "encodings": [RFP]},
        {**PRODUCTS, **GPS, "encodings": [RFP], "edge_products": True},
    ],
)
def test_recorded_on_a_gpu(more: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = molecules(200).to("cuda")
    torch.manual_seed(0)
    dropout = more.get("dropout", 0.0)
    model = sharpened(RFPModel({**MODEL, **GINE, **more})).cuda()
    assert recordable(model, loaded, "32-true", 1, 10)
    totals = []
    for record in (True, True, False):
        one = copy.deepcopy(model)
        lr = torch.tensor(0.01, device="cuda")
        optimizer = torch.optim.Adam(one.parameters(), lr=lr, fused=True, capturable=True)
        grams = record and one.reads_grams
        draws = one.draw_grams if grams else one.draw
        batches = Batches(
            loaded,
            "train",
            0,
            batch_size=10,
            seed=1,
            draw=lambda data, graph, draw=draws: draw(data, graph=graph),
            drawn_as="grams" if grams else "drawn",
            bytes_per_node=36,
            sort=True,
        )
        static = StaticStep(one, MeanLoss("regression"), optimizer, torch.zeros((), device="cuda"), batches)
        monkeypatch.setattr(static_step, "STEPS_BEFORE_RECORDING", 3 if record else 1000)
        torch.manual_seed(0)
        for batch in batches:
            static.run(batch) if static.fits(batch) else static.run_as_it_is(batch)
        assert (static.recorded is not None) is record, static.refused
        totals.append(float(static.total))
    assert totals[0] == totals[1]
    assert totals[0] == pytest.approx(totals[2], rel=1e-4 if dropout == 0 else 0.2)
