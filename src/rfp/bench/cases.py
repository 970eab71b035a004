"""The named cases. Each yields contenders to time; the first is ours, and a gate has compared it with the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

import rfp
from rfp.bench import peers
from rfp.bench.graphs import ARXIV_EDGES, ARXIV_NODES, molecule_like, power_law, zinc
from rfp.encode import encode_with
from rfp.graph import Graph
from rfp.operators import from_name
from rfp.settings import Settings

BOTH = ("normalized_adjacency", "normalized_laplacian")
HAT = BOTH[:1]


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    Args:
        name: As the table prints it.
        run: The work.
        repeats: Timed calls; slow peers get one.
        skip: Why it cannot run here; empty if it can.
        num_edges: Size, for the scaling plot.
        result_bytes: Size of the result and the graph, to hold the peak memory against.
    """

    name: str
    run: Callable[[], object] | None
    repeats: int = 5
    skip: str = ""
    num_edges: int = 0
    result_bytes: int = 0


@dataclass(frozen=True)
class Case:
    """A named problem; ``build`` makes its contenders after a correctness gate."""

    name: str
    title: str
    build: Callable[[str, Path | None], Iterator[Contender]]


class GateError(rfp.RFPError):
    """The fast path is not equal to the reference: no speed is reported."""


def gate(graph: Graph, **settings: Any) -> None:
    """Compare what is to be timed with the reference, on the same settings."""
    fast = rfp.encode(graph, **settings)
    slow = rfp.encode(graph.to("cpu"), backend="reference", **settings)
    error = (fast.storage.cpu() - slow.storage).abs().max().item()
    if not error < 2e-4:
        raise GateError(f"backend {fast.report.backend} differs from the reference by {error:.2g}")


def _missing(package: str) -> str:
    return "" if find_spec(package) else f"{package} is not installed"


def large(device: str, data_root: Path | None) -> Iterator[Contender]:
    """One power-law graph of ogbn-arxiv's size, k = 64, P = 16, Â, QR."""
    gate(power_law(3000, 20_000).to(device), num_channels=16, num_steps=8)
    graph = power_law(ARXIV_NODES, ARXIV_EDGES)
    here = graph.to(device)
    settings = Settings(num_channels=64, num_steps=16, operators=HAT)
    result = ARXIV_NODES * 64 * 17 * 4 + here.edge_index.nbytes
    fresh = partial(Graph, here.edge_index, here.num_nodes, check=False)  # nothing cached between repeats
    yield Contender("rfp", lambda: encode_with(settings, fresh()), result_bytes=result)
    yield Contender("plain loop (csr @ x, torch.linalg.qr)", lambda: peers.plain_loop(fresh(), HAT, 64, 16), repeats=2)
    yield _pycleora(graph)
    yield _fastrp(graph)
    yield from _eigensolvers(graph)


def _pycleora(graph: Graph) -> Contender:
    name = "pycleora.embed(whiten=True)"
    if skip := _missing("pycleora"):
        return Contender(name, None, skip=skip)
    import pycleora

    one_way = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].T.tolist()
    lines = iter([f"{u} {v}" for u, v in one_way])
    matrix = pycleora.SparseMatrix.from_iterator(lines, "complex::reflexive::node")
    return Contender(name, lambda: pycleora.embed(matrix, feature_dim=64, num_iterations=16, whiten=True), repeats=3)


def _fastrp(graph: Graph) -> Contender:
    name = "fastrp (weighted sum, no orthonormalisation)"
    if skip := _missing("fastrp"):
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


def many_small(device: str, data_root: Path | None) -> Iterator[Contender]:
    """The 12,000 graphs of ZINC-12k in one call, k = 16, P = 16, Â and L̂, QR."""
    try:
        graph = zinc(data_root)
    except FileNotFoundError as error:
        graph = molecule_like(12_000)
        yield Contender("ZINC itself", None, skip=f"{error}; random graphs of its sizes instead")
    here = graph.to(device)
    gate(molecule_like(300).to(device), num_channels=16, num_steps=16, operators=BOTH)
    settings = Settings(num_channels=16, num_steps=16, operators=BOTH)
    result = graph.num_nodes * 16 * 17 * 2 * 4 + graph.edge_index.nbytes
    fresh = partial(Graph, here.edge_index, here.num_nodes, None, here.ptr, check=False)
    yield Contender("rfp", lambda: encode_with(settings, fresh()), result_bytes=result)
    padded = partial(peers.padded_batches, here, BOTH, 16, 16)
    yield Contender("padded batches of 128, torch.linalg.qr", padded, repeats=1)
    alone = _one_by_one(here)
    one_by_one = partial(peers.loop_over_graphs, alone, BOTH, 16, 16)
    yield Contender("plain loop, one graph at a time", one_by_one, repeats=1)
    yield from _pyg_transforms(_one_by_one(graph))


def _one_by_one(graph: Graph) -> list[Graph]:
    bounds = graph.offsets.tolist()
    edges = torch.bincount(graph.batch[graph.edge_index[0]], minlength=graph.num_graphs).tolist()
    pieces = torch.split(graph.edge_index, edges, dim=1)
    sizes = graph.sizes.tolist()
    return [Graph(e - low, n, check=False) for e, low, n in zip(pieces, bounds, sizes, strict=False)]


def _pyg_transforms(graphs: list[Graph]) -> Iterator[Contender]:
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

    data = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]
    for name, transform in (
        ("PyG AddLaplacianEigenvectorPE(8)", AddLaplacianEigenvectorPE(8, attr_name="pe")),
        ("PyG AddRandomWalkPE(16)", AddRandomWalkPE(16, attr_name="pe")),
    ):
        yield Contender(name, lambda transform=transform: [transform(d) for d in data], repeats=1)  # type: ignore[misc]


def scaling(device: str, data_root: Path | None) -> Iterator[Contender]:
    """Cost against the number of undirected edges, seven edges a node, k = 16, P = 16, Â, QR."""
    gate(power_law(2000, 14_000).to(device), num_channels=16, num_steps=16)
    largest = 8 if device == "cuda" else 7
    for exponent in range(5, largest + 1):
        num_edges = 10**exponent
        graph = power_law(num_edges // 7, num_edges).to(device)
        fresh = partial(Graph, graph.edge_index, graph.num_nodes, check=False)
        yield Contender(
            f"rfp, 10^{exponent} edges",
            lambda fresh=fresh: rfp.encode(fresh(), num_channels=16, num_steps=16),  # type: ignore[misc]
            repeats=3,
            num_edges=num_edges,
        )


CASES = {
    "large": Case("large", "169,343 nodes, 1,166,243 edges, k=64, P=16, Â, QR", large),
    "small": Case("small", "ZINC-12k: 12,000 graphs, k=16, P=16, Â and L̂, QR", many_small),
    "scaling": Case("scaling", "time against edges, k=16, P=16, Â, QR", scaling),
}
