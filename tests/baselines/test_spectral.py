"""Eigenvectors: the defining equation, the right end of the spectrum, awkward sizes, and every fallback."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse.linalg import ArpackNoConvergence

from rfp.baselines import eigenpairs, eigenvectors, flip_signs, spectral
from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.graph import Graph


def dense(nx_graph: nx.Graph, operator: str) -> np.ndarray:
    a = nx.to_numpy_array(nx_graph, weight=None) + np.eye(len(nx_graph))
    d = 1 / np.sqrt(a.sum(1))
    a = d[:, None] * a * d[None, :]
    return a if operator == "normalized_adjacency" else np.eye(len(a)) - a


@pytest.mark.parametrize("operator", ["normalized_adjacency", "normalized_laplacian"])
@pytest.mark.parametrize("which", ["smallest", "largest_magnitude"])
@pytest.mark.parametrize("k", [3, 40, None])
def test_awkward_graphs(awkward: nx.Graph, operator: str, which: str, k: int | None) -> None:
    n, matrix = len(awkward), dense(awkward, operator)
    options = {"num_eigenvectors": k, "operator": operator, "which": which, "dtype": torch.float64}
    values, vectors = (t.numpy() for t in eigenpairs(awkward, **options))  # type: ignore[arg-type]
    width, kept = (n if k is None else k), (n if k is None else min(n, k))
    assert values.shape == (1, width)
    assert vectors.shape == (n, width)
    assert not values[:, kept:].any()
    assert not vectors[:, kept:].any()
    values, vectors = values[0, :kept], vectors[:, :kept]
    assert np.allclose(matrix @ vectors, vectors * values, atol=1e-10)
    assert np.allclose(vectors.T @ vectors, np.eye(kept), atol=1e-10)
    all_values = np.linalg.eigvalsh(matrix)
    if which == "smallest":
        assert np.allclose(values, all_values[:kept], atol=1e-10)
    else:
        assert np.allclose(np.abs(values), np.sort(np.abs(all_values))[::-1][:kept], atol=1e-10)
    assert (vectors.max(0) >= np.abs(vectors).max(0) * (1 - 1e-7)).all()  # the sign rule, up to ties


def test_all_vectors_rebuild_the_operator() -> None:
    graph = nx.random_labeled_tree(20, seed=0)
    options = {"num_eigenvectors": None, "operator": "normalized_adjacency", "dtype": torch.float64}
    values, vectors = eigenpairs(graph, **options)  # type: ignore[arg-type]
    rebuilt = vectors @ torch.diag(values[0]) @ vectors.T
    assert np.allclose(rebuilt, dense(graph, "normalized_adjacency"), atol=1e-10)


@pytest.mark.parametrize("dense_max", [50, 5])
@pytest.mark.parametrize("n", [6, 8, 30, 31, 40])
def test_positive_comes_first_of_a_pair(n: int, dense_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "DENSE_MAX_NODES", dense_max)
    path = nx.path_graph(n)  # eigenvalues 2 cos(j pi / (n + 1)), j = 1 ... n: pairs of lambda and -lambda
    pairs = [sign * 2 * np.cos(j * np.pi / (n + 1)) for j in (1, 2, 3) for sign in (1, -1)]
    for k in range(1, 7):
        values, _ = eigenpairs(
            path, num_eigenvectors=k, operator="adjacency", which="largest_magnitude", dtype=torch.float64
        )
        assert np.allclose(values[0], pairs[:k], atol=1e-8)


def test_a_batch_of_mixed_sizes_is_its_graphs_alone() -> None:
    graphs = [as_graph(nx.random_labeled_tree(n, seed=n)) for n in (5, 9, 5, 1, 30, 9)]
    values, vectors = eigenpairs(graphs, num_eigenvectors=6)
    for g, graph in enumerate(graphs):
        start = sum(one.num_nodes for one in graphs[:g])
        one_values, one_vectors = eigenpairs(graph, num_eigenvectors=6)
        assert torch.allclose(values[g], one_values[0], atol=1e-6)
        assert torch.allclose(vectors[start : start + graph.num_nodes], one_vectors, atol=1e-6)
    assert eigenvectors(graphs, num_eigenvectors=None).shape == (59, 30)


def test_dense_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [as_graph(nx.random_labeled_tree(8, seed=s)) for s in range(5)]
    expected = eigenvectors(graphs, num_eigenvectors=4)
    monkeypatch.setattr(spectral, "_CHUNK_WORDS", 2 * 64)
    assert torch.equal(eigenvectors(graphs, num_eigenvectors=4), expected)


@pytest.mark.parametrize("which", ["smallest", "largest_magnitude"])
@pytest.mark.parametrize("solver", ["lanczos", "dense_fallback", "subspace_fallback"])
def test_large_graph_solvers(solver: str, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "DENSE_MAX_NODES", 50)
    if solver != "lanczos":

        def fails(*args: object, **kwargs: object) -> None:
            raise ArpackNoConvergence("no convergence", np.zeros(0), np.zeros((0, 0)))

        monkeypatch.setattr("scipy.sparse.linalg.eigsh", fails)
    if solver == "subspace_fallback":
        monkeypatch.setattr(spectral, "DENSE_FALLBACK_MAX_NODES", 10)
    graph = nx.random_labeled_tree(200, seed=4)
    matrix = dense(graph, "normalized_adjacency")
    options = {"num_eigenvectors": 4, "operator": "normalized_adjacency", "which": which, "dtype": torch.float64}
    values, vectors = (t.numpy() for t in eigenpairs(graph, **options))  # type: ignore[arg-type]
    tolerance = 1e-3 if solver == "subspace_fallback" else 1e-8
    assert np.abs(matrix @ vectors - vectors * values).max() < tolerance
    exact = np.linalg.eigvalsh(matrix)
    expected = exact[:4] if which == "smallest" else exact[np.argsort(-np.abs(exact))][:4]
    assert np.allclose(values[0], expected, atol=tolerance)


@pytest.mark.parametrize("which", ["smallest", "largest_magnitude"])
def test_many_components_by_the_sparse_solver(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "DENSE_MAX_NODES", 50)
    parts = [nx.random_labeled_tree(120, seed=2), *[nx.path_graph(2 + i % 4) for i in range(30)], nx.empty_graph(5)]
    graph = nx.disjoint_union_all(parts)
    graph = nx.relabel_nodes(graph, {v: (7 * v) % len(graph) for v in graph})  # components spread over the numbers
    matrix = dense(graph, "normalized_adjacency")
    options = {"num_eigenvectors": 45, "operator": "normalized_adjacency", "which": which, "dtype": torch.float64}
    values, vectors = (t.numpy() for t in eigenpairs(graph, **options))  # type: ignore[arg-type]
    assert np.abs(matrix @ vectors - vectors * values).max() < 1e-9
    assert np.allclose(vectors.T @ vectors, np.eye(45), atol=1e-9)
    exact = np.linalg.eigvalsh(matrix)
    expected = exact[:45] if which == "smallest" else np.sort(np.abs(exact))[::-1][:45]
    assert np.allclose(values[0] if which == "smallest" else np.abs(values[0]), expected, atol=1e-9)


def test_two_runs_of_the_sparse_solver_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectral, "DENSE_MAX_NODES", 50)
    graph = nx.random_labeled_tree(300, seed=1)
    assert torch.equal(eigenvectors(graph, num_eigenvectors=5), eigenvectors(graph, num_eigenvectors=5))


def test_many_components_have_as_many_null_vectors() -> None:
    graph = nx.disjoint_union_all([nx.path_graph(3)] * 5)
    values, vectors = eigenpairs(graph, num_eigenvectors=6)
    assert np.allclose(values[0, :5], 0, atol=1e-6)
    assert float(values[0, 5]) > 0.1
    assert np.allclose(vectors.T @ vectors, np.eye(6), atol=1e-5)


def test_sign_flips_are_per_graph_and_column_and_repeatable() -> None:
    graph = as_graph([as_graph(nx.cycle_graph(5)), as_graph(nx.path_graph(6))])
    vectors = eigenvectors(graph, num_eigenvectors=4)
    flipped = flip_signs(vectors, graph, seed=1)
    for rows in (slice(0, 5), slice(5, 11)):
        for column in range(4):
            same = torch.equal(flipped[rows, column], vectors[rows, column])
            opposite = torch.equal(flipped[rows, column], -vectors[rows, column])
            assert same or opposite
    assert torch.equal(flipped, flip_signs(vectors, graph, seed=1))
    alone = flip_signs(vectors[5:], as_graph(nx.path_graph(6)), seed=1)
    assert torch.equal(flipped[5:], alone)
    signs = torch.stack([flip_signs(torch.ones(11, 4), graph, seed=s)[[0, 5]] for s in range(500)])
    assert float(signs.mean(0).abs().max()) < 0.15  # both signs, in every graph and column
    pairs = signs.flatten(1)
    assert float((pairs.T @ pairs / 500 - torch.eye(8)).abs().max()) < 0.2  # and independent of each other


def test_directed_graphs_need_a_symmetric_operator(directed: Graph) -> None:
    with pytest.raises(ArgumentError, match=r"is not symmetric on this graph.*normalized_adjacency\.sym"):
        eigenvectors(directed, operator="normalized_adjacency")
    assert eigenvectors(directed, operator="normalized_adjacency.sym", num_eigenvectors=3).shape == (5, 3)


def test_wrong_arguments() -> None:
    with pytest.raises(ArgumentError, match="which must be one of"):
        eigenvectors(nx.path_graph(3), which="largest")
    with pytest.raises(ArgumentError, match="num_eigenvectors must be an integer of at least 1, got"):
        eigenvectors(nx.path_graph(3), num_eigenvectors=0)
    with pytest.raises(ArgumentError, match="drop the power"):
        eigenvectors(nx.path_graph(3), operator="adjacency^2")
