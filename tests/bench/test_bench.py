"""The measuring itself: the files, the slope, peers that compute what they say."""

import itertools
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.bench import gate, generated_graphs, measure, peers, result_file, start_case, walk_case
from rfp.bench.result_file import BenchRow
from rfp.conversion import as_graph
from rfp.errors import ArgumentError

HAT = ("normalized_adjacency",)


def test_power_law_is_simple_undirected_and_deterministic() -> None:
    graph = generated_graphs.power_law(500, 3000, seed=1)
    assert graph.num_edges == 6000
    matrix = graph.to_scipy().toarray()
    assert set(np.unique(matrix)) == {0.0, 1.0}
    np.testing.assert_array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()
    assert torch.equal(graph.edge_index, generated_graphs.power_law(500, 3000, seed=1).edge_index)
    degrees = np.sort(matrix.sum(0))
    assert degrees[-1] > 8 * np.median(degrees)  # heavy-tailed
    with pytest.raises(ArgumentError, match="too many"):
        generated_graphs.power_law(10, 1000)


def test_molecule_like_sizes() -> None:
    graph = generated_graphs.molecule_like(50)
    assert graph.num_graphs == 50
    assert int(graph.sizes.min()) >= 9
    assert graph.largest <= 37


def test_peers_compute_subspace_iteration() -> None:
    """Each peer's last step spans what ours does: the dominant eigenspace."""
    torch.manual_seed(0)  # peers draw from the global generator, as one writes it first
    graph = as_graph(nx.Graph(nx.karate_club_graph().edges))
    eigenvectors = torch.linalg.eigh(rfp.operators.from_name(HAT[0], graph).to_dense())
    top = eigenvectors.eigenvectors[:, eigenvectors.eigenvalues.abs().argsort(descending=True)[:2]]
    ours = rfp.encode(graph, num_channels=2, num_steps=200).last()[0]
    batch = as_graph([graph, graph])
    results = [
        ours,
        peers.plain_loop(graph, HAT, 2, 200)[:, -2:],
        peers.loop_over_graphs([graph], HAT, 2, 200)[0][:, -2:],
        peers.padded_batches(batch, HAT, 2, 200)[0][1, :, -2:],
    ]
    for basis in results:
        torch.testing.assert_close(basis @ basis.T, top @ top.T, atol=1e-4, rtol=0)


def test_matchings_are_symmetric_normalised_and_skewed() -> None:
    csr = generated_graphs.matchings(2000, 14_000)
    matrix = csr.to_scipy().toarray()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-7)
    assert np.linalg.eigvalsh(matrix.astype(float))[-1] == pytest.approx(1.0, abs=1e-5)  # that of D^-1/2 (A + I) D^-1/2
    assert (csr.nnz - 2000) / 2 == pytest.approx(14_000, rel=0.01)
    degrees = np.sort(np.diff(csr.crow.numpy()))
    assert degrees[-1] > 4 * np.median(degrees)


def test_first_graphs_are_those_of_the_batch() -> None:
    batch = generated_graphs.random_batch(10, 12, seed=3)
    first = generated_graphs.first_graphs(batch, 4)
    assert torch.equal(first.sizes, batch.sizes[:4])
    assert torch.equal(first.edge_index, batch.edge_index[:, : first.num_edges])


def test_zinc_from_a_prepared_file(tmp_path: Path) -> None:
    edges = torch.tensor([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]])
    stored = {"edge_index": edges.to(torch.int8), "num_nodes": torch.tensor([2, 3]), "num_edges": torch.tensor([2, 4])}
    torch.save(stored, tmp_path / "zinc12k.pt")
    graph = generated_graphs.zinc(tmp_path)
    assert graph.num_graphs == 2
    assert graph.edge_index.tolist() == [[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]]


def test_measure_counts_calls_and_memory() -> None:
    calls = []
    ticks = itertools.count()
    work = lambda: calls.append(torch.ones(1 << 23))  # noqa: E731
    timing = measure.measure(work, repeats=3, warm_up=2, clock=lambda: next(ticks))
    assert len(calls) == 5
    assert timing.fastest <= timing.seconds <= timing.slowest
    assert timing.peak_bytes == 0 or timing.peak_bytes > 2 * (1 << 25)


def test_return_probabilities_of_growing_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours says its error, which is that of k = 64 samples; PyG's is run where its n^2 entries fit."""
    graph = generated_graphs.power_law(1500, 6000)
    ours, peer = walk_case.walk_contenders(graph, 6000)
    assert ours.name.startswith("rfp, 6,000 edges (rms error 0.")
    estimate, exact = ours.run(), peer.run().random_walk_pe  # type: ignore[misc]
    assert estimate.value.shape == exact.shape == (1500, 16)
    error, spread = walk_case.errors(graph, estimate.value)
    nodes = torch.linspace(0, 1499, 64).long()
    assert error == pytest.approx(float((estimate.value - exact)[nodes].square().mean().sqrt()), rel=1e-3)
    assert 0 < error < spread
    assert walk_case.errors(graph, exact)[0] < 1e-5
    monkeypatch.setattr(walk_case, "available_memory", lambda device: None)  # not known: eight gigabytes are there
    _, peer = walk_case.walk_contenders(graph, 6000)
    assert peer.run is not None
    monkeypatch.setattr(walk_case, "available_memory", lambda device: 1500**2 * 100)
    _, peer = walk_case.walk_contenders(graph, 6000)
    assert peer.run is None
    assert "n^2 entries" in peer.skip


