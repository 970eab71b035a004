"""Time and error of triangle and 4-cycle counts: estimated, exact, SciPy and NetworkX in the same run.

    python benchmarks/count.py [arxiv ten-million dense]

Writes ``benchmarks/results/count-<machine>.csv``; rows of graphs that are not named stay. Times are from
``edge_index`` to the count: checking that the graph is simple, building the matrix, hashing the graph, drawing
features. Converting to NetworkX is not counted against NetworkX. A correctness gate runs first; nothing is timed if it
fails.
"""

from __future__ import annotations

import csv
import multiprocessing
import queue
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import scipy.sparse as sp

from rfp.bench.generated_graphs import ARXIV_EDGES, ARXIV_NODES, power_law
from rfp.bench.measure import measure
from rfp.environment import environment, slug
from rfp.graph import Graph
from rfp.theory import SampleEstimate, count_cycles4, count_triangles, exact_count, exact_work

RESULTS = Path(__file__).parent / "results"
NETWORKX_SECONDS = 120
# Terms of A @ A that SciPy may hold at once: twelve bytes each.
SCIPY_TERMS = 4e8

GRAPHS: dict[str, Callable[[], Graph]] = {
    "arxiv": lambda: power_law(ARXIV_NODES, ARXIV_EDGES),
    "ten-million": lambda: power_law(1_428_571, 10_000_000),
    "dense": lambda: power_law(50_000, 10_000_000),
}


# What `rfp count` does, each of its two remedies alone, and the paper's algorithm.
METHODS: dict[str, dict[str, Any]] = {
    "rfp estimate, as rfp count": {"epsilon": 0.05, "hubs": None, "deflation": 8},
    "rfp estimate, 128 samples, hubs only": {"num_samples": 128, "hubs": None},
    "rfp estimate, 128 samples, deflation 32 only": {"num_samples": 128, "deflation": 32},
    "rfp estimate, 128 samples, plain": {"num_samples": 128},
}


@dataclass(frozen=True)
class Row:
    """One line of the result file; ``seconds`` is empty and ``note`` says why where nothing was measured."""

    graph: str
    num_nodes: int
    num_edges: int
    pattern: str
    method: str
    seconds: float | None = None
    repeats: int = 0
    peak_mib: float | None = None
    count: float | None = None
    relative_error: float | None = None
    half_width: float | None = None
    num_samples: int | None = None
    note: str = ""


def fresh(graph: Graph) -> Graph:
    """The graph without what earlier calls have cached on it."""
    return Graph.unchecked(graph.edge_index, graph.num_nodes)


def gate() -> None:
    graph = power_law(3000, 20_000, seed=1)
    expected = sum(nx.triangles(to_networkx(graph)).values()) // 3
    if exact_count(graph, "triangle") != expected:
        raise SystemExit("the exact count differs from NetworkX: nothing is timed")
    estimate = count_triangles(graph, num_samples=2000, deflation=32)
    if abs(estimate.value - expected) > 5 * estimate.standard_error:
        raise SystemExit("the estimate is five standard errors off: nothing is timed")


def to_networkx(graph: Graph) -> nx.Graph:
    out = nx.Graph()
    out.add_nodes_from(range(graph.num_nodes))
    out.add_edges_from(graph.edge_index.T.tolist())
    return out


