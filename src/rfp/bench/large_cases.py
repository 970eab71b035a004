"""Cases of one large graph."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

import rfp
from rfp.bench import peers
from rfp.bench.contender import Contender, missing
from rfp.bench.gate import GateError, gate
from rfp.bench.generated_graphs import (
    ARXIV_EDGES,
    ARXIV_NODES,
    PAPERS_EDGES,
    PAPERS_NODES,
    matchings,
    power_law,
)
from rfp.encode import encode
from rfp.features import random_features
from rfp.graph import Graph
from rfp.operators import MatrixOperator, from_name
from rfp.settings import Settings

HAT = ("normalized_adjacency",)
LARGE_SETTINGS = Settings(num_channels=64, num_steps=16, operators=HAT)


def moved_by_the_loop(nnz: int, num_nodes: int, num_channels: int, num_steps: int) -> float:
    """One row of states read for each non-zero and each state written once."""
    return num_steps * (nnz + num_nodes) * num_channels * 4.0


def _gate_large(device: str) -> None:
    """What is timed, on skewed graphs small enough to be checked; other widths and odd graphs are for the tests."""
    gate(power_law(3000, 20_000).to(device), num_channels=16, num_steps=8)
    if device == "cuda":
        gate(power_law(20_000, 150_000).to(device), num_channels=64, num_steps=6)


def large(device: str, data_root: Path | None) -> Iterator[Contender]:
    """One power-law graph of ogbn-arxiv's size, k = 64, P = 16, Â, QR."""
    _gate_large(device)
    graph = power_law(ARXIV_NODES, ARXIV_EDGES)
    yield from _ours_and_plain(graph.to(device))
    if device == "cuda":
        for name in ("pycleora, fastrp", "SciPy lobpcg and eigsh"):
            yield Contender(name, None, skip="runs on a CPU; see the results of one")
        return
    yield _pycleora(graph)
    yield _fastrp(graph)
    yield from _eigensolvers(graph)


def ten_times(device: str, data_root: Path | None) -> Iterator[Contender]:
    """The same at ten times the size, where nothing fits in the cache."""
    gate(power_law(20_000, 150_000).to(device), num_channels=64, num_steps=6)
    yield from _ours_and_plain(power_law(10 * ARXIV_NODES, 10 * ARXIV_EDGES, device=device))


def _ours_and_plain(graph: Graph) -> Iterator[Contender]:
    n = graph.num_nodes
    result = n * 64 * 17 * 4 + graph.edge_index.nbytes
    moved = moved_by_the_loop(graph.num_edges + n, n, 64, 16)
    fresh = partial(Graph.unchecked, graph.edge_index, n)  # nothing cached between repeats
    yield Contender("rfp", lambda: encode(fresh(), LARGE_SETTINGS), result_bytes=result, moved_bytes=moved)
    if graph.device.type == "cuda":
        yield from _on_gpu(graph, moved)
    yield Contender("plain loop (csr @ x, torch.linalg.qr)", lambda: peers.plain_loop(fresh(), HAT, 64, 16), repeats=2)


def _on_gpu(graph: Graph, moved: float) -> Iterator[Contender]:
    """Ours without the preparation, its two halves, and the same from library calls."""
    from rfp.backends.cuda_sparse import gpu_steps as cuda_sparse
    from rfp.backends.problem import Problem

    problem = Problem.of(LARGE_SETTINGS, graph)
    operators, features = problem.operators, problem.features
    run = partial(rfp.propagate, operators, features, num_steps=16)
    yield Contender("rfp, operator and features ready", run, repeats=10, moved_bytes=moved)
    stages = cuda_sparse.Stages(problem, operators[0])
    a = features.transpose(0, 1).contiguous()
    product, q = torch.empty_like(a), torch.empty_like(a)
    stages.step(a, product, q, True)  # from the second step on, columns are nearly orthogonal
    state = graph.num_nodes * 64 * 4.0
    one = partial(stages.multiply, q, product)
    yield Contender("rfp, one product, kernels alone", one, moved_bytes=moved / 16, kernels=True)
    two = partial(stages.normalize, product, a)
    yield Contender("rfp, one normalisation, kernels alone", two, moved_bytes=3 * state, kernels=True)
    csr = stages.csr
    yield Contender("torch.sparse, one product", lambda: csr @ q.flatten(1), moved_bytes=moved / 16)
    yield Contender(
        "library calls (backend sparse)", partial(peers.library_calls, problem), repeats=3, moved_bytes=moved
    )


