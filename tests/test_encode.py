"""The front door: symmetries, batches, given features, errors."""

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

import rfp
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph
from tests.contracts.backends import graphs

BACKENDS = ["reference", "sparse", "auto"]
BOTH = ["normalized_adjacency", "normalized_laplacian"]


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40, deadline=None)
@given(graph=graphs(), data=st.data(), operator=st.sampled_from(["adjacency", "normalized_adjacency", "random_walk"]))
def test_node_permutation(backend: str, graph: Graph, data, operator: str) -> None:
    """Renumbering the nodes renumbers the rows, on rank-deficient operators too."""
    order = torch.tensor(data.draw(st.permutations(range(graph.num_nodes))))
    place = torch.empty_like(order)
    place[order] = torch.arange(graph.num_nodes)
    renumbered = Graph(place[graph.edge_index], graph.num_nodes, graph.edge_weight)
    r = torch.randn(2, graph.num_nodes, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    arguments = {"operators": [operator], "num_steps": 3, "dtype": torch.float64, "backend": backend}
    first = rfp.encode(graph, features=r, **arguments).states
    second = rfp.encode(renumbered, features=r[:, order], **arguments).states
    torch.testing.assert_close(second, first[:, order], atol=1e-7, rtol=1e-7)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=25, deadline=None)
@given(several=st.lists(graphs(), min_size=2, max_size=4))
def test_a_batch_is_its_graphs_alone(backend: str, several: list[Graph]) -> None:
    arguments = {"num_channels": 4, "num_steps": 3, "num_trajectories": 2, "operators": BOTH, "dtype": torch.float64}
    together = rfp.encode(several, backend=backend, **arguments).states
    alone = [rfp.encode(graph, backend=backend, **arguments).states for graph in several]
    torch.testing.assert_close(together, torch.cat(alone, dim=1), atol=1e-9, rtol=1e-9)


def test_trajectories_do_not_see_each_other() -> None:
    graph = nx.karate_club_graph()
    many = rfp.encode(graph, num_channels=4, num_steps=3, num_trajectories=3, dtype=torch.float64)
    two = rfp.encode(graph, num_channels=4, num_steps=3, num_trajectories=2, dtype=torch.float64)
    torch.testing.assert_close(many.states[:2], two.states)
    r = many.states[:, :, 0]
    swapped = rfp.encode(graph, features=r[[2, 0, 1]], num_steps=3, dtype=torch.float64)
    torch.testing.assert_close(swapped.states, many.states[[2, 0, 1]])


def test_same_seed_same_encoding_other_seed_another() -> None:
    graph = nx.karate_club_graph()
    first, again = rfp.encode(graph, seed=4), rfp.encode(graph, seed=4)
    assert torch.equal(first.storage, again.storage)
    assert not torch.allclose(first.storage, rfp.encode(graph, seed=5).storage)


def test_shapes_and_step_zero() -> None:
    t = rfp.encode(nx.path_graph(5), num_channels=8, num_steps=3, num_trajectories=2, operators=BOTH)
    assert t.states.shape == (2, 5, 4, 16)
    assert t.flat().shape == (2, 5, 64)
    assert torch.equal(t.states[:, :, 0, :8], t.states[:, :, 0, 8:])
    assert rfp.encode(nx.path_graph(5), num_steps=0).flat().shape == (1, 5, 16)


@pytest.mark.parametrize("distribution", ["normal", "rademacher", "uniform"])
def test_distribution_reaches_step_zero(distribution: str) -> None:
    graph = as_graph(nx.path_graph(5))
    t = rfp.encode(graph, num_channels=3, num_steps=1, distribution=distribution, seed=9)
    assert torch.equal(t.states[:, :, 0], rfp.random_features(graph, num_channels=3, distribution=distribution, seed=9))


def test_pyg_data_and_batch() -> None:
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    data = Data(edge_index=torch.cat([ring, ring.flip(0)], 1), num_nodes=3)
    one = rfp.encode(data, num_channels=2, num_steps=2).states
    batch = rfp.encode(Batch.from_data_list([data, data]), num_channels=2, num_steps=2).states
    torch.testing.assert_close(batch, torch.cat([one, one], dim=1))


def test_operators_of_every_kind_together() -> None:
    graph = as_graph(nx.cycle_graph(6))
    matrix = nx.to_scipy_sparse_array(nx.cycle_graph(6), format="csr")
    dense = torch.from_numpy(matrix.toarray()).float()
    operators = ["adjacency", matrix, dense, lambda a: a.roll(1, 0) + a.roll(-1, 0)]
    t = rfp.encode(graph, operators=operators, num_channels=3, num_steps=4)
    for o in range(1, 4):
        torch.testing.assert_close(t.states[..., 3 * o : 3 * o + 3], t.states[..., :3], atol=1e-5, rtol=1e-5)


def test_empty_graph_has_an_empty_encoding() -> None:
    empty = Graph(torch.zeros(2, 0, dtype=torch.long), 0)
    assert rfp.encode(empty, num_channels=3, num_steps=2).states.shape == (1, 0, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_channels": 0}, "num_channels must be an integer of at least 1, got 0"),
        ({"num_steps": -1}, "num_steps must be an integer of at least 0"),
        ({"num_steps": 2.5}, "got 2.5"),
        ({"operators": "adjacency"}, "non-empty list"),
        ({"operators": ["laplacian"]}, "'normalized_laplacian'"),
        ({"normalization": "QR"}, "'qr'"),
        ({"distribution": "gauss"}, "'normal'"),
        ({"dtype": torch.float16}, "storage_dtype"),
        ({"features": torch.ones(4, 2)}, "n = 5, got"),
        ({"features": torch.full((5, 2), float("nan"))}, "finite"),
        ({"seed": 1.5}, "integer"),
    ],
)
def test_bad_arguments_say_what_and_what_to_do(arguments: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        rfp.encode(nx.path_graph(5), **arguments)


@pytest.mark.parametrize(
    ("keys", "got"),
    [
        (torch.tensor([7]), r"torch.int64 of shape \[1\]"),
        (torch.tensor([7, 8, 9, 10]), r"torch.int64 of shape \[4\]"),
        (torch.tensor([[7], [8], [9]]), r"torch.int64 of shape \[3, 1\]"),
        (torch.tensor([7.5, 8.0, 9.0]), r"torch.float32 of shape \[3\]"),
        ([7, 8, 9], "list"),
    ],
)
def test_graph_keys_are_one_for_each_graph(keys: Any, got: str, tmp_path: Path) -> None:
    graphs = as_graph([nx.path_graph(n) for n in (3, 4, 5)])
    for cache in (None, tmp_path):
        with pytest.raises(ArgumentError, match=f"one integer for each of the 3 graphs, got {got}"):
            rfp.encode(graphs, graph_keys=keys, num_steps=0, cache=cache)
    with pytest.raises(ArgumentError, match=f"one integer for each of the 3 graphs, got {got}"):
        rfp.random_features(graphs, num_channels=2, graph_keys=keys)


def test_graph_keys_name_the_draw() -> None:
    path, ring = as_graph(nx.path_graph(6)), as_graph(nx.cycle_graph(6))
    key = torch.tensor([7])
    named = [rfp.encode(g, num_channels=2, num_steps=0, graph_keys=key).storage for g in (path, ring)]
    assert torch.equal(*named)
    assert not torch.equal(named[0], rfp.encode(path, num_channels=2, num_steps=0).storage)
