"""The measuring itself: the gate, the files, the slope, peers that compute what they say."""

import csv
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import rfp
from rfp.bench import cases, graphs, measure, peers, runner
from rfp.bench.cases import Case, Contender
from rfp.cli.main import app
from rfp.errors import ArgumentError
from rfp.graph import as_graph

HAT = ("normalized_adjacency",)


def test_power_law_is_simple_undirected_and_deterministic() -> None:
    graph = graphs.power_law(500, 3000, seed=1)
    assert graph.num_edges == 6000
    matrix = graph.to_scipy().toarray()
    assert set(np.unique(matrix)) == {0.0, 1.0}
    np.testing.assert_array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()
    assert torch.equal(graph.edge_index, graphs.power_law(500, 3000, seed=1).edge_index)
    degrees = np.sort(matrix.sum(0))
    assert degrees[-1] > 8 * np.median(degrees)  # heavy-tailed
    with pytest.raises(ArgumentError, match="too many"):
        graphs.power_law(10, 1000)


def test_molecule_like_sizes() -> None:
    graph = graphs.molecule_like(50)
    assert graph.num_graphs == 50
    assert int(graph.sizes.min()) >= 9
    assert graph.largest <= 37


def test_peers_compute_subspace_iteration() -> None:
    """Each peer's last step spans what ours does: the dominant eigenspace."""
    graph = as_graph(nx.Graph(nx.karate_club_graph().edges))
    eigenvectors = torch.linalg.eigh(rfp.operators.from_name(HAT[0], graph).to_dense())
    top = eigenvectors.eigenvectors[:, eigenvectors.eigenvalues.abs().argsort(descending=True)[:2]]
    ours = rfp.encode(graph, num_channels=2, num_steps=60).last()[0]
    batch = as_graph([graph, graph])
    results = [
        ours,
        peers.plain_loop(graph, HAT, 2, 60)[:, -2:],
        peers.loop_over_graphs([graph], HAT, 2, 60)[0][:, -2:],
        peers.padded_batches(batch, HAT, 2, 60)[0][1, :, -2:],
    ]
    for basis in results:
        torch.testing.assert_close(basis @ basis.T, top @ top.T, atol=1e-4, rtol=0)


def test_gate_stops_a_wrong_result(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphs.molecule_like(5)
    cases.gate(graph, num_channels=4, num_steps=3)
    right = rfp.encode

    def wrong(graph, backend="auto", **settings):
        trajectory = right(graph, backend=backend, **settings)
        if backend == "auto":
            trajectory.storage[..., -1, :] += 0.01
        return trajectory

    monkeypatch.setattr("rfp.bench.cases.rfp.encode", wrong)
    with pytest.raises(cases.GateError, match=r"differs from the reference by 0\.01"):
        cases.gate(graph, num_channels=4, num_steps=3)


def test_measure_counts_calls_and_memory() -> None:
    calls = []
    timing = measure.measure(lambda: calls.append(torch.ones(1 << 23)), repeats=3, warm_up=2)
    assert len(calls) == 5
    assert timing.fastest <= timing.seconds <= timing.slowest
    assert timing.peak_bytes == 0 or timing.peak_bytes > 2 * (1 << 25)


def test_slope_of_a_known_law() -> None:
    rows = [
        runner.Row("scaling", "x", 1e-8 * edges**1.05, None, None, 1, None, None, None, edges, "")
        for edges in (10, 1000, 10**6)
    ]
    assert runner.slope(rows) == pytest.approx(1.05)
    assert runner.slope(rows[:1]) is None


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(device: str, data_root: Path | None):
        yield Contender("ours", lambda: sum(range(1000)), repeats=2, result_bytes=10)
        yield Contender("peer", lambda: sum(range(100_000)), repeats=2)
        yield Contender("absent", None, skip="not installed")

    monkeypatch.setattr("rfp.bench.runner.CASES", {"tiny": Case("tiny", "a tiny case", build)})
    monkeypatch.setattr("rfp.bench.cases.CASES", {"tiny": Case("tiny", "a tiny case", build)})
    monkeypatch.setattr("rfp.bench.runner.copy_bandwidth", lambda device: 1e9)
    monkeypatch.setattr("rfp.bench.runner.peak_bytes", lambda case, data_root: 25)


@pytest.mark.usefixtures("tiny")
def test_command_writes_a_result_file(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["bench", "tiny", "-o", str(tmp_path), "--plot", str(tmp_path / "p.png"), "--json"])
    assert done.exit_code == 0, done.output
    path = next(tmp_path.glob("*.csv"))
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["name"] for line in lines] == ["ours", "peer", "absent"]
    assert lines[2]["skipped"] == "not installed"
    assert lines[2]["seconds"] == ""
    assert float(lines[1]["ratio"]) == pytest.approx(float(lines[1]["seconds"]) / float(lines[0]["seconds"]), rel=0.5)
    assert float(lines[0]["peak_over_result"]) == 2.5
    assert lines[0]["torch"] == torch.__version__
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert [row.name for row in runner.read(path)] == ["ours", "peer", "absent"]


@pytest.mark.usefixtures("tiny")
def test_rows_of_other_cases_stay(tmp_path: Path) -> None:
    rows, facts = runner.run(["tiny"], "cpu", None, say=lambda line: None)
    other = [runner.Row("older", "x", 1.0, 1.0, 1.0, 1, 1.0, 0.0, None, 0, "")]
    runner.write(other, facts, tmp_path, "cpu")
    path = runner.write(rows, facts, tmp_path, "cpu")
    assert [row.case for row in runner.read(path)] == ["older", "tiny", "tiny", "tiny"]


def test_unknown_case_and_missing_device_are_refused() -> None:
    runner_ = CliRunner()
    unknown = runner_.invoke(app, ["bench", "huge"])
    assert unknown.exit_code == 1
    assert "'large', 'small', 'scaling', got 'huge'" in str(unknown.exception)
    if not torch.cuda.is_available():
        absent = runner_.invoke(app, ["bench", "large", "--device", "cuda"])
        assert "cuda is not available" in str(absent.exception)
