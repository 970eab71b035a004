"""Cases of many small graphs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

import rfp
from rfp.backends.problem import Problem
from rfp.bench import peers
from rfp.bench.contender import Contender
from rfp.bench.gate import gate
from rfp.bench.generated_graphs import first_graphs, molecule_like, random_batch, zinc
from rfp.encode import encode
from rfp.graph import Graph
from rfp.operators import MatrixOperator
from rfp.settings import Settings

BOTH = ("normalized_adjacency", "normalized_laplacian")
SMALL_SETTINGS = Settings(num_channels=16, num_steps=16, operators=BOTH)
BATCH = 128
# Graphs on which peers are timed that would take minutes on all of them.
PART = 1280
FEW_GRAPHS = 128


def molecules(data_root: Path | None) -> tuple[Graph, list[Contender]]:
    """ZINC-12k, or what stands in for it and a line that says so."""
    try:
        return zinc(data_root), []
    except FileNotFoundError as error:
        skipped = Contender("ZINC itself", None, skip=f"{error}; random graphs of its sizes instead")
        return molecule_like(12_000), [skipped]


def _gate_small(device: str) -> None:
    """Molecules, and on a GPU graphs of every size and density too; more of them are for the tests."""
    gate(molecule_like(300).to(device), num_channels=16, num_steps=16, operators=BOTH)
    if device == "cuda":
        gate(random_batch(500, 128, 1).to(device), num_channels=16, num_steps=6, operators=BOTH)


def moved_by_a_batch(graph: Graph) -> float:
    """Each state written once, the features and the operators read once."""
    entries = graph.num_edges + graph.num_nodes
    return graph.num_nodes * (2 * 17 + 1) * 16 * 4.0 + entries * 12.0


def many_small(device: str, data_root: Path | None) -> Iterator[Contender]:
    """The 12,000 graphs of ZINC-12k in one call, k = 16, P = 16, Â and L̂, QR."""
    graph, notes = molecules(data_root)
    yield from notes
    _gate_small(device)
    here = graph.to(device)
    result = graph.num_nodes * 16 * 17 * 2 * 4 + graph.edge_index.nbytes
    fresh = partial(Graph.unchecked, here.edge_index, here.num_nodes, None, here.ptr)
    moved = moved_by_a_batch(graph)
    yield Contender("rfp", lambda: encode(fresh(), SMALL_SETTINGS), result_bytes=result, moved_bytes=moved)
    if device == "cuda":
        yield from _on_gpu(here, moved)
    yield from _peers(here)


def _peers(graph: Graph) -> Iterator[Contender]:
    """All graphs on a CPU; some of them on a GPU, whose launches take longer than the work they launch."""
    whole = graph.device.type == "cpu"
    part = graph if whole else first_graphs(graph, PART)
    few = graph if whole else first_graphs(graph, FEW_GRAPHS)
    share, smaller = part.num_graphs / graph.num_graphs, few.num_graphs / graph.num_graphs
    padded = partial(peers.padded_batches, part, BOTH, 16, 16)
    yield Contender(_on("padded batches of 128, torch.linalg.qr", share, part), padded, repeats=1, share=share)
    alone = partial(peers.loop_over_graphs, _one_by_one(few), BOTH, 16, 16)
    yield Contender(_on("plain loop, one graph at a time", smaller, few), alone, repeats=1, share=smaller)
    yield from _pyg_transforms(_one_by_one(part.to("cpu")), share, "" if whole else " on the CPU")


def _on(name: str, share: float, part: Graph) -> str:
    return name if share == 1 else f"{name}, timed on {part.num_graphs}"


def one_batch(device: str, data_root: Path | None) -> Iterator[Contender]:
    """What a training step asks for: the first 128 graphs of ZINC-12k."""
    graph, notes = molecules(data_root)
    yield from notes
    here = first_graphs(graph, BATCH).to(device)
    gate(here, num_channels=16, num_steps=16, operators=BOTH)
    fresh = partial(Graph.unchecked, here.edge_index, here.num_nodes, None, here.ptr)
    moved = moved_by_a_batch(here)
    yield Contender("rfp", lambda: encode(fresh(), SMALL_SETTINGS), repeats=50, moved_bytes=moved)
    if device == "cuda":
        yield from _on_gpu(here, moved)
    padded = partial(peers.padded_batches, here, BOTH, 16, 16)
    yield Contender("padded to the largest, torch.linalg.qr", padded, repeats=2)


def _on_gpu(graph: Graph, moved: float) -> Iterator[Contender]:
    """Ours without the preparation, without the host, and the same from library calls."""
    from rfp.backends.fused import kernel_launches as fused

    problem = Problem.of(SMALL_SETTINGS, graph)
    features = problem.features
    operators = [operator for operator in problem.operators if isinstance(operator, MatrixOperator)]
    run = partial(rfp.propagate, operators, features, num_steps=16, ptr=graph.offsets)
    yield Contender("rfp, operators and features ready", run, repeats=50, moved_bytes=moved)
    drawing = partial(fused.fused_trajectory, Problem.of(SMALL_SETTINGS, graph), torch.float32)
    yield Contender("rfp, operators ready, features drawn in the kernel", drawing, repeats=50, moved_bytes=moved)
    out = torch.empty(graph.num_nodes, 1, 2, 17, 16, device=graph.device)
    start = fused.Start(graph.offsets, features.transpose(0, 1).contiguous())
    for normalization in ("qr", "l2", "none"):
        kernels = fused.KernelLaunches(out, graph.offsets, graph.largest, normalization, 1)
        work = partial(kernels.compute, operators, start)
        yield Contender(f"rfp, kernels alone, {normalization}", work, moved_bytes=moved, kernels=True)
    yield Contender(
        "library calls (backend sparse)", partial(peers.library_calls, problem), repeats=3, moved_bytes=moved
    )


def _one_by_one(graph: Graph) -> list[Graph]:
    bounds = graph.offsets.tolist()
    edges = torch.bincount(graph.batch[graph.edge_index[0]], minlength=graph.num_graphs).tolist()
    pieces = torch.split(graph.edge_index, edges, dim=1)
    sizes = graph.sizes.tolist()
    return [Graph.unchecked(e - low, n) for e, low, n in zip(pieces, bounds, sizes, strict=False)]


def _pyg_transforms(graphs: list[Graph], share: float, where: str) -> Iterator[Contender]:
    """On a CPU, which is where they run."""
    from torch_geometric.data import Data
    from torch_geometric.transforms import AddLaplacianEigenvectorPE, AddRandomWalkPE

    data = [Data(edge_index=g.edge_index, num_nodes=g.num_nodes) for g in graphs]
    for name, transform in (
        ("PyG AddLaplacianEigenvectorPE(8)", AddLaplacianEigenvectorPE(8, attr_name="pe")),
        ("PyG AddRandomWalkPE(16)", AddRandomWalkPE(16, attr_name="pe")),
    ):
        run = partial(_each, transform, data)
        times = "" if share == 1 else f", timed on {len(data)}"
        yield Contender(f"{name}{where}{times}", run, repeats=1, share=share)


def _each(transform: object, data: list[object]) -> list[object]:
    return [transform(d) for d in data]  # type: ignore[operator]
