"""Counting targets are divided by their deviations over all graphs; the published set has its published statistics."""

from pathlib import Path

import pytest
import torch

from rfp.data import load
from rfp.data.metrics import mae


def test_generated_without_any_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RFP_DATA", "/nowhere")  # not looked at
    loaded = load("counting-generated")
    assert loaded.source == "generated, seed 0"
    assert [len(loaded.rows(part)) for part in ("train", "val", "test")] == [1500, 1000, 2500]
    assert loaded.raw_y is not None
    assert loaded.y_scale is not None
    assert loaded.raw_y.dtype == torch.int64
    assert loaded.y_scale.tolist() == pytest.approx(loaded.raw_y.double().numpy().std(axis=0, ddof=1).tolist())
    assert torch.allclose(loaded.y.double() * loaded.y_scale, loaded.raw_y.double(), atol=1e-4)
    # Triangles of one graph, by the trace of its adjacency matrix.
    A = torch.zeros(30, 30)
    data = loaded.data(7)
    A[data.edge_index[0], data.edge_index[1]] = 1
    assert int(loaded.raw_y[7, 0]) == round(float((A @ A @ A).trace()) / 6)


def test_counting_falls_back_to_generated(tmp_path: Path) -> None:
    loaded = load("counting", data_root=tmp_path)
    assert loaded.task.name == "counting"
    assert loaded.source == "generated, seed 0"
    only = load({"name": "counting", "target": "cycle4"}, data_root=tmp_path)
    assert torch.equal(only.y, loaded.y[:, 3:])


@pytest.mark.data
def test_published(data_root: Path) -> None:
    loaded = load("counting", data_root=data_root)
    assert "subgraphcount" in loaded.source
    assert loaded.task.names == ("triangle", "tailed_triangle", "star", "cycle4")
    assert (loaded.graphs.num_graphs, loaded.graphs.num_edges) == (5000, 313390)
    assert loaded.y_scale is not None
    assert loaded.y_scale.tolist() == pytest.approx([3.07231844, 25.94584122, 17.77890865, 6.93904532], abs=1e-7)
    train, test = loaded.y[loaded.rows("train")], loaded.y[loaded.rows("test")]
    assert (len(train), len(loaded.rows("val")), len(test)) == (1500, 1000, 2500)
    # The error of predicting the median of the training targets, as the data's description gives it.
    median = train.median(dim=0).values
    errors = [mae(median[i].expand(len(test), 1), test[:, i : i + 1]) for i in range(4)]
    assert errors == pytest.approx([0.876, 0.893, 0.801, 0.930], abs=6e-4)
