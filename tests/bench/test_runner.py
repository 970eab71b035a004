"""Cases are run as the command says; what fails, is skipped or is cut has its row."""

import csv
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from typer.testing import CliRunner

from rfp.bench import gate, result_file, runner
from rfp.bench.contender import Case, Contender
from rfp.bench.result_file import BenchRow
from rfp.cli.main import Interrupted, app
from rfp.errors import ArgumentError, FileError


def pretend(monkeypatch: pytest.MonkeyPatch, *cases: Case) -> None:
    """There are these cases alone, and a copy moves a gigabyte a second."""
    by_name = {case.name: case for case in cases}
    monkeypatch.setattr("rfp.bench.runner.CASES", by_name)
    monkeypatch.setattr("rfp.bench.cases.CASES", by_name)
    monkeypatch.setattr("rfp.cli.bench.NAMES", tuple(by_name))
    monkeypatch.setattr("rfp.bench.runner.copy_bandwidth", lambda device: 1e9)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def take(seconds: float) -> None:
        nonlocal now
        now += seconds

    def build(device: str, data_root: Path | None):
        yield Contender("ours", lambda: take(0.25), repeats=2, result_bytes=10, moved_bytes=2e6)
        yield Contender("peer", lambda: take(1.5), repeats=2)
        yield Contender("a tenth", lambda: take(1.5), repeats=2, share=0.1)
        yield Contender("absent", None, skip="not installed")

    # A clock that only the contenders move: what is tested is what becomes of times, not the machine.
    monkeypatch.setattr("rfp.bench.runner.time", SimpleNamespace(perf_counter=lambda: now))

    pretend(monkeypatch, Case("tiny", "a tiny case", build))
    monkeypatch.setattr("rfp.bench.runner.peak_bytes", lambda case, data_root: 25)


@pytest.mark.usefixtures("tiny")
def test_a_folder_that_cannot_hold_the_result_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr("rfp.bench.runner.run_cases", lambda *_, **__: pytest.fail("was measured"))
    monkeypatch.setattr("rfp.bench.partitioned.measure_partitioned", lambda *_, **__: pytest.fail("was measured"))
    inside = str(tmp_path / "file" / "inside")
    for arguments in (["tiny", "-o", inside], ["partitioned", "-o", inside], ["partitioned", "--folder", inside]):
        done = CliRunner().invoke(app, ["bench", *arguments])
        assert isinstance(done.exception, FileError)
        assert "is a file); give another" in str(done.exception)


@pytest.mark.usefixtures("tiny")
def test_command_writes_a_result_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "tiny", "-o", str(tmp_path), "--plot", str(tmp_path / "p.png"), "--json"])
    assert done.exit_code == 0, done.output
    path = next(tmp_path.glob("*.csv"))
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == ["ours", "peer", "a tenth", "absent"]
    assert lines[3]["skipped"] == "not installed"
    assert lines[3]["seconds"] == ""
    assert [float(line["seconds"]) for line in lines[:3]] == pytest.approx([0.25, 1.5, 15.0])
    # Two megabytes at the gigabyte a second that the copy is said to make.
    assert float(lines[0]["times_copy"]) == pytest.approx(0.25 / 2e-3)
    assert lines[1]["times_copy"] == ""
    assert float(lines[1]["ratio"]) == pytest.approx(6.0)
    assert float(lines[0]["peak_over_result"]) == 2.5
    assert lines[0]["torch"] == torch.__version__
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert [row.name for row in result_file.read_rows(path)] == ["ours", "peer", "a tenth", "absent"]


@pytest.mark.usefixtures("tiny")
def test_rows_of_other_cases_stay(tmp_path: Path) -> None:
    rows, facts = runner.run_cases(["tiny"], "cpu", None, say=lambda line: None)
    other = [BenchRow("older", "x", 1.0, 1.0, 1.0, 1, 1.0, 0.0, None, 0, "")]
    result_file.write_rows(other, facts, tmp_path, "cpu")
    path = result_file.write_rows(rows, facts, tmp_path, "cpu")
    assert [row.case for row in result_file.read_rows(path)] == ["older", "tiny", "tiny", "tiny", "tiny"]