def _pycleora(graph: Graph) -> Contender:
    name = "pycleora.embed(whiten=True)"
    if skip := missing("pycleora"):
        return Contender(name, None, skip=skip)
    import pycleora

    one_way = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T.tolist()
    lines = iter([f"{u} {v}" for u, v in one_way])
    matrix = pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::node")
    return Contender(name, lambda: pycleora.embed(matrix, feature_dim=64, num_iterations=16, whiten=True), repeats=3)


def _fastrp(graph: Graph) -> Contender:
    name = "fastrp (weighted sum, no orthonormalisation)"
    if skip := missing("fastrp"):
        return Contender(name, None, skip=skip)
    import fastrp

    matrix = graph.to_scipy("float32")
    model = fastrp.FastRP(dim=64, weights=[1.0] * 16, seed=0)
    return Contender(name, lambda: model.fit(matrix), repeats=3)


def _eigensolvers(graph: Graph) -> Iterator[Contender]:
    import numpy as np
    from scipy.sparse.linalg import eigsh, lobpcg

    matrix = from_name(HAT[0], graph, torch.float64).csr.to_scipy()  # type: ignore[attr-defined]
    start = np.random.default_rng(0).standard_normal((graph.num_nodes, 64))
    yield Contender(
        "SciPy lobpcg, 64 vectors, 16 iterations", lambda: lobpcg(matrix, start.copy(), maxiter=16), repeats=1
    )
    yield Contender("SciPy eigsh, 64 vectors, tol 1e-2", lambda: eigsh(matrix, k=64, which="LM", tol=1e-2), repeats=1)


def scaling(device: str, data_root: Path | None) -> Iterator[Contender]:
    """Cost against the number of undirected edges, seven edges a node, k = 16, P = 16, Â, QR."""
    gate(power_law(2000, 14_000).to(device), num_channels=16, num_steps=16)
    largest = 8 if device == "cuda" else 7
    for exponent in range(5, largest + 1):
        num_edges = 10**exponent
        graph = power_law(num_edges // 7, num_edges, device=device)
        fresh = partial(Graph.unchecked, graph.edge_index, graph.num_nodes)
        yield Contender(
            f"rfp, 10^{exponent} edges",
            lambda fresh=fresh: rfp.encode(fresh(), num_channels=16, num_steps=16),  # type: ignore[misc]
            repeats=3,
            num_edges=num_edges,
        )


def huge(device: str, data_root: Path | None) -> Iterator[Contender]:
    """ogbn-papers100M's size, k = 16, P = 8, Â, QR: every state is dropped after the next, as one that streams does."""
    small = MatrixOperator(matchings(3000, 40_000, device))
    start = random_features(_bare(3000, device), num_channels=16)
    fast = rfp.propagate(small, start, num_steps=8)
    slow = rfp.propagate(small, start, num_steps=8, backend="reference")
    error = float((fast.storage - slow.storage).abs().max())
    if not error < 1e-4:
        raise GateError(f"backend {fast.report.backend} differs from the reference by {error:.2g}")
    csr = matchings(PAPERS_NODES, PAPERS_EDGES, device)
    operator = MatrixOperator(csr)
    features = random_features(_bare(PAPERS_NODES, device), num_channels=16)

    def run() -> None:
        for _ in rfp.states(operator, features, num_steps=8):
            pass

    moved = moved_by_the_loop(csr.nnz, PAPERS_NODES, 16, 8)
    name = f"rfp, {csr.nnz:,} entries, states dropped"
    yield Contender(name, run, repeats=3, moved_bytes=moved)


def _bare(num_nodes: int, device: str) -> Graph:
    """Nodes to draw features for; a list of the edges would not fit beside the matrix."""
    return Graph.unchecked(torch.zeros(2, 0, dtype=torch.long, device=device), num_nodes)
