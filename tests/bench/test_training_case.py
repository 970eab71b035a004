"""The bench of training: epochs are those of ``rfp train``, and their steps are a part of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from rfp.bench import training_case
from rfp.bench.cases import CASES
from rfp.bench.generated_graphs import molecule_like
from rfp.bench.molecule_task import drawn_task

needs_lightning = pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="needs lightning")


def _small(model: dict[str, Any]) -> dict[str, Any]:
    (encoding,) = model["encodings"]
    tiny = {**model, "num_layers": 1, "hidden_channels": 8, "encodings": [{**encoding, "num_steps": 2}]}
    tiny.pop("max_parameters", None)
    return tiny


@needs_lightning
@pytest.mark.parametrize("model", [training_case.PRODUCTS_ROW, training_case.LINEAR_ROW])
def test_steps_are_a_part_of_their_epoch(model: dict[str, Any]) -> None:
    loaded = drawn_task(molecule_like(24))
    found = training_case.epochs(_small(model), loaded, "cpu", 2, batch_size=8)
    assert len(found.whole) == len(found.steps) == 2
    assert all(0 < steps < whole for steps, whole in zip(found.steps, found.whole, strict=True))


@needs_lightning
def test_the_case_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_case, "molecules", lambda data_root: (molecule_like(30), []))
    monkeypatch.setattr(training_case, "FEW_MOLECULES", 24)
    asked = []

    def pretend(model: dict[str, Any], loaded: Any, device: str, count: int, batch_size: int) -> Any:
        asked.append((loaded.num_rows, device, count, batch_size))
        return training_case.Epochs([2.0], [1.0])

    monkeypatch.setattr(training_case, "epochs", pretend)
    contenders = list(CASES["training"].build("cpu", None))
    assert [contender.run() for contender in contenders if contender.run] == [[2.0], [1.0], [2.0], [1.0]]
    assert asked == [(24, "cpu", 3, 128)] * 2  # one training serves an epoch and its steps
    assert contenders[-1].run is None
    assert "24 molecules" in contenders[0].name


def test_without_lightning_the_case_is_skipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(training_case, "missing", lambda package: f"{package} is not installed")
    (contender,) = CASES["training"].build("cpu", tmp_path)
    assert (contender.run, contender.skip) == (None, "lightning is not installed")
