"""extend: the new rows equal a dense encoding of the larger graph with the stored factors; the old ones stay."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfp
from rfp.errors import GraphError
from rfp.features import random_features

from .dense_twin import arrivals, block, communities, dense_adjacency, dense_operator, directed_weighted, encoded
from .dense_twin import with_factors as encoded_with

NAMES = ["adjacency", "normalized_adjacency", "normalized_laplacian", "random_walk"]


def drawn(graph: rfp.Graph, num_nodes: int, settings: rfp.Settings) -> np.ndarray:
    """r of the larger graph under the key of the smaller, [B, n', k]."""
    larger = rfp.Graph.unchecked(graph.edge_index, num_nodes, known_keys=graph.keys)
    k, b = settings.num_channels, settings.num_trajectories
    r = random_features(larger, num_channels=k, num_trajectories=b, seed=settings.seed, dtype=settings.dtype)
    return r.double().numpy()


def expected_rows(graph: rfp.Graph, larger: rfp.Graph, settings: rfp.Settings) -> np.ndarray:
    """By the dense twin, [n', B, O, P + 1, k]."""
    r = drawn(graph, larger.num_nodes, settings)
    n = graph.num_nodes
    out = np.zeros((larger.num_nodes, len(r), len(settings.operators), settings.num_steps + 1, r.shape[2]))
    for o, name in enumerate(settings.operators):
        base, _, power = name.partition("^")
        old, new = (dense_operator(base, dense_adjacency(g)) for g in (graph, larger))
        whole = np.linalg.matrix_power(block(old, new), int(power or 1))
        for b in range(len(r)):
            factors = encoded(whole[:n, :n], r[b, :n], settings)[1]
            out[:, b, o] = np.stack(encoded_with(whole, r[b], factors), axis=1)
    return out


def check(graph: rfp.Graph, edges: torch.Tensor, weight: torch.Tensor | None, settings: rfp.Settings) -> None:
    t = rfp.encode(graph, settings)
    larger = t.extend(edges, edge_weight=weight, directed=True)
    assert torch.equal(larger.storage[: graph.num_nodes], t.storage)
    assert larger.graph is not None
    expected = expected_rows(graph, larger.graph, settings)
    difference = np.abs(larger.storage.double().numpy() - expected)
    assert difference.max() / max(1.0, np.abs(expected).max()) <= 1e-6


@pytest.mark.parametrize("normalization", ["none", "l2", "qr", "inverse_gram"])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_new_rows_equal_the_larger_graph_with_the_stored_factors(normalization: str, every: int, name: str) -> None:
    settings = rfp.Settings(
        num_channels=3,
        num_steps=6,
        operators=[name],
        normalization=normalization,
        normalize_every=every,
        dtype=torch.float64,
    )
    check(communities(), arrivals(40, 5)[0], None, settings)


@pytest.mark.parametrize("suffix", [".T", ".sym", ".sym.T", "^2", ".T^3"])
@pytest.mark.parametrize("name", NAMES)
def test_directed_weighted_graphs_transposes_and_powers(name: str, suffix: str) -> None:
    settings = rfp.Settings(num_channels=2, num_steps=3, operators=[name + suffix], dtype=torch.float64)
    edges, weight = arrivals(30, 4)
    check(directed_weighted(), edges, weight, settings)


@pytest.mark.parametrize("start", ["unit", "orthonormal"])
def test_several_operators_trajectories_and_starts(start: str) -> None:
    settings = rfp.Settings(
        num_channels=3, num_steps=4, operators=NAMES[:2], num_trajectories=3, start=start, seed=5, dtype=torch.float64
    )
    check(communities(), arrivals(40, 6)[0], None, settings)


def test_float32_is_as_close_as_its_rounding() -> None:
    settings = rfp.Settings(num_channels=3, num_steps=4, normalize_every=2)
    graph, (edges, _) = communities(), arrivals(40, 5)
    larger = rfp.encode(graph, settings).extend(edges, directed=True)
    assert larger.storage.dtype == torch.float32
    expected = expected_rows(graph, larger.graph, settings)  # type: ignore[arg-type]
    assert np.abs(larger.storage.numpy() - expected).max() <= 2e-6


def test_every_backend_gives_the_same_new_rows() -> None:
    graph, (edges, _) = communities(), arrivals(40, 5)
    rows = [
        rfp.encode(graph, num_channels=3, num_steps=4, backend=backend).extend(edges).storage[40:]
        for backend in ("reference", "sparse")
    ]
    assert torch.allclose(rows[0], rows[1], atol=2e-6)


def test_an_edge_of_an_undirected_graph_counts_both_ways_however_often_it_is_listed() -> None:
    t = rfp.encode(communities(), num_channels=3, num_steps=3)
    once = t.extend([[40, 41], [0, 40]])
    twice = t.extend([[40, 0, 41, 40], [0, 40, 40, 41]])
    assert torch.equal(once.storage, twice.storage)
    assert once.graph is not None
    assert once.graph.is_undirected()
    only_out = t.extend([[40, 41], [0, 40]], directed=True)
    assert not torch.allclose(once.storage[40:], only_out.storage[40:])


def test_nodes_without_edges_and_no_nodes_at_all() -> None:
    t = rfp.encode(communities(), num_channels=3, num_steps=2, operators=["random_walk"])
    alone = t.extend([], num_nodes=42)
    assert alone.storage.shape[0] == 42
    assert torch.count_nonzero(alone.storage[40:, :, :, 1:]) == 0  # a zero row of the operator
    assert bool((alone.storage[40:, :, :, 0] != 0).all())
    assert torch.equal(t.extend([]).storage, t.storage)


def test_a_node_that_hears_only_itself_grows_as_documented() -> None:
    """Alone, it is its own neighbour under Â (weight 1) and each step divides it by the eigenvalues of the others."""
    graph = communities()
    eigenvalues = np.abs(np.linalg.eigvalsh(dense_operator("normalized_adjacency", dense_adjacency(graph))))
    third = np.sort(eigenvalues)[-3]
    row = (
        rfp.encode(graph, num_channels=3, num_steps=40, dtype=torch.float64).extend([], num_nodes=41).storage[40, 0, 0]
    )
    assert third < 0.7
    assert float(row[40, 2] / row[39, 2]) == pytest.approx(1 / third, rel=0.05)
    walk = rfp.encode(graph, operators=["random_walk"]).extend([], num_nodes=41)
    assert torch.count_nonzero(walk.storage[40, 0, 0, 1:]) == 0  # no loops there


def test_the_draw_of_new_nodes_continues_that_of_the_first_graph() -> None:
    settings = rfp.Settings(num_channels=4, num_steps=1, seed=3)
    graph = communities()
    twice = rfp.encode(graph, settings).extend([[40], [1]]).extend([[41], [40]])
    assert np.array_equal(twice.storage[:, 0, 0, 0].double().numpy(), drawn(graph, 42, settings)[0])


def test_the_draw_follows_given_keys() -> None:
    graph, key = communities(), torch.tensor([11])
    larger = rfp.encode(graph, num_channels=4, num_steps=1, graph_keys=key).extend([[40], [1]])
    whole = rfp.Graph.unchecked(graph.edge_index, 41)
    expected = random_features(whole, num_channels=4, graph_keys=key)
    assert torch.equal(larger.storage[:, 0, 0, 0], expected[0])


def test_given_features_need_given_features() -> None:
    graph, x = communities(), torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    t = rfp.encode(graph, features=x, num_steps=2)
    with pytest.raises(rfp.ArgumentError, match=r"must be given: features=\[1, 1, 3\]"):
        t.extend([[40], [1]])
    row = torch.tensor([[1.0, -2.0, 0.5]])
    assert torch.equal(t.extend([[40], [1]], features=row).storage[40, 0, 0, 0], row[0])
    with pytest.raises(rfp.ArgumentError, match="leave features out"):
        rfp.encode(graph, num_channels=3).extend([[40], [1]], features=row)


def test_columns_that_were_zero_are_zero_for_new_nodes() -> None:
    star = rfp.as_graph(__import__("networkx").star_graph(6))  # S = A has rank two
    larger = rfp.encode(star, num_channels=4, num_steps=3, operators=["adjacency"]).extend([[7], [0]])
    assert torch.count_nonzero(larger.storage[:, 0, 0, 2, 2:]) == 0
    assert bool(torch.isfinite(larger.storage).all())


@pytest.mark.parametrize(
    ("edges", "more", "message"),
    [
        ([[0], [1]], {}, r"edge 0 joins the old nodes \[0, 1\]"),
        ([[41], [1]], {"num_nodes": 41}, "edge_index holds node 41"),
        ([[40], [1]], {"num_nodes": 12}, "at least 40"),
        ([[10**15], [1]], {}, "node 1000000000000000 would mean .* new nodes, .*; number new nodes from 40 on"),
        ([[40.0], [1.0]], {}, "must hold integers"),
        ([[40], [1]], {"edge_weight": [float("nan")]}, "finite"),
    ],
)
def test_what_is_no_arrival_is_refused(edges: list[list[int]], more: dict[str, object], message: str) -> None:
    t = rfp.encode(communities(), num_channels=2, num_steps=1)
    with pytest.raises(rfp.RFPError, match=message):
        t.extend(edges, **more)


def test_trajectories_that_cannot_be_extended_say_why() -> None:
    graph = communities()
    with pytest.raises(rfp.ArgumentError, match="a batch of 2"):
        rfp.encode([graph, graph], num_channels=2).extend([[80], [1]])
    with pytest.raises(rfp.ArgumentError, match="normalization is a function"):
        rfp.encode(graph, num_channels=2, normalization=lambda a, ptr: a).extend([[40], [1]])
    with pytest.raises(rfp.ArgumentError, match="not a name"):
        rfp.encode(graph, num_channels=2, operators=[torch.eye(40)]).extend([[40], [1]])
    S = rfp.operators.from_name("adjacency", graph)
    with pytest.raises(rfp.ArgumentError, match=r"rfp\.encode"):
        rfp.propagate(S, torch.ones(40, 2), num_steps=1).extend([[40], [1]])


def test_what_a_mask_hides_is_not_read() -> None:
    t = rfp.encode(rfp.Graph(torch.tensor([[0, 1], [1, 0]]), 2), num_channels=2, num_steps=1)
    with pytest.raises(GraphError, match="edges is a masked array"):
        t.extend(np.ma.masked_array([[2], [0]], [[1], [0]]))
    with pytest.raises(GraphError, match="edge_weight is a masked array"):
        t.extend([[2], [0]], edge_weight=np.ma.masked_array([2.0], [1]))
