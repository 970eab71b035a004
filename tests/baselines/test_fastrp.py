"""FastRP: by hand on a path, against plain NumPy with GDS's rules, against the package ``fastrp``."""

from __future__ import annotations

import math

import fastrp
import networkx as nx
import numpy as np
import pytest
import torch

import rfp
from rfp.baselines import FastRP, fast_random_projection
from rfp.baselines.fastrp import very_sparse


def karate() -> rfp.Graph:
    return rfp.as_graph(nx.Graph(nx.karate_club_graph().edges))


def unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)


def test_by_hand_on_a_path() -> None:
    path = rfp.Graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3)
    start = torch.tensor([[3.0, 4.0], [0.0, 2.0], [1.0, 0.0]])
    found = fast_random_projection(path, features=start, iteration_weights=[10.0, 1.0], node_self_influence=100.0)
    middle = np.array([4.0, 4.0]) / 2  # the mean of the ends
    middle /= np.linalg.norm(middle)
    first = np.array([[0.0, 1.0], middle, [0.0, 1.0]])
    second = np.array([middle, [0.0, 1.0], middle])
    own = np.array([[0.6, 0.8], [0.0, 1.0], [1.0, 0.0]])
    assert np.allclose(found, 100 * own + 10 * first + second, atol=1e-5)


@pytest.mark.parametrize("strength", [0.0, -0.5, 0.7])
def test_gds_rules_in_numpy(directed: rfp.Graph, strength: float) -> None:
    """Directed, weighted, a duplicate edge, an isolated node: counts of edges are the degrees."""
    parameters = FastRP(6, [0.5, 0.0, 2.0], strength, node_self_influence=0.3, property_ratio=0.5, seed=4)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).double()
    found = fast_random_projection(directed, parameters, x=x, dtype=torch.float64).numpy()
    plain = FastRP(6, [0.0], node_self_influence=1.0, property_ratio=0.5, seed=4, normalize_rows=False)
    start = fast_random_projection(directed, plain, x=x, dtype=torch.float64).numpy().copy()
    degree = np.bincount(directed.edge_index[0].numpy(), minlength=5)
    start[:, :3] *= np.where(degree > 0, np.maximum(degree, 1) ** strength, 1.0)[:, None]
    A = directed.to_scipy().toarray()
    expected, a = 0.3 * unit(start), start
    for weight in parameters.iteration_weights:
        a = unit(A @ a / np.maximum(degree, 1)[:, None])
        expected += weight * a
    assert np.allclose(found, expected, atol=1e-12)


def test_the_start_is_very_sparse_and_the_features_are_projected() -> None:
    graph = rfp.as_graph(nx.cycle_graph(3000))
    only_start = {"iteration_weights": [0.0], "node_self_influence": 1.0, "normalize_rows": False}
    r = fast_random_projection(graph, embedding_dimension=16, **only_start) * 4
    values, counts = torch.unique((r / math.sqrt(3)).round(decimals=4), return_counts=True)
    assert values.tolist() == [-1.0, 0.0, 1.0]
    assert np.allclose(counts / r.numel(), [1 / 6, 2 / 3, 1 / 6], atol=0.01)
    x = torch.eye(3000)[:, :2]
    both = fast_random_projection(graph, embedding_dimension=16, property_ratio=0.25, x=x, **only_start)
    assert torch.count_nonzero(both[2:, 12:]) == 0  # only the first two nodes have a feature
    lengths = both[:2, 12:].abs()[both[:2, 12:] != 0]
    assert torch.allclose(lengths, torch.full_like(lengths, math.sqrt(3 / 4)))
    assert very_sparse(torch.tensor([0.5, -0.9])).tolist() == pytest.approx([0.0, -math.sqrt(3)])


def test_equals_the_package_fastrp_where_they_mean_the_same() -> None:
    graph = karate()
    A = graph.to_scipy().tocsr()
    call = {"seed": 0, "undirected": False}
    start = torch.from_numpy(np.asarray(fastrp.FastRP(dim=8, weights=[1.0], **call).fit_transform(A)))
    theirs = np.asarray(fastrp.FastRP(dim=8, weights=[0.5, 0.0, 1.0, 2.0], **call).fit_transform(A))
    ours = fast_random_projection(
        graph, features=start, iteration_weights=[0.0, 1.0, 2.0], node_self_influence=0.5, normalize_rows=False
    )
    assert np.allclose(ours, theirs, atol=1e-5)


def test_it_is_the_loop_of_states() -> None:
    graph = karate()
    r = torch.randn(34, 4, generator=torch.Generator().manual_seed(1))
    walk = list(rfp.states(rfp.operators.from_name("random_walk", graph), r, num_steps=2, normalization="none"))
    found = fast_random_projection(graph, features=r, iteration_weights=[0.25, 4.0], normalize_rows=False)
    assert torch.allclose(found, (0.25 * walk[1] + 4 * walk[2])[0], atol=1e-5)


def test_a_draw_does_not_depend_on_the_batch_nor_on_the_machine() -> None:
    graph = karate()
    alone = fast_random_projection(graph, embedding_dimension=8)
    assert torch.allclose(fast_random_projection([graph, graph], embedding_dimension=8)[34:], alone, atol=1e-6)


def test_what_makes_no_sense_is_refused() -> None:
    graph = karate()
    for arguments, message in [
        ({"iteration_weights": [0.0, 0.0]}, "all zero"),
        ({"iteration_weights": [math.nan]}, "finite"),
        ({"embedding_dimension": 0}, "at least 1"),
        ({"property_ratio": 1.5}, "from 0 to 1"),
        ({"property_ratio": 0.5}, "needs node features"),
        ({"embedding_dimension": 8, "x": torch.zeros(3, 2), "property_ratio": 0.5}, r"\[34, d\]"),
        ({"features": torch.zeros(3, 2)}, r"shape \[34, k\]"),
        ({"iterations": 3}, "no such parameter"),
        ({"parameters": FastRP(), "seed": 3}, "not both"),
    ]:
        with pytest.raises(rfp.ArgumentError, match=message):
            fast_random_projection(graph, **arguments)