def rows(name: str, graph: Graph) -> Iterator[Row]:
    common = {"graph": name, "num_nodes": graph.num_nodes, "num_edges": graph.num_edges // 2}
    repeats = 3 if graph.num_edges < 5_000_000 else 1
    estimators = {"triangle": count_triangles, "cycle4": count_cycles4}
    if exact_work(graph, "cycle4") > 1e9:
        del estimators["cycle4"]  # the exact count would take ten minutes
    truth: dict[str, int] = {}
    for pattern in estimators:
        work = exact_work(graph, pattern)
        found: list[int] = []
        timing = measure(lambda p=pattern, f=found: f.append(exact_count(fresh(graph), p)), repeats=repeats, warm_up=0)
        truth[pattern] = found[0]
        yield Row(**common, pattern=pattern, method="rfp exact", seconds=timing.seconds, repeats=repeats,
                  peak_mib=timing.peak_bytes / 2**20, count=found[0], relative_error=0.0,
                  note=f"{work:.2e} terms")  # fmt: skip
    for pattern, estimator in estimators.items():
        for method, options in METHODS.items():
            seen: list[SampleEstimate] = []
            timing = measure(
                lambda e=estimator, o=options, s=seen: s.append(e(fresh(graph), **o)),
                repeats=repeats if "epsilon" in options else 1,
                warm_up=0,
            )
            e = seen[0]
            needed = e.num_samples * (e.relative_half_width / 0.05) ** 2
            yield Row(**common, pattern=pattern, method=method, seconds=timing.seconds, repeats=timing.repeats,
                      peak_mib=timing.peak_bytes / 2**20, count=e.value,
                      relative_error=abs(e.value / truth[pattern] - 1), half_width=e.relative_half_width,
                      num_samples=e.num_samples,
                      note="" if "epsilon" in options else f"fixed; {needed:.2g} samples would give 5 %")  # fmt: skip
    yield from scipy_rows(common, graph, truth["triangle"], repeats)
    yield networkx_row(common, graph, truth["triangle"])


def scipy_rows(common: dict[str, object], graph: Graph, truth: int, repeats: int) -> Iterator[Row]:
    degree = graph.edge_index[0].bincount(minlength=graph.num_nodes).double()

    def whole() -> int:
        A = graph.to_scipy()
        return round((A @ A).multiply(A).sum() / 6)

    def lower() -> int:
        L = sp.tril(graph.to_scipy(), format="csr")
        return round((L @ L).multiply(L).sum())

    for method, function in (("SciPy, (A @ A) * A", whole), ("SciPy, (L @ L) * L", lower)):
        terms = float(degree.square().sum()) if function is whole else float(degree.square().sum()) / 6
        if terms > SCIPY_TERMS:
            yield Row(**common, pattern="triangle", method=method, note=f"skipped: about {terms:.1e} terms at once")
            continue
        found: list[int] = []
        timing = measure(lambda f=function, s=found: s.append(f()), repeats=repeats, warm_up=0)
        yield Row(**common, pattern="triangle", method=method, seconds=timing.seconds, repeats=repeats,
                  peak_mib=timing.peak_bytes / 2**20, count=found[0],
                  relative_error=abs(found[0] / truth - 1))  # fmt: skip


def _networkx_worker(edges: list[list[int]], num_nodes: int, out: multiprocessing.Queue[tuple[float, int]]) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edges)
    out.put((0.0, 0))  # the graph is built: the clock starts
    start = time.perf_counter()
    found = sum(nx.triangles(graph).values()) // 3
    out.put((time.perf_counter() - start, found))


def networkx_row(common: dict[str, object], graph: Graph, truth: int) -> Row:
    if graph.num_edges > 5_000_000:
        return Row(**common, pattern="triangle", method="NetworkX", note="skipped: more than 2.5 million edges")
    out: multiprocessing.Queue[tuple[float, int]] = multiprocessing.Queue()
    worker = multiprocessing.Process(target=_networkx_worker, args=(graph.edge_index.T.tolist(), graph.num_nodes, out))
    worker.start()
    out.get()
    try:
        seconds, found = out.get(timeout=NETWORKX_SECONDS)
    except queue.Empty:
        worker.terminate()
        return Row(**common, pattern="triangle", method="NetworkX", note=f"stopped after {NETWORKX_SECONDS} s")
    worker.join()
    return Row(**common, pattern="triangle", method="NetworkX", seconds=seconds, repeats=1, count=found,
               relative_error=abs(found / truth - 1))  # fmt: skip


def main() -> None:
    gate()
    facts = environment("cpu")
    found: list[dict[str, Any]] = []
    for name in sys.argv[1:] or GRAPHS:
        graph = GRAPHS[name]()
        for row in rows(name, graph):
            seconds = "" if row.seconds is None else f"{row.seconds:.3g} s"
            result = f"count {row.count} error {row.relative_error} samples {row.num_samples} {row.note}"
            print(f"{name:12s} {row.pattern:9s} {row.method:44s} {seconds:9s} {result}", flush=True)
            rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in asdict(row).items()}
            found.append(rounded | facts)
    path = RESULTS / f"count-{slug('cpu')}.csv"
    RESULTS.mkdir(exist_ok=True)
    measured = {row["graph"] for row in found}
    if path.exists():
        with path.open(newline="") as file:
            found = [row for row in csv.DictReader(file) if row["graph"] not in measured] + found
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
