"""``rfp table`` as a user runs it; training is replaced by made-up scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rfp.cli.main import app
from rfp.errors import ArgumentError, FileError
from rfp.reproduce import table_job
from rfp.reproduce.cost import CostRow
from rfp.reproduce.tables import TABLES
from rfp.train import Result, RunConfig, RunRecord, Workspace

PART = ["--only", "cornell,texas", "--rows", "mlp,rfp-qr-A"]


class FakeRun:
    """Stands for :func:`rfp.train.runs`: writes result files, skips what they hold."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.failing: dict[str, Exception] = {}

    def __call__(
        self, config: RunConfig, *, seeds: Sequence[int], splits: Sequence[int], workspace: Workspace, **more: Any
    ) -> Result:
        name = str(config.data.name)
        self.asked.append((name, config.name))
        if config.name in self.failing or name in self.failing:
            raise self.failing.get(config.name) or self.failing[name]
        score = 0.5 + 0.01 * len(self.asked)
        runs = tuple(RunRecord(s, p, {"val": score, "test": score}, 1, 2, 0.1, 10) for s in seeds for p in splits)
        result = Result(config, name, "accuracy", True, runs, (), {"device": "a machine", "torch": "2"}, ("said",))
        assert workspace.results is not None
        result.write(workspace.results)
        return result


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    run = FakeRun()
    monkeypatch.setattr(table_job, "run", run)
    return run


def rfp_table(*arguments: str | Path, folder: Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["table", *map(str, arguments), "--results", str(folder), "--device", "cpu"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def test_runs_what_is_missing_and_renders(fake: FakeRun, tmp_path: Path) -> None:
    text = rfp_table("2", *PART, folder=tmp_path)
    # RFP first, small graphs first.
    assert fake.asked == [(d, r) for r in ("rfp-qr-A", "mlp") for d in ("cornell", "texas")]
    assert "51.00 ± 0.00 (50)" in text
    assert "85.13 −34.13" in text  # the paper's RFP-QR on Cornell and the difference
    assert "- said" in text
    markdown = (tmp_path / "tables" / "table-2-part.md").read_text()
    assert "| RFP-QR-Â | 51.00 ± 0.00 (50) · 85.13 · −34.13 |" in markdown
    assert (tmp_path / "tables" / "table-2-part.csv").read_text().count("\n") == 5
    fake.asked.clear()
    rfp_table("2", *PART, folder=tmp_path)
    assert fake.asked == []
    rfp_table("2", "--only", "texas", "--rows", "rfp-qr-A-dss", folder=tmp_path)
    fake.asked.clear()
    rfp_table("6", "--only", "texas", "--rows", "rfp-qr-A-dss,rfp-qr-A-k4", folder=tmp_path)
    assert fake.asked == [("texas", "rfp-qr-A-k4")]  # the other one is table 2's
    assert (tmp_path / "tables" / "table-6-part-k.png").read_bytes().startswith(b"\x89PNG")


def test_dry_run_and_render_only_train_nothing(fake: FakeRun, tmp_path: Path) -> None:
    lines = rfp_table("2", *PART, "--seeds", "2", "--dry-run", folder=tmp_path).splitlines()
    assert lines[-1] == "4 cells, 80 runs to do"
    assert lines[0].split()[:2] == ["cornell", "mlp"]
    assert lines[0].endswith("to run: 20 of 20")
    assert not list(tmp_path.iterdir())
    text = rfp_table("2", *PART, "--render-only", "--others", folder=tmp_path)
    assert fake.asked == []
    assert "80.89" in text
    assert "GGCN" in text
    rfp_table("2", *PART, folder=tmp_path)
    lines = rfp_table("2", *PART, "--seeds", "7", "--dry-run", folder=tmp_path).splitlines()
    assert lines[0].endswith("to run: 20 of 70")


@pytest.mark.parametrize("option", ["--results", "--checkpoints", "--output"])
def test_a_folder_that_cannot_be_one_is_told_before_anything_is_trained(
    fake: FakeRun, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").touch()
    inside = tmp_path / "file" / "inside"
    folder, more = (inside, []) if option == "--results" else (tmp_path / "r", [option, inside])
    with pytest.raises(FileError, match=r"inside.*: cannot be used as a folder \(.*file is a file\); give another"):
        rfp_table("2", *PART, *more, folder=folder)
    assert fake.asked == []


def test_json_and_output_folder(fake: FakeRun, tmp_path: Path) -> None:
    report = json.loads(rfp_table("2", *PART, "--json", "-o", tmp_path / "out", folder=tmp_path / "r"))
    assert (report["table"], len(report["cells"])) == ("2-part", 4)
    assert report["cells"][0]["paper_mean"] == 80.89
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["table-2-part.csv", "table-2-part.md"]


def test_quick_is_marked(fake: FakeRun, tmp_path: Path) -> None:
    text = rfp_table("2", "--quick", folder=tmp_path)
    assert "quick subset" in text
    assert {name for _, name in fake.asked} == {"quick-mlp", "quick-rnf", "quick-rfp-qr-A"}
    assert all(path.name.startswith("quick-") for path in tmp_path.rglob("*.json"))
    assert (tmp_path / "tables" / "table-2-quick.md").exists()
    assert "– · 80.89 · –" in rfp_table_markdown("2", *PART, "--render-only", folder=tmp_path)


def rfp_table_markdown(*arguments: str, folder: Path) -> str:
    rfp_table(*arguments, folder=folder)
    return (folder / "tables" / "table-2-part.md").read_text()


def test_failures_are_said_and_the_rest_is_rendered(fake: FakeRun, tmp_path: Path) -> None:
    fake.failing["mlp"] = ArgumentError("the model is too large")
    text = rfp_table("2", *PART, folder=tmp_path, code=1)
    assert "failed: texas mlp: the model is too large" in text
    assert len(fake.asked) == 4
    assert (tmp_path / "tables" / "table-2-part.md").exists()
    fake.failing = {"mlp": RuntimeError("CUDA out of memory. Tried to allocate")}
    assert "out of memory on cpu" in rfp_table("2", *PART, folder=tmp_path, code=1)
    fake.failing = {"mlp": RuntimeError("a bug")}
    with pytest.raises(RuntimeError, match="a bug"):
        rfp_table("2", *PART, folder=tmp_path)


def test_table_7_measures_cost_and_leaves_missing_data_out(
    fake: FakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def measure(device: str, size: Any, say: Any) -> list[CostRow]:
        measured.append(device)
        return [CostRow("rfp-qr-A", "forward", 12.0, 11.0, 13.0, 100.0, 3)]

    monkeypatch.setattr(table_job, "measure_cost", measure)
    fake.failing["ogbn-arxiv"] = FileError("ogbn-arxiv: the raw files are missing")
    text = rfp_table("7", folder=tmp_path)
    assert "61.44" in text
    assert "71.97" in text
    assert "12.00 (11.00–13.00)" in (tmp_path / "tables" / "table-7.md").read_text()
    rfp_table("7", folder=tmp_path)
    assert measured == ["cpu"]  # kept
    report = json.loads(rfp_table("7", "--render-only", "--json", folder=tmp_path))
    assert report["cost"][0]["rows"][0]["paper, RTX 3090"] == "61.44"
    quick = rfp_table("7", "--quick", folder=tmp_path)
    assert measured == ["cpu", "cpu"]
    assert "61.44" not in quick


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["9"], "the tables are 1 to 8, got 9"),
        (["2", "--rows", "gat"], "a row of table 2 must be one of"),
        (["2", "--only", "zinc"], "a column of table 2 must be one of"),
        (["2", "--quick", "--only", "cora"], "a column of table 2 in its quick subset must be one of"),
    ],
)
def test_wrong_command_lines(tmp_path: Path, arguments: list[str], message: str) -> None:
    text = rfp_table(*arguments, folder=tmp_path, code=2)
    assert message in " ".join(text.replace("│", " ").split())


def test_a_damaged_result_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "texas").mkdir()
    (tmp_path / "texas" / "x.json").write_text("{")
    with pytest.raises(FileError, match=r"x\.json: damaged result file"):
        rfp_table("2", "--render-only", folder=tmp_path)