def test_cases_that_need_a_gpu_are_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(device: str, data_root: Path | None):
        raise AssertionError("must not be built")
        yield

    pretend(monkeypatch, Case("vast", "a vast case", build, needs_gpu=True))
    rows, _ = runner.run_cases(["vast"], "cpu", None, say=lambda line: None)
    assert [(row.case, row.skipped) for row in rows] == [("vast", "needs a GPU")]


def test_a_case_that_fails_its_gate_stops_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def build(device: str, data_root: Path | None):
        raise gate.GateError("the features differ by 0.5")
        yield

    pretend(monkeypatch, Case("broken", "a broken case", build))
    done = CliRunner().invoke(app, ["bench", "broken", "-o", str(tmp_path)])
    assert done.exit_code == 1
    (row,) = result_file.read_rows(next(tmp_path.glob("*.csv")))
    assert (row.name, row.seconds, row.skipped) == ("stopped", None, "GateError: the features differ by 0.5")


def test_a_peer_that_fails_has_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("no such kernel\nand more")

    def build(device: str, data_root: Path | None):
        yield Contender("rfp", lambda: None)
        yield Contender("a peer", fails)
        yield Contender("another peer", lambda: None)

    pretend(monkeypatch, Case("tiny", "a tiny case", build))
    rows, _ = runner.run_cases(["tiny"], "cpu", None, lambda line: None)
    assert [(row.name, row.skipped) for row in rows] == [
        ("rfp", ""),
        ("a peer", "failed: RuntimeError: no such kernel"),
        ("another peer", ""),
    ]
    pretend(monkeypatch, Case("tiny", "a tiny case", lambda device, data_root: iter([Contender("rfp", fails)])))
    with pytest.raises(RuntimeError, match="no such kernel"):
        runner.run_cases(["tiny"], "cpu", None, lambda line: None)


def test_rows_of_a_case_that_is_cut_stand_by_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted() -> None:
        # What a process leaves that is killed here.
        assert [(row.case, row.name) for row in result_file.read_rows(cut)] == [("second", "rfp")]
        raise Interrupted("SIGTERM")

    def build(device: str, data_root: Path | None):
        yield Contender("rfp", lambda: None)
        yield Contender("a peer", peer)

    pretend(monkeypatch, *(Case(name, "a tiny case", build) for name in ("first", "second")))
    command = ["bench", "first", "second", "-o", str(tmp_path)]
    peer: Callable[[], None] = lambda: None  # noqa: E731
    assert CliRunner().invoke(app, command).exit_code == 0
    (path,) = tmp_path.glob("*.csv")
    before = path.read_text()

    peer = interrupted
    cut = path.with_name(f"{path.stem}-cut.csv")
    with pytest.raises(Interrupted) as caught:
        CliRunner().invoke(app, ["bench", "second", "-o", str(tmp_path)], catch_exceptions=False)
    assert caught.value.kept == f"cases that are complete are kept, rows of the last one in {cut}"
    assert [(row.case, row.name) for row in result_file.read_rows(cut)] == [("second", "rfp")]
    assert path.read_text() == before

    # Another case leaves them there; their own takes them away when it is complete.
    peer = lambda: None  # noqa: E731
    assert CliRunner().invoke(app, ["bench", "first", "-o", str(tmp_path)]).exit_code == 0
    assert [(row.case, row.name) for row in result_file.read_rows(cut)] == [("second", "rfp")]
    assert CliRunner().invoke(app, ["bench", "second", "-o", str(tmp_path)]).exit_code == 0
    assert not cut.exists()


