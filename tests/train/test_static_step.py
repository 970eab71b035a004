"""Padded steps of one size: equal to steps on the batches as they are."""

import copy
from dataclasses import replace

import pytest
import torch

from rfp.nn import RFPModel
from rfp.train import static_step
from rfp.train.batches import Batches
from rfp.train.encodings import fixed_encodings
from rfp.train.losses import MeanLoss
from rfp.train.static_step import StaticStep, _usual_most, recordable

from .test_batches import molecules

RFP = {"name": "rfp", "num_channels": 3, "num_steps": 2}
MODEL = {"out_channels": 1, "node_encoder": "zinc", "hidden_channels": 8, "num_layers": 2}


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
    ],
)
def test_equals_plain_training(more: dict) -> None:
    loaded = molecules(40)
    torch.manual_seed(0)
    model = RFPModel({**MODEL, **more}).train()
    stored = fixed_encodings(model, loaded.graphs.graph, loaded.graphs.x)
    loaded = replace(loaded, graphs=loaded.graphs.with_nodes(**stored))
    twin = copy.deepcopy(model)
    results = []
    for one, padded in ((model, True), (twin, False)):
        optimizer = torch.optim.SGD(one.parameters(), lr=0.05)
        batches = Batches(
            loaded,
            "train",
            0,
            batch_size=6,
            seed=1,
            draw=lambda data, graph, one=one: one.draw(data, graph=graph),
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
        ({"backbone": "gin", "encodings": [{**RFP, "operators": ["learned"]}]}, "32-true", 1, False),
        ({"backbone": "gin", "encodings": [{"name": "eigenvectors", "num_eigenvectors": 2}]}, "32-true", 1, True),
        ({"backbone": "gin", "encodings": [{"name": "random_walk", "walk_length": 2}]}, "32-true", 1, True),
    ],
)
def test_recordable(more: dict, precision: str, devices: int, answer: bool) -> None:
    assert recordable(RFPModel({**MODEL, **more}), molecules(6), precision, devices) is answer


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_recorded_on_a_gpu(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = molecules(200).to("cuda")
    torch.manual_seed(0)
    more = {"backbone": "gine", "edge_encoder": "zinc", "encodings": [RFP], "dropout": dropout}
    model = RFPModel({**MODEL, **more}).cuda()
    totals = []
    for record in (True, True, False):
        one = copy.deepcopy(model)
        lr = torch.tensor(0.01, device="cuda")
        optimizer = torch.optim.Adam(one.parameters(), lr=lr, fused=True, capturable=True)
        draw = lambda data, graph, one=one: one.draw(data, graph=graph)  # noqa: E731
        batches = Batches(loaded, "train", 0, batch_size=10, seed=1, draw=draw, bytes_per_node=36, sort=True)
        static = StaticStep(one, MeanLoss("regression"), optimizer, torch.zeros((), device="cuda"), batches)
        monkeypatch.setattr(static_step, "WARM_UP", 3 if record else 1000)
        torch.manual_seed(0)
        for batch in batches:
            static.run(batch) if static.fits(batch) else static.run_as_it_is(batch)
        assert (static.recorded is not None) is record, static.refused
        totals.append(float(static.total))
    assert totals[0] == totals[1]
    assert totals[0] == pytest.approx(totals[2], rel=1e-4 if dropout == 0 else 0.2)