def test_no_table_is_lost_to_a_part_or_a_mistyped_folder(fake: FakeRun, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    rfp_table("2", *PART, folder=tmp_path)
    rfp_table("2", "--render-only", folder=tmp_path)
    whole = (tables / "table-2.md").read_text()
    rfp_table("2", "--render-only", "--only", "texas", folder=tmp_path)
    rfp_table("2", "--render-only", "--rows", "mlp", folder=tmp_path)
    assert rfp_table("2", "--render-only", "--seeds", "1", folder=tmp_path)
    assert (tables / "table-2.md").read_text() == whole
    assert "Cornell" not in rfp_table("2", "--render-only", "--only", "texas", folder=tmp_path)
    with pytest.raises(FileError, match="resuls: no such folder of results; correct --results"):
        rfp_table("2", "--render-only", "-o", tables, folder=tmp_path / "resuls")
    assert not (tmp_path / "resuls").exists()
    (tmp_path / "empty").mkdir()
    assert "85.13" in rfp_table("2", "--render-only", "-o", tables, folder=tmp_path / "empty")  # the paper's alone
    assert (tables / "table-2.md").read_text() == whole


def test_curves_of_an_ablation(fake: FakeRun, tmp_path: Path) -> None:
    rows = "rfp-qr-A-P2,rfp-qr-A-k64,rfp-qr-A-k4"
    rfp_table("6", "--only", "texas", "--rows", rows, folder=tmp_path)
    spec = TABLES[6].only(rows.split(","), ["texas"])
    table = table_job.render_table(table_job.TableJob(spec, tmp_path, tmp_path / "t")).table
    (k,), (P,) = (table_job.curves(table, letter) for letter in "kP")
    assert [point[0] for point in k.ours] == [4, 64]
    assert k.paper == ((4, 82.70), (64, 84.32))
    assert [point[0] for point in P.ours] == [2, 16]
    assert P.ours[1][1:] == k.ours[1][1:]  # the cell that both have
