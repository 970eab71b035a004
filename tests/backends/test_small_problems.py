"""In every CPU backend, on thousands of small problems: columns are of length 1 or exactly 0, under QR orthonormal,
the report counts the zeros, the backends agree on which they are, and none depends on the order of the nodes.
"""

from __future__ import annotations

import os

import networkx as nx
import pytest
import torch

import rfp
from rfp.conversion import as_graph
from rfp.graph import Graph
from tests.backends.small_problems import SmallProblem, departure, zero_columns

# A slice of them; `make torture` runs over ten thousand.
DRAWS = int(os.environ.get("RFP_TORTURE", "120"))


def check(seed: int) -> int:
    """One draw in all backends that take it; the number of problems (graphs, operators, trajectories) in it."""
    problem = SmallProblem.draw(seed)
    allowed = 1e-5 if problem.arguments["dtype"] == torch.float32 else 1e-13
    counted = "dependent_columns" if problem.arguments["normalization"] == "qr" else "zero_columns"
    zeros = None
    for backend in ("reference", "sparse", *(["compiled"] if problem.compiled else [])):
        t = problem.encode(backend)
        assert t.storage.isfinite().all(), (seed, backend)
        assert departure(problem, t) <= allowed, (seed, backend)
        own = zero_columns(problem, t)
        assert t.report.events[counted] == sum(map(sum, own)), (seed, backend)
        assert zeros is None or own == zeros, (seed, backend)
        zeros = own
    return problem.graph.num_graphs * len(problem.arguments["operators"]) * problem.arguments["num_trajectories"]


@pytest.mark.parametrize("part", range(4))
def test_columns_are_orthonormal_or_zero_and_the_backends_agree(part: int) -> None:
    checked = sum(check(seed) for seed in range(part, DRAWS, 4))
    assert checked >= DRAWS // 4  # each draw holds at least one


def test_a_pivot_of_rounding_noise_is_not_taken_for_rank() -> None:
    graph = as_graph(nx.gnp_random_graph(22, 0.2, seed=27))
    arguments = {"num_channels": 22, "num_steps": 1, "operators": ["adjacency"], "seed": 27}
    for backend in ("reference", "sparse", "compiled"):
        t = rfp.encode(graph, **arguments, backend=backend)
        lengths = t.states[0, :, 1].norm(dim=0)
        assert lengths[-1] == 0
        torch.testing.assert_close(lengths[:-1], torch.ones(21))
        with pytest.raises(rfp.NumericalError, match="1 dependent columns"):
            rfp.encode(graph, **arguments, backend=backend, strict=True)


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
@pytest.mark.parametrize("normalization", ["l2", "qr"])
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("n", [3, 5, 7, 10, 24])
def test_a_product_that_is_zero_stays_zero(backend: str, normalization: str, every: int, n: int) -> None:
    """L̂ of a complete graph annihilates constant features, in exact arithmetic."""
    graph = as_graph([nx.complete_graph(n), nx.path_graph(4)])
    features = torch.cat([torch.full((n, 1), 0.7), torch.tensor([[1.0], [0.3], [-0.2], [2.0]])])
    operators = ["normalized_laplacian"] + (["normalized_laplacian^2"] if backend != "compiled" else [])
    t = rfp.encode(
        graph,
        features=features,
        num_steps=2 * every,
        operators=operators,
        normalization=normalization,
        normalize_every=every,
        backend=backend,
    )
    for p in (every, 2 * every):
        assert not t.states[0, :n, p].any()
        torch.testing.assert_close(t.states[0, n:, p].norm(dim=0), torch.ones(len(operators)))


@pytest.mark.parametrize("backend", ["reference", "sparse", "compiled"])
def test_noise_does_not_depend_on_the_order_of_the_nodes(backend: str) -> None:
    """K5 with constant features beside random ones: no direction of pure rounding is kept in either order."""
    graph, features = as_graph(nx.complete_graph(5)), torch.ones(5, 6)
    features[:, 2:5] = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    order = torch.tensor([3, 0, 4, 1, 2])
    arguments = {"num_steps": 3, "operators": ["normalized_laplacian", "random_walk"], "backend": backend}
    t = rfp.encode(graph, features=features, **arguments).states
    assert not t[0, :, 1:, :2].any()  # of L̂
    permuted = rfp.encode(graph, features=features[order], **arguments).states
    torch.testing.assert_close(permuted, t[:, order], atol=1e-5, rtol=0)


def test_a_function_as_an_operator_says_its_norm_or_shows_it() -> None:
    from rfp.operators import FunctionOperator

    laplacian = torch.eye(5) - torch.full((5, 5), 0.2)
    features = torch.ones(5, 2)
    features[:, 0] = torch.tensor([1.0, -1.0, 2.0, 0.0, 0.5])
    shown = rfp.encode(Graph(torch.zeros(2, 0, dtype=torch.long), 5), features=features, num_steps=1,
                       operators=[lambda a: laplacian @ a], normalization="l2")  # fmt: skip
    assert not shown.states[0, :, 1, 1].any()
    declared = FunctionOperator(lambda a: laplacian @ a, 5, norm=1.6)
    alone = rfp.encode(Graph(torch.zeros(2, 0, dtype=torch.long), 5), features=features[:, 1:], num_steps=1,
                       operators=[declared], normalization="l2")  # fmt: skip
    assert not alone.states[0, :, 1].any()