def test_slope_of_a_known_law() -> None:
    rows = [
        BenchRow("scaling", "x", max(1.0, 1e-8 * edges**1.05), None, None, 1, None, None, None, edges, "")
        for edges in (1000, 10**8, 10**9)  # a small graph takes as long as the call
    ]
    assert result_file.scaling_slope(rows) == pytest.approx(1.05)
    assert result_file.scaling_slope(rows[:2]) is None


def test_plots_of_several_machines(tmp_path: Path) -> None:
    from rfp.viz.benchmark import plot_benchmark

    files = []
    for number in range(2):
        scaling = [
            BenchRow("scaling", f"10^{e}", 10.0 ** (e - 6 - number), None, None, 1, None, None, None, 10**e, "")
            for e in (5, 6, 7)
        ]
        bars = [BenchRow("large", name, t, t, t, 1, t, None, None, 0, "") for name, t in (("rfp", 1.0), ("peer", 3.0))]
        folder = tmp_path / str(number)
        files.append(result_file.write_rows([*bars, *scaling], {"device": f"machine {number}"}, folder, "cpu"))
    picture = plot_benchmark(files, tmp_path / "both.png")
    assert picture.stat().st_size > 10_000
    assert [result_file.machine(path) for path in files] == ["machine 0", "machine 1"]


def test_repeats_go_on_until_they_agree() -> None:
    """A clock of its own: first steady times, then times that never agree."""
    now = 0.0
    times = iter([1.0, 9.0, 1.0, 1.0, 1.0, 1.0, 1.0])

    def work() -> None:
        nonlocal now
        now += next(times)

    timing = measure.measure(work, repeats=2, warm_up=0, clock=lambda: now)
    assert (timing.repeats, timing.seconds, timing.slowest, timing.noisy) == (5, 1.0, 9.0, False)
    times = iter([1.0, 2.0] * 20)
    timing = measure.measure(work, repeats=2, warm_up=0, clock=lambda: now)
    assert (timing.repeats, timing.noisy) == (8, True)
    times = iter([40.0, 30.0, 40.0])
    assert measure.measure(work, repeats=2, warm_up=0, clock=lambda: now).repeats == 2  # a minute is enough
    times = iter([3.0])
    assert measure.measure(work, repeats=1, warm_up=0, clock=lambda: now).repeats == 1


def test_short_calls_are_made_often() -> None:
    now = 0.0

    def work() -> None:
        nonlocal now
        now += next(times)

    times = iter([0.06, 0.04, *[0.01] * 50])  # the first ones cold
    assert measure.measure(work, repeats=2, warm_up=0, clock=lambda: now).seconds == pytest.approx(0.01)
    times = iter([0.01] * 50)
    assert measure.measure(work, repeats=3, warm_up=0, clock=lambda: now).repeats == 20
    times = iter([0.001] * 60)
    assert measure.measure(work, repeats=3, warm_up=0, clock=lambda: now).repeats == 50
    times = iter([0.001] * 60)
    assert measure.measure(work, repeats=1, warm_up=0, clock=lambda: now).repeats == 1


def test_processor_seconds_of_children_are_theirs() -> None:
    before = measure.children_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)
    assert measure.children_seconds() > before


def _row(name: str, low: float, middle: float, high: float, ratio: float = 1.0) -> BenchRow:
    return BenchRow("case", name, middle, low, high, 3, ratio, None, None, 0, "")


def test_changes_between_two_files() -> None:
    old = [_row("a", 1.0, 1.1, 1.2), _row("b", 1.0, 1.1, 1.2), _row("c", 2.0, 2.1, 2.2), _row("gone", 1, 1, 1)]
    new = [_row("a", 1.3, 1.4, 1.5), _row("b", 1.1, 1.2, 1.3), _row("c", 1.0, 1.0, 1.1), _row("new", 1, 1, 1)]
    slower, faster = result_file.changes(old, new)
    assert slower == ["case, a: 1.1 s before, 1.4 s now (1.27x)"]
    assert faster == ["case, c: 2.1 s before, 1 s now (0.48x)"]
    old, new = (
        [_row("peer", 1, 1, 1, 4.0), _row("p", 1, 1, 1, 4.0)],
        [_row("peer", 9, 9, 9, 3.0), _row("p", 9, 9, 9, 3.9)],
    )
    assert result_file.changes(old, new, same_machine=False) == (["case, peer: 4x ours before, 3x now"], [])


def test_starts_are_whole_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def pretend(*arguments: str) -> None:
        asked.append(arguments)
        if "encode" in arguments:
            assert len(Path(arguments[3]).read_text().splitlines()) == 2 * 78
            np.save(arguments[5], np.zeros((34, 2)))
        if arguments[0] == "-c":
            exec(arguments[1], {})  # what is measured runs

    monkeypatch.setattr(start_case, "_python", pretend)
    contenders = []
    for contender in start_case.starts("cpu", None):  # their file is there meanwhile
        contenders.append(contender)
        assert len(asked) == len(contenders)  # the gate: one whole encode
        assert contender.run is not None
        contender.run()
    assert sum(arguments[0] == "-c" for arguments in asked) == 3
    assert all(contender.processes for contender in contenders)
    assert contenders[0].name.startswith("rfp encode")
    assert {"import torch", "import rfp", "rfp --help"} <= {contender.name for contender in contenders}


def test_a_start_that_fails_has_no_speed() -> None:
    with pytest.raises(gate.GateError, match="NameError"):
        start_case._python("-c", "nonsense")
