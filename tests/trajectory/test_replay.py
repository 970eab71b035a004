"""replay: all rows of a larger graph with the factors of a smaller one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfp

from .dense_twin import arrivals, communities, dense_adjacency, dense_operator, encoded, with_factors
from .test_arrivals import drawn


def larger_graph() -> rfp.Graph:
    graph, (edges, _) = communities(), arrivals(40, 5)
    return rfp.Graph(torch.cat([graph.edge_index, edges], dim=1), 45).to_undirected()


@pytest.mark.parametrize("normalization", ["none", "l2", "qr"])
def test_all_rows_equal_a_dense_encoding_with_the_stored_factors(normalization: str) -> None:
    settings = rfp.Settings(num_channels=3, num_steps=5, normalization=normalization, dtype=torch.float64)
    graph, larger = communities(), larger_graph()
    found = rfp.encode(graph, settings).replay(larger)
    r = drawn(graph, 45, settings)[0]
    old, new = (dense_operator("normalized_adjacency", dense_adjacency(g)) for g in (graph, larger))
    expected = np.stack(with_factors(new, r, encoded(old, r[:40], settings)[1]), axis=1)
    assert np.abs(found.storage[:, 0, 0].numpy() - expected).max() <= 1e-9


def test_the_same_graph_gives_the_same_trajectory() -> None:
    t = rfp.encode(communities(), num_channels=3, num_steps=5, num_trajectories=2, operators=["random_walk"])
    assert torch.allclose(t.replay(communities()).storage, t.storage, atol=2e-6)


def test_an_operator_that_is_no_name_is_given_again() -> None:
    graph, larger = communities(), larger_graph()
    matrices = [torch.from_numpy(dense_operator("random_walk", dense_adjacency(g))) for g in (graph, larger)]
    by_matrix = rfp.encode(graph, num_channels=3, num_steps=3, operators=[matrices[0]])
    by_name = rfp.encode(graph, num_channels=3, num_steps=3, operators=["random_walk"])
    found = by_matrix.replay(larger, operators=[matrices[1]])
    assert torch.allclose(found.storage, by_name.replay(larger).storage, atol=1e-5)
    with pytest.raises(rfp.ArgumentError, match="give operators="):
        by_matrix.replay(larger)
    with pytest.raises(rfp.ArgumentError, match="operators must be 1"):
        by_matrix.replay(larger, operators=matrices)


def test_a_smaller_graph_is_refused() -> None:
    with pytest.raises(rfp.ArgumentError, match="hold the 40 nodes"):
        rfp.encode(communities(), num_channels=2).replay((torch.tensor([[0], [1]]), 39))
