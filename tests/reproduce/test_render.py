"""A table as Markdown, CSV, JSON, terminal and files."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from rfp.reproduce.compare import Comparison
from rfp.reproduce.render import as_csv, as_markdown, as_records, as_terminal
from rfp.reproduce.table_job import write_table


def test_markdown(table: Comparison) -> None:
    lines = as_markdown(table).splitlines()
    assert lines[4] == "| Method | Texas ↑ | Cora ↑ |"
    assert lines[6] == "| GCN | – · 52.16 · – | 85.50 ± 0.53 (10 of 30) · 85.77 · −0.27 |"
    rfp = "| RFP-QR-Â | 83.00 ± 2.58 (4 of 50) · 84.74 · −1.74 | **88.00 ± 0.00** (10 of 30) · 87.99 · +0.01 |"
    assert lines[7] == rfp
    assert "- a note of the data" in lines
    assert lines[-1] == "- run on: a machine, torch 2"


def test_csv_and_json_hold_everything_unrounded(table: Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(as_csv(table))))
    assert len(lines) == 4
    (line,) = [line for line in lines if (line["row"], line["dataset"]) == ("rfp-qr-A", "cora")]
    assert float(line["mean"]) == pytest.approx(88)
    assert float(line["difference"]) == pytest.approx(0.01)
    assert (line["num_runs"], line["reached"], line["values"]) == ("10", "True", '{"training.lr": 0.01}')
    assert len(line["config"]) == 16
    (missing,) = [line for line in lines if (line["row"], line["dataset"]) == ("gcn", "texas")]
    assert (missing["mean"], missing["num_runs"], missing["paper_mean"]) == ("", "0", "52.16")
    assert [record["dataset"] for record in as_records(table)] == [line["dataset"] for line in lines]


def test_terminal(table: Comparison) -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(as_terminal(table))
    text = console.export_text()
    assert "88.00 ± 0.00 (10 of 30)" in text
    assert "87.99 +0.01" in text


def test_files(table: Comparison, tmp_path: Path) -> None:
    paths = write_table(table, tmp_path / "deep" / "tables", below="\nbelow\n")
    assert [path.name for path in paths] == ["table-2-part.md", "table-2-part.csv"]
    assert paths[0].read_text() == as_markdown(table) + "\nbelow\n"
    assert paths[1].read_text() == as_csv(table)
