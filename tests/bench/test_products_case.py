"""The bench of products in training: the same model with and without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rfp.bench import products_case
from rfp.bench.cases import CASES
from rfp.bench.generated_graphs import molecule_like
from rfp.bench.molecule_task import drawn_task
from rfp.bench.training_case import Epochs
from rfp.nn import RFPModel, TrajectoryProducts, trajectory_products

SHAPE = {"node_encoder": "zinc", "edge_encoder": "zinc", "out_channels": 1}


def test_models_differ_in_their_products_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products_case, "missing", lambda package: "")
    monkeypatch.setattr(products_case, "molecules", lambda data_root: (molecule_like(30), []))
    monkeypatch.setattr(products_case, "FEW_MOLECULES", 24)
    gated: list[dict[str, Any]] = []
    monkeypatch.setattr(products_case, "gate", lambda graph, **arguments: gated.append(arguments))
    asked: list[tuple[RFPModel, bool]] = []

    def pretend(model: dict[str, Any], loaded: Any, device: str, count: int, batch_size: int) -> Epochs:
        assert (loaded.num_rows, device, count, batch_size) == (24, "cpu", 1, 128)
        # Asked as TrajectoryProducts asks: a replaced rule refuses everything.
        asked.append((RFPModel({**SHAPE, **model}), trajectory_products.kernels_multiply is the_rule))
        return Epochs([2.0], [1.0])

    the_rule = trajectory_products.kernels_multiply
    monkeypatch.setattr(products_case, "epochs", pretend)
    contenders = list(CASES["products"].build("cpu", None))
    assert [contender.run() for contender in contenders if contender.run] == [[1.0]] * 4
    assert products_case._steps(products_case.NODES, loaded=_Loaded(), device="cpu", count=1, plain=True) == [1.0]
    assert [(one["num_channels"], one["num_steps"], len(one["operators"])) for one in gated] == [(64, 16, 3)]
    assert [by_rule for _, by_rule in asked] == [True] * 4 + [False]
    assert trajectory_products.kernels_multiply is the_rule  # put back
    backbones = {str(model.backbone) for model, _ in asked[:2]}
    assert len(backbones) == 1
    weighted = [
        [part.alpha is not None for part in model.modules() if isinstance(part, TrajectoryProducts)]
        for model, _ in asked
    ]
    assert weighted == [[], [False], [False, False], [True], [False]]


def test_batches_are_made_without_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = drawn_task(molecule_like(30))
    drawn: list[int] = []
    draw = RFPModel.draw_grams

    def counted(model: RFPModel, data: Any, **more: Any) -> Any:
        drawn.append(data.num_nodes)
        return draw(model, data, **more)

    monkeypatch.setattr(RFPModel, "draw_grams", counted)
    without = {**products_case.NODES, "embed": "linear", "encodings": []}
    assert len(products_case._gathered(without, loaded=loaded, device="cpu", count=1)) == 1
    assert not drawn
    seconds = products_case._gathered(products_case.NODES, loaded=loaded, device="cpu", count=2)
    assert len(seconds) == 2
    assert min(seconds) > 0
    sizes = loaded.graphs.ptr.diff()[loaded.rows("train", 0)]
    assert drawn == [int(sizes.sum())] * 4  # every node once in each epoch, those that are not timed included


class _Loaded:
    num_rows = 24


def test_without_lightning_the_case_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(products_case, "missing", lambda package: f"{package} is not installed")
    (contender,) = CASES["products"].build("cpu", tmp_path)
    assert (contender.run, contender.skip) == (None, "lightning is not installed")
