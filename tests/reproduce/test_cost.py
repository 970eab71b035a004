"""The cost on a large graph, measured on a small one; its file and its table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rfp.errors import FileError, NumericalError
from rfp.reproduce import cost
from rfp.reproduce.cost import CostRow, CostSize, cases, measure_cost
from rfp.reproduce.cost_report import cost_file, cost_lines, cost_markdown, read_cost, write_cost

TINY = CostSize(num_nodes=300, num_edges=900, num_channels=4, num_steps=3, hidden_channels=8, repeats=2)


def test_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cost, "_peak_in_a_process", lambda row, quantity, size: 3 << 20)
    lines: list[str] = []
    rows = measure_cost("cpu", TINY, lines.append)
    expected = [("rfp-qr-A", "encode")] + [(r, q) for r in ("gcn", "rfp-qr-A") for q in ("forward", "step")]
    assert [(row.row, row.quantity) for row in rows] == expected
    assert all(0 < row.fastest <= row.milliseconds <= row.slowest for row in rows)
    assert all(row.peak_mib == 3.0 and row.repeats >= 2 for row in rows)
    assert len(lines) == 5
    path = cost_file(tmp_path, "cpu", quick=True)
    assert path.name.endswith("-quick.csv")
    write_cost(rows, TINY, "cpu", path)
    again, facts = read_cost(path)
    assert again == rows
    assert (facts["num_nodes"], facts["hidden_channels"]) == ("300", "8")
    assert facts["torch"] == torch.__version__


@pytest.mark.slow
def test_peak_memory_of_a_process() -> None:
    size = CostSize(num_nodes=20_000, num_edges=40_000, num_channels=32, num_steps=16, hidden_channels=8, repeats=1)
    peak = cost._peak_in_a_process("rfp-qr-A", "encode", size)
    result = 20_000 * 32 * 17 * 4
    assert result <= peak < 3 * result


def test_the_models_do_what_their_rows_say() -> None:
    answers = {(row, quantity): function() for row, quantity, function in cases("cpu", TINY)}
    for row in ("gcn", "rfp-qr-A"):
        prediction = answers[row, "forward"]
        assert isinstance(prediction, torch.Tensor)
        assert prediction.shape == (300, 40)
        assert not prediction.requires_grad
    assert answers["rfp-qr-A", "encode"].states.shape == (1, 300, 4, 4)  # type: ignore[attr-defined]


def test_a_wrong_encoding_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = cost.rfp.encode
    monkeypatch.setattr(cost.rfp, "encode", lambda *a, **k: encode(*a, **{**k, "normalization": "l2"}))
    with pytest.raises(NumericalError, match="the last step is not orthonormal"):
        measure_cost("cpu", TINY)


def test_beside_the_paper() -> None:
    rows = [
        CostRow("rfp-qr-A", "encode", 9.0, 8.0, 10.0, 700.0, 5),
        CostRow("gcn", "step", 20.0, 19.0, 21.0, 2000.0, 5),
        CostRow("rfp-qr-A", "forward", 12.345, 12.0, 13.0, 900.0, 5),
        CostRow("rfp-qr-A", "step", 30.0, 29.0, 31.0, 2500.0, 5),
    ]
    lines = cost_lines(rows)
    assert lines[0] == ["RFP", "encoding", "9.00 (8.00–10.00)", "–", "700", "–"]
    assert lines[1][-1] == "7635"
    assert lines[2] == ["GCN + RFP", "forward pass", "12.35 (12.00–13.00)", "61.44", "900", "–"]
    assert lines[3][-1] == "9268"
    assert all(line[3] == line[5] == "–" for line in cost_lines(rows, with_paper=False))
    facts = {"num_nodes": "169343", "num_edges": "1166243", "num_channels": "64", "num_steps": "16"}
    facts |= {"num_layers": "2", "hidden_channels": "256", "device": "a GPU", "torch": "2"}
    text = cost_markdown(rows, facts)
    assert "169,343 nodes and 1,166,243 undirected edges, k=64, P=16" in text
    assert "| GCN + RFP | forward pass | 12.35 (12.00–13.00) | 61.44 | 900 | – |" in text


def test_a_damaged_file(tmp_path: Path) -> None:
    for text in ("", "row,quantity\nx,y\n", "row,quantity,milliseconds\na,b,c\n"):
        (tmp_path / "bad.csv").write_text(text)
        with pytest.raises(FileError, match="not a measurement of cost"):
            read_cost(tmp_path / "bad.csv")
