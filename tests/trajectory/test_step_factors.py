"""The factors found from the states are those that the loop itself forms."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

import rfp
from rfp.backends.problem import Problem
from rfp.backends.sparse import SPARSE

from .dense_twin import communities


@pytest.mark.parametrize("every", [1, 2])
def test_the_factors_of_qr_are_those_of_the_loop(every: int) -> None:
    settings = rfp.Settings(
        num_channels=4, num_steps=4, normalize_every=every, num_trajectories=2, dtype=torch.float64, backend="sparse"
    )
    graph = communities()
    factors = rfp.encode(graph, settings).factors
    assert factors.shape == (1, 5, 2, 4, 4)
    assert SPARSE.steps is not None
    problem = Problem.of(settings, graph)
    compared = 0
    for p, step in enumerate(SPARSE.steps(problem, problem.operators[0])):
        if step.factor is not None:
            assert torch.allclose(factors[0, p], step.factor[0], rtol=1e-8, atol=1e-10)
            compared += 1
        elif p % every:
            assert torch.equal(factors[0, p], torch.eye(4, dtype=torch.float64).expand(2, 4, 4))
    assert compared == 4 // every


def test_ill_conditioned_steps_have_factors_too() -> None:
    # Gram-Schmidt forms none: float64 columns that are close to dependent.
    settings = rfp.Settings(num_channels=8, num_steps=12, normalize_every=12, dtype=torch.float64, backend="sparse")
    t = rfp.encode(communities(), settings)
    assert t.report.events["gram_schmidt"]
    S = rfp.operators.from_name("normalized_adjacency", communities(), torch.float64)
    again = (S @ t.storage[:, 0, 0, 11]) @ t.factors[0, 12, 0]
    assert torch.allclose(again, t.storage[:, 0, 0, 12], atol=1e-8)


def test_they_are_found_once() -> None:
    t = rfp.encode(communities(), num_channels=2, num_steps=1)
    assert t.factors is t.factors
    assert t.extend([[40], [0]]).factors is t.factors


@pytest.mark.parametrize("normalization", ["l2", "qr", "inverse_gram"])
@pytest.mark.parametrize("name", ["normalized_adjacency", "adjacency", "normalized_laplacian"])
def test_the_factors_give_every_state_of_awkward_graphs(awkward: nx.Graph, normalization: str, name: str) -> None:
    """Dependent and zero columns, fewer nodes than channels, isolated nodes: a(p) = (S a(p-1)) W(p) all the same."""
    graph = rfp.as_graph(awkward)
    t = rfp.encode(
        graph, num_channels=4, num_steps=4, operators=[name], normalization=normalization, dtype=torch.float64
    )
    S = rfp.operators.from_name(name, graph, torch.float64)
    for p in range(1, 5):
        again = (S @ t.storage[:, 0, 0, p - 1]) @ t.factors[0, p, 0]
        assert torch.allclose(again, t.storage[:, 0, 0, p], atol=1e-6 * max(1.0, float(t.storage.abs().max())))
    larger = t.extend([[graph.num_nodes], [0]])
    assert bool(torch.isfinite(larger.storage).all())
    assert torch.equal(larger.storage[: graph.num_nodes], t.storage)
