"""Cases for the Triton backends. Without a GPU they run in Triton's interpreter, which must be chosen before Triton is
imported: hence a process of its own, which computes every case of a file and hands the results back.

    TRITON_INTERPRET=1 python -m tests.backends.triton_cases fused results.pt
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from rfp import streaming
from rfp.backends.backend import Backend
from rfp.backends.cuda_sparse import row_plan
from rfp.backends.finite import NotFiniteError
from rfp.backends.problem import Problem
from rfp.backends.start import begun
from rfp.conversion import as_graph
from rfp.csr import CSR
from rfp.features import random_features
from rfp.graph import Graph
from rfp.normalization import Events, count_events
from rfp.one_loop import run_problem
from rfp.operators import from_name
from rfp.rounding import rounding_unit
from rfp.settings import Settings
from rfp.sinks import Memory
from tests.conftest import awkward_graphs
from tests.contracts.backends import awkward_batch
from tests.interpreter import require_interpreter

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Case:
    """A problem to be solved by the backend under test and by the reference."""

    graph: Graph
    operators: tuple[str, ...] = ("normalized_adjacency",)
    channels: int = 4
    steps: int = 2
    trajectories: int = 1
    normalization: str = "qr"
    every: int = 1
    features: Tensor | None = None
    storage: torch.dtype = torch.float32
    options: dict[str, Any] = field(default_factory=dict)

    def problem(self, device: str) -> Problem:
        graph = self.graph.to(device)
        features = self.features
        if features is None:
            features = random_features(self.graph, num_channels=self.channels, num_trajectories=self.trajectories)
        operators = tuple(from_name(name, graph) for name in self.operators)
        settings = Settings(num_steps=self.steps, normalization=self.normalization, normalize_every=self.every)
        return Problem(operators, features.to(device), graph.offsets, settings)


def ill_conditioned(n: int, k: int) -> Tensor:
    """Singular values from 1 to 1e-6, a column that is a sum of two others, a zero column.

    On a graph without edges the normalised adjacency is the identity, so that these are the columns to orthonormalise.
    """
    generator = torch.Generator().manual_seed(0)
    left = torch.linalg.qr(torch.randn(n, k, generator=generator, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(k, k, generator=generator, dtype=torch.float64))[0]
    a = (left * torch.logspace(0, -6, k, dtype=torch.float64)) @ right
    a[:, 3] = a[:, 1] + a[:, 2]
    a[:, 4] = 0
    return a.float()[None]


def amplified(k: int, times: float) -> Tensor:
    """The unit matrix but for a second column (1, 2^-10) and a last one (0, 1, ..., r): R of its own QR.

    Noise e is amplified to e α in the last column, α² = 1 + 2 / 2^-20 (:func:`rfp.rounding.amplification`); r is so
    many times that, and a hundred times the tolerance.
    """
    a = torch.eye(k, dtype=torch.float64)
    a[0, 1], a[1, 1], a[1, -1] = 1, 2**-10, 1
    a[-1, -1] = times * rounding_unit(torch.float32) * (1 + 2**21) ** 0.5
    return a.float()[None]


def nearly_spanned(n: int) -> Tensor:
    """Sixteen orthonormal columns, and two that are off their span by 2e-3: not yet ill-conditioned."""
    generator = torch.Generator().manual_seed(0)
    q = torch.linalg.qr(torch.randn(n, 18, generator=generator, dtype=torch.float64))[0]
    inside = q[:, :16] @ torch.randn(16, 2, generator=generator, dtype=torch.float64) / 4
    return torch.cat([q[:, :16], inside + 2e-3 * q[:, 16:]], dim=1).float()[None]


def constant_but_one(sizes: tuple[int, ...], k: int) -> Tensor:
    """Constant columns but for one: L̂ of a complete graph takes them to zero, in exact arithmetic.

    The last of several graphs has random features.
    """
    generator = torch.Generator().manual_seed(0)
    n = sum(sizes)
    features = torch.ones(1, n, k) * torch.arange(1, k + 1)
    features[:, :, min(1, k - 1)] = torch.randn(n, generator=generator)
    if len(sizes) > 1:
        features[:, -sizes[-1] :] = torch.randn(sizes[-1], k, generator=generator)
    return features


def zero_products(sizes: tuple[int, ...], channels: tuple[int, ...]) -> dict[str, Case]:
    """Complete graphs, and a path as the last of several, with features that L̂ annihilates."""
    graphs = [nx.complete_graph(n) for n in sizes]
    if len(graphs) > 1:
        graphs[-1] = nx.path_graph(sizes[-1])
    graph = as_graph(graphs) if len(graphs) > 1 else _one(graphs[0])
    return {
        f"zero product, {normalization}, w = {every}, k = {k}": Case(
            graph,
            ("normalized_laplacian",),
            steps=2 * every,
            normalization=normalization,
            every=every,
            features=constant_but_one(sizes, k),
        )
        for normalization in ("l2", "qr")
        for every, k in zip((1, 2), channels, strict=True)
    }


def _one(graph: nx.Graph) -> Graph:
    return Graph(as_graph(graph).edge_index, graph.number_of_nodes())


def hub(n: int = 40) -> Graph:
    """A sparse random graph with one node that is joined to half of the others."""
    graph = nx.gnm_random_graph(n, 2 * n, seed=0)
    graph.add_edges_from((0, i) for i in range(1, n, 2))
    return _one(graph)


def heavy(graph: Graph) -> Graph:
    """The same edges with weights whose third powers leave float32."""
    return Graph(graph.edge_index, graph.num_nodes, torch.full((graph.num_edges,), 1e15))


def fused_cases() -> dict[str, Case]:
    awkward = awkward_batch(list(awkward_graphs().values()))
    several = as_graph([_one(nx.gnm_random_graph(n, 2 * n, seed=n)) for n in (9, 20)])
    directed = Graph(
        torch.tensor([[0, 0, 1, 2, 2, 3, 0], [1, 1, 2, 0, 2, 1, 3]]), 5, torch.tensor([1, 2, 0.5, 3, 4, -1, 2])
    )
    mixed = as_graph([_one(nx.cycle_graph(5)), _one(nx.gnm_random_graph(140, 300, seed=1)), _one(nx.star_graph(3))])
    return {
        "awkward": Case(awkward, ("normalized_laplacian",), channels=6),
        "two patterns": Case(several, ("normalized_adjacency", "random_walk.T"), channels=3, every=2, trajectories=2),
        "two panels": Case(several, ("normalized_adjacency",), channels=18, steps=1),
        "wide graph": Case(_one(nx.gnm_random_graph(40, 90, seed=2)), channels=5, steps=1),
        "directed": Case(directed, ("adjacency", "random_walk"), channels=3, steps=1),
        "larger graphs beside": Case(mixed, channels=3, steps=1),
        "l2": Case(awkward, ("adjacency",), normalization="l2", channels=3, trajectories=2),
        "l2, apart": Case(several, ("adjacency", "random_walk"), normalization="l2", channels=35, trajectories=2),
        "l2, seldom": Case(several, ("adjacency",), normalization="l2", channels=18, steps=4, every=2),
        "none": Case(awkward, ("normalized_adjacency", "random_walk"), normalization="none", channels=17),
        "no steps": Case(several, steps=0, channels=1),
        "half precision": Case(several, normalization="l2", storage=torch.float16),
        "ill-conditioned": Case(_one(nx.empty_graph(30)), channels=12, steps=1, features=ill_conditioned(30, 12)),
        **{
            f"amplified, {k} channels, {x}": Case(_one(nx.empty_graph(k)), steps=1, features=amplified(k, x))
            for k in (3, 18)
            for x in (0.99, 1.01)
        },
        "nearly spanned": Case(_one(nx.empty_graph(30)), steps=1, features=nearly_spanned(30)),
        **zero_products((5, 4), (3, 3)),
        **zero_products((3, 4), (18, 18)),
    }


# Fewer than some of the graphs have nodes, more than others, and of two panels.
ORTHONORMAL_CHANNELS = (3, 18)


def orthonormal_batch() -> Graph:
    """Awkward graphs, and one that is too large for the kernel."""
    return awkward_batch([*awkward_graphs().values(), nx.gnm_random_graph(140, 300, seed=1)])


# What is not finite: NaN of either sign (that of x86 is negative) and infinity, as bits of float32.
NOT_FINITE = (0x7FC00000, 0xFFC00000 - (1 << 32), 0x7F800000)


def not_finite_cases() -> dict[str, Case]:
    """Graphs whose products are not finite, one of each kind, beside one whose product is."""
    graph = as_graph([*[_one(nx.path_graph(4)) for _ in NOT_FINITE], _one(nx.cycle_graph(5))])
    cases = {}
    for k in (3, 18):
        features = torch.randn(1, graph.num_nodes, k, generator=torch.Generator().manual_seed(0))
        for i, bits in enumerate(NOT_FINITE):
            features[0, 4 * i + 1, 1] = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
        cases[f"k = {k}"] = Case(graph, steps=1, features=features)
    return cases


def watched_cases() -> dict[str, Case]:
    """What must be told of: a graph that overflows at its first step, beside one that does not.

    Nobody passes on what node 1 of it has: under l2 the step after is finite again.
    """
    sink = Graph(torch.tensor([[0, 0, 2], [1, 2, 0]]), 3, torch.tensor([1e30, 1.0, 1.0]))
    both = as_graph([Graph(torch.tensor([[0, 1], [1, 0]]), 2, torch.ones(2)), sink])
    features = torch.ones(1, 5, 2)
    features[0, 2] = 1e30
    return {
        normalization: Case(both, ("adjacency.T",), steps=3, normalization=normalization, features=features)
        for normalization in ("qr", "l2", "none")
    }


def sparse_cases() -> dict[str, Case]:
    return {
        "hub": Case(hub(), ("normalized_adjacency", "random_walk"), channels=5, trajectories=2, every=2, steps=3),
        "two panels": Case(hub(), channels=20, steps=1),
        "l2": Case(hub(), normalization="l2", channels=3),
        "none": Case(hub(), ("adjacency",), normalization="none", channels=3),
        "nearly orthogonal": Case(_one(nx.random_regular_graph(8, 70, seed=0)), channels=33, steps=2),
        "rank two": Case(_one(nx.star_graph(39)), ("adjacency",), channels=4),
        "fewer nodes than channels": Case(_one(nx.path_graph(3)), channels=7),
        "no edges": Case(Graph(torch.zeros(2, 0, dtype=torch.long), 4), ("adjacency",), channels=2),
        "half precision": Case(hub(), channels=3, steps=1, storage=torch.float16),
        "ill-conditioned": Case(_one(nx.empty_graph(30)), channels=12, steps=1, features=ill_conditioned(30, 12)),
        "overflow": Case(heavy(hub()), ("adjacency",), channels=2, steps=3, every=3),
        **zero_products((5,), (3, 18)),
    }


def settled(result: tuple[Tensor, Events]) -> tuple[Tensor, dict[str, int]]:
    """States and events on the host."""
    return result[0].cpu(), dict(count_events([result[1]]))


def told(problem: Problem, backend: Backend) -> str:
    """What a caller of the runner is told of states that are not finite."""
    try:
        run_problem(problem, Memory(problem), chosen=(backend, ""))
    except NotFiniteError as error:
        return str(error)
    return ""


def solve_fused() -> dict[str, Any]:
    from rfp.backends.fused import FUSED
    from rfp.backends.fused import kernel_launches as fused

    results: dict[str, Any] = {}
    for name, case in fused_cases().items():
        results[name] = settled(fused.fused_trajectory(case.problem(DEVICE), case.storage))
    for name, case in not_finite_cases().items():
        results[name] = settled(fused.fused_trajectory(case.problem(DEVICE), case.storage))[0]
    results["watched"] = {name: told(case.problem(DEVICE), FUSED) for name, case in watched_cases().items()}
    graph = awkward_batch(list(awkward_graphs().values())).to(DEVICE)
    for distribution in ("normal", "rademacher", "uniform"):
        options: dict[str, Any] = {"num_channels": 5, "num_trajectories": 2, "distribution": distribution, "seed": 5}
        problem = Problem.of(Settings(num_steps=0, operators=["adjacency"], **options), graph)
        results[f"draw {distribution}"] = fused.fused_trajectory(problem, torch.float32)[0].cpu()
        results[f"drawn before, {distribution}"] = "features" in vars(problem)
    wide = Settings(num_channels=21, num_steps=0, operators=["adjacency"], normalization="l2", seed=5)
    results["draw panels apart"] = fused.fused_trajectory(Problem.of(wide, graph), torch.float32)[0].cpu()
    for k in ORTHONORMAL_CHANNELS:
        problem = Problem.of(Settings(num_channels=k, start="orthonormal", seed=5), orthonormal_batch().to(DEVICE))
        first, events = begun(problem, by=FUSED)
        results[f"orthonormal start, k = {k}"] = first.features.cpu(), int(count_events([events])["dependent_columns"])
    small = _one(nx.path_graph(6)).to(DEVICE)
    keys = torch.tensor([3])
    settings = Settings(num_channels=4, num_steps=1, operators=["adjacency"])
    problem = Problem.of(settings, small, graph_keys=keys)
    results["draw and propagate"] = settled(fused.fused_trajectory(problem, torch.float32))
    # As if the compiler had put the lanes out of order: found at the first launch, and left alone at the second.
    looked_at = dict(fused._LOOKED_AT)
    trusted, fused._trusted = fused._trusted, lambda compiled: bool(fused._LOOKED_AT.setdefault("other", False))
    for name, when in (("wide graph", "found"), ("directed", "left alone")):
        results[when] = settled(fused.fused_trajectory(fused_cases()[name].problem(DEVICE), torch.float32))
        assert not fused._lanes_are_usable(torch.zeros(1, device=DEVICE))
    narrow = not_finite_cases()["k = 3"].problem(DEVICE)
    results["k = 3, left alone"] = settled(fused.fused_trajectory(narrow, torch.float32))[0]
    fused._trusted = trusted
    fused._LOOKED_AT.clear()
    fused._LOOKED_AT.update(looked_at)
    return results


# Cases that are solved twice, and what the second result is called: the parts of Gram matrices are added up by a kernel
# of its own then, as those of larger graphs are.
SUMMED_APART = ("hub", "l2", "nearly orthogonal", "ill-conditioned", "overflow", "zero product, qr, w = 2, k = 18")
APART = ", summed apart"


# How the rows of a matrix are ordered: each of the two ways where the other, or it, would be chosen.
PLANS: dict[str, Callable[[CSR], Any]] = {
    "planned plainly": lambda csr: row_plan.plain_plan(csr.crow),
    "planned by kernels": lambda csr: row_plan.plan_by_kernels(csr.crow.int(), csr.nnz),
}


def solve_sparse() -> dict[str, Any]:
    from rfp.backends.cuda_sparse import CUDA_SPARSE
    from rfp.backends.cuda_sparse import gpu_steps as cuda_sparse
    from rfp.errors import NumericalError

    # Heavy rows and several blocks in small graphs, and few programs: the interpreter takes them one after the other.
    row_plan.HEAVY_ROW, row_plan.PIECE, row_plan.WINDOW = 8, 4, 32
    if DEVICE == "cpu":
        cuda_sparse._PRODUCT_TILE = {width: 32 * width for width in (16, 32, 64)}
        cuda_sparse._ROWS = {16: 16, 32: 16, 64: 16}
    results: dict[str, Any] = {}
    few_words = cuda_sparse._FEW_WORDS
    for way, names, most in (("", tuple(sparse_cases()), few_words), (APART, SUMMED_APART, 0)):
        cuda_sparse._FEW_WORDS = most
        for name in names:
            case = sparse_cases()[name]
            try:
                results[name + way] = settled(cuda_sparse.cuda_sparse_trajectory(case.problem(DEVICE), case.storage))
            except NumericalError as error:
                results[name + way] = str(error), {}
    cuda_sparse._FEW_WORDS = few_words
    for way, plan in PLANS.items():
        case = sparse_cases()["none"]
        with patch.object(cuda_sparse, "row_plan", plan):
            results[f"none, {way}"] = settled(cuda_sparse.cuda_sparse_trajectory(case.problem(DEVICE), case.storage))
    problem = sparse_cases()["l2"].problem(DEVICE)
    steps = [step.state for step in cuda_sparse.cuda_sparse_steps(problem, problem.operators[0])]
    results["loop"] = torch.stack(steps).cpu()
    results["streamed"] = streamed(stream_graph().to(DEVICE), CUDA_SPARSE)
    return results


STREAMED = Settings(num_channels=3, num_steps=2, num_trajectories=2, operators=["adjacency", "random_walk"])


def stream_graph() -> Graph:
    return _one(nx.barbell_graph(4, 3))


def streamed(graph: Graph, backend: Backend) -> tuple[str, np.ndarray[Any, Any]]:
    """What :func:`rfp.streaming.stream` writes; in the interpreter, where nothing is on a GPU, the choice is given."""
    file, told = io.BytesIO(), []
    with patch.object(streaming, "choose", lambda problem, requested: (backend, requested)):
        report = streaming.stream(graph, file, STREAMED, progress=told.append)
    assert told == [1] * 4
    return report.backend, np.load(io.BytesIO(file.getvalue()))


def solve_learned() -> dict[str, Any]:
    from rfp.backends.learned import LEARNED
    from tests.backends import learned_cases

    watched = learned_cases.watched_cases()
    messages = {name: told(case.problem(torch.float32, DEVICE), LEARNED) for name, case in watched.items()}
    return {**learned_cases.solve_all(DEVICE), "watched": messages}


SOLVERS = {"fused": solve_fused, "cuda_sparse": solve_sparse, "learned": solve_learned}


def solved(which: str, folder: Path) -> Any:
    """The results of a solver: on the GPU here, else from the interpreter in another process."""
    if DEVICE == "cuda":
        return SOLVERS[which]()
    require_interpreter()
    path = folder / f"{which}.pt"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    command = [sys.executable, "-W", "ignore", "-m", "tests.backends.triton_cases", which, str(path)]
    subprocess.run(command, check=True, cwd=root, env=environment)
    return torch.load(path, weights_only=False)


if __name__ == "__main__":
    torch.save(SOLVERS[sys.argv[1]](), sys.argv[2])
