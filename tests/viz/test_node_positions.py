"""Where nodes are drawn: finite, repeatable, neighbours near each other."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from rfp.graph import Graph
from rfp.viz import node_positions


def test_awkward_graphs(awkward: nx.Graph) -> None:
    placed = node_positions.positions(awkward)
    assert placed.shape == (len(awkward), 2)
    assert placed.dtype == np.float32
    assert np.isfinite(placed).all()
    assert np.linalg.norm(placed, axis=1).max() == pytest.approx(1, abs=1e-5) or len(awkward) == 1
    np.testing.assert_array_equal(placed, node_positions.positions(awkward))
    gaps = np.linalg.norm(placed[:, None] - placed, axis=-1)[~np.eye(len(awkward), dtype=bool)]
    assert gaps.min(initial=1) > 1e-3  # no two nodes on one spot


def test_a_directed_weighted_graph(directed: Graph) -> None:
    assert np.isfinite(node_positions.positions(directed)).all()


@pytest.mark.parametrize("size", [100, 1200])
def test_communities_are_apart(size: int) -> None:
    """In both ways, springs and RFP coordinates on a mesh, the four parts are told apart by where they are."""
    part = size // 4
    graph = nx.planted_partition_graph(4, part, min(1, 12 / part), 0.3 / part, seed=0)
    assert node_positions.method(size) == ("spring" if size == 100 else "rfp")
    placed = node_positions.positions(graph).reshape(4, part, 2)
    centre = placed.mean(axis=1)
    spread = np.sqrt(((placed - centre[:, None]) ** 2).sum(-1).mean())
    between = np.linalg.norm(centre[:, None] - centre, axis=-1)[~np.eye(4, dtype=bool)]
    assert between.min() > 1.5 * spread


def test_edges_are_short_on_a_large_grid() -> None:
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(40, 40))
    placed = node_positions.positions(grid)
    ends = np.array(grid.edges).T
    along = np.linalg.norm(placed[ends[0]] - placed[ends[1]], axis=1).mean()
    shuffled = np.random.default_rng(0).permutation(1600)[ends]
    assert along < 0.15 * np.linalg.norm(placed[shuffled[0]] - placed[shuffled[1]], axis=1).mean()


def test_the_mesh_repels_like_all_pairs() -> None:
    x = 20 * np.random.default_rng(0).standard_normal((400, 2))
    exact, meshed = node_positions._all_pairs(x), node_positions._by_mesh(x)
    # Neighbours inside one cell are what a mesh cannot see: compared is the bulk of the force.
    error = np.linalg.norm(exact - meshed, axis=1)
    assert np.median(error) < 0.1 * np.median(np.linalg.norm(exact, axis=1))


def test_rounds_can_be_watched() -> None:
    seen = []
    node_positions.positions(nx.path_graph(5), progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, seen[0][1])
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