def test_an_interruption_before_the_first_row_promises_no_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted() -> None:
        raise Interrupted("SIGTERM")

    def fine(device: str, data_root: Path | None):
        yield Contender("rfp", lambda: None)

    def cut_at_once(device: str, data_root: Path | None):
        yield Contender("rfp", interrupted)

    pretend(monkeypatch, Case("first", "a tiny case", fine), Case("second", "a tiny case", cut_at_once))
    with pytest.raises(Interrupted) as caught:
        CliRunner().invoke(app, ["bench", "first", "second", "-o", str(tmp_path)], catch_exceptions=False)
    assert caught.value.kept == "cases that are complete are kept"
    (path,) = tmp_path.glob("*.csv")
    assert [(row.case, row.name) for row in result_file.read_rows(path)] == [("first", "rfp")]


def test_the_command_knows_the_names_of_the_cases() -> None:
    from rfp.bench.cases import CASES
    from rfp.cli.bench import NAMES

    assert tuple(CASES) == NAMES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["foo"], "case must be one of 'large', 'small'"), (["start", "--compare", "nope.csv"], "nope.csv")],
)
def test_a_wrong_command_line_is_refused_before_anything_heavy_is_loaded(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    heavy = ("rfp.bench.cases", "torch_geometric", "torch")
    script = f"""
import sys
from rfp.cli.main import main
sys.argv = ["rfp", "bench", *{arguments!r}]
try:
    main()
except SystemExit as error:
    print(error.code, [name for name in {heavy!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "2 []\n"
    assert message in done.stderr


def test_unknown_case_and_missing_device_are_refused() -> None:
    runner_ = CliRunner()
    unknown = runner_.invoke(app, ["bench", "vast"])
    assert unknown.exit_code == 1
    assert str(unknown.exception).startswith("case must be one of 'large', 'small'")
    if not torch.cuda.is_available():
        absent = runner_.invoke(app, ["bench", "large", "--device", "cuda"])
        assert absent.exit_code == 2
        assert "cuda is not available" in " ".join(absent.output.split())


@pytest.mark.usefixtures("tiny")
def test_command_times_one_contender_and_compares(tmp_path: Path) -> None:
    run = CliRunner()
    assert run.invoke(app, ["bench", "tiny", "-o", str(tmp_path / "old")]).exit_code == 0
    old = next((tmp_path / "old").glob("*.csv"))
    done = run.invoke(app, ["bench", "tiny", "--only", "PEER", "-o", str(tmp_path / "old"), "--compare", str(old)])
    assert done.exit_code == 0, done.output
    assert "nothing became slower" in done.output
    assert [row.name for row in result_file.read_rows(old)] == ["a tenth", "absent", "ours", "peer"]
    text = old.read_text().replace("0.25,0.25,0.25", "0.15,0.15,0.15")
    old.write_text(text)
    done = run.invoke(app, ["bench", "tiny", "-o", str(tmp_path / "new"), "--compare", str(old)])
    assert done.exit_code == 1
    assert "slower: tiny, ours: 0.15 s before, 0.25 s now (1.67x)" in done.output
    assert "peer: " in done.output
    done = run.invoke(app, ["bench", "tiny", "--only", "nobody", "-o", str(tmp_path / "none")])
    assert isinstance(done.exception, ArgumentError)
    assert "has 'nobody' in its name" in str(done.exception)
    for content in ("", "a,b\n1,2\n"):
        (tmp_path / "bad.csv").write_text(content)
        done = run.invoke(app, ["bench", "tiny", "--compare", str(tmp_path / "bad.csv")])
        assert isinstance(done.exception, FileError)
        assert "not a result file of rfp bench" in str(done.exception)
    old.write_text(text.replace("0.15,0.15,0.15", "abc,0.15,0.15"))
    done = run.invoke(app, ["bench", "tiny", "--compare", str(old)])
    assert isinstance(done.exception, FileError)
    assert "'abc' stands where a number should" in str(done.exception)
