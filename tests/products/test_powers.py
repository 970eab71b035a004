"""Products of states against dense powers: exact, unbiased, with honest errors; and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor

import rfp
from rfp import products
from rfp.errors import ArgumentError

POWERS = 6
PAIRS = 40


def random_graphs(count: int, seed: int = 0, directed: bool = False, weighted: bool = False) -> list[Any]:
    """Trees, sparse and dense random graphs, some with isolated nodes and self-loops, of 1 to 14 nodes."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        n = int(rng.integers(1, 15))
        density = (0.08, 0.2, 0.5)[number % 3]
        a = (rng.random((n, n)) < density).astype(float)
        a = a if directed else np.triu(a) + np.triu(a, 1).T
        if weighted:
            w = rng.uniform(0.2, 2.0, (n, n))
            a = a * (w if directed else np.triu(w) + np.triu(w, 1).T)
        edges = torch.from_numpy(np.stack(a.nonzero()))
        weight = torch.from_numpy(a[a.nonzero()]) if weighted else None
        found.append(rfp.Graph(edges, n, weight))
    return found


def dense(name: str, graph: rfp.Graph) -> np.ndarray:
    """The operator written out, without the library's operators."""
    a = np.zeros((graph.num_nodes, graph.num_nodes))
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.numpy()
    np.add.at(a, tuple(graph.edge_index.numpy()), weight)
    if name == "adjacency":
        return a
    if name == "random_walk":
        degree = a.sum(1)
        return np.divide(a, degree[:, None], out=np.zeros_like(a), where=degree[:, None] > 0)
    loops = a + np.diag((np.diag(a) == 0).astype(float))
    root = np.sqrt(loops.sum(1)), np.sqrt(loops.sum(0))
    hat = loops / np.outer(*root)
    return hat if name == "normalized_adjacency" else np.eye(len(a)) - hat


def powers(name: str, graph: rfp.Graph, largest: int) -> np.ndarray:  # [L + 1, n, n]
    S = dense(name, graph)
    return np.stack([np.linalg.matrix_power(S, p) for p in range(largest + 1)])


def true_diagonal(name: str, graphs: list[Any], largest: int) -> Tensor:
    rows = [np.diagonal(powers(name, graph, largest), axis1=1, axis2=2).T for graph in graphs]
    return torch.from_numpy(np.concatenate(rows))


def some_pairs(graphs: list[Any]) -> tuple[Tensor, list[tuple[int, int, int]]]:
    """Pairs inside graphs of a batch: as node numbers of the batch, and as (graph, u, v)."""
    rng = np.random.default_rng(5)
    offsets = np.cumsum([0, *(graph.num_nodes for graph in graphs)])
    chosen = []
    for _ in range(PAIRS):
        g = int(rng.integers(len(graphs)))
        u, v = rng.integers(graphs[g].num_nodes, size=2)
        chosen.append((g, int(u), int(v)))
    return torch.tensor([[offsets[g] + u, offsets[g] + v] for g, u, v in chosen]).T, chosen


def true_pairs(name: str, graphs: list[Any], chosen: list[tuple[int, int, int]], largest: int) -> Tensor:
    return torch.from_numpy(np.stack([powers(name, graphs[g], largest)[:, u, v] for g, u, v in chosen]))


# Exact.


@pytest.mark.parametrize("name", ["adjacency", "normalized_adjacency", "normalized_laplacian", "random_walk"])
@pytest.mark.parametrize("kind", ["undirected", "weighted", "directed"])
def test_orthonormal_start_is_exact_on_hundreds_of_graphs(name: str, kind: str) -> None:
    graphs = random_graphs(200, directed=kind == "directed", weighted=kind == "weighted")
    found = products.diagonal(graphs, operator=name, num_powers=POWERS, exact=True, dtype=torch.float64)
    expected = true_diagonal(name, graphs, POWERS)
    assert torch.allclose(found.value, expected, rtol=1e-9, atol=1e-9)
    assert (found.standard_error == 0).all()
    edge_index, chosen = some_pairs(graphs)
    between = products.pairs(graphs, edge_index, operator=name, num_powers=POWERS, exact=True, dtype=torch.float64)
    assert torch.allclose(between.value, true_pairs(name, graphs, chosen, POWERS), rtol=1e-9, atol=1e-9)
    assert (between.standard_error == 0).all()


def test_exact_in_single_precision_to_rounding() -> None:
    graphs = random_graphs(50)
    found = products.diagonal(graphs, num_powers=POWERS, exact=True)
    assert torch.allclose(found.value.double(), true_diagonal("normalized_adjacency", graphs, POWERS), atol=3e-6)


def test_triangles_by_hand() -> None:
    """(A^3)_vv is twice the triangles at v; two triangles that share an edge."""
    edges = torch.tensor([[0, 1, 1, 2, 0, 2, 1, 3, 2, 3], [1, 0, 2, 1, 2, 0, 3, 1, 3, 2]])
    found = products.diagonal(rfp.Graph(edges, 4), operator="adjacency", num_powers=3, exact=True)
    assert found.value[:, 3].round().tolist() == [2, 4, 4, 2]
    assert found.value[:, 2].round().tolist() == [2, 3, 3, 2]  # degrees


def test_entries_between_graphs_of_a_batch_are_zero() -> None:
    graphs = [rfp.Graph(torch.tensor([[0, 1], [1, 0]]), 2)] * 2
    found = products.pairs(graphs, torch.tensor([[0, 0], [2, 1]]), operator="adjacency", num_powers=1, num_channels=8)
    assert found.value[0].tolist() == [0, 0]
    assert found.standard_error[0].tolist() == [0, 0]
    assert found.value[1, 1].item() == pytest.approx(1)


# Estimates.

STARTS = [("normal", "drawn"), ("rademacher", "drawn"), ("uniform", "drawn"), ("normal", "unit")]
STARTS += [("normal", "orthonormal"), ("rademacher", "orthonormal"), ("rademacher", "unit")]


def ladder() -> rfp.Graph:
    graph = nx.convert_node_labels_to_integers(nx.ladder_graph(8))
    edges = torch.tensor(list(graph.edges)).T
    return rfp.Graph(torch.cat([edges, edges.flip(0)], dim=1), graph.number_of_nodes())


@pytest.mark.parametrize(("distribution", "start"), STARTS)
def test_unbiased_over_repeats(distribution: str, start: str) -> None:
    """The mean of 2,000 estimates from five channels each lies within its own error of the truth: z-scores of all
    entries are those of a standard normal, none beyond 5, their mean square near 1."""
    graph, repeats = ladder(), 2_000
    many = products.diagonal(
        [graph] * 1,
        num_powers=POWERS,
        num_channels=5,
        num_trajectories=repeats,
        distribution=distribution,
        start=start,
        dtype=torch.float64,
    )
    truth = true_diagonal("normalized_adjacency", [graph], POWERS)
    z = (many.value - truth)[:, 1:] / many.standard_error[:, 1:]
    assert z.abs().max() < 5
    # Entries of one draw are correlated, so the mean square is looser than that of as many independent numbers.
    assert 0.1 < z.square().mean() < 3


@pytest.mark.parametrize(
    ("distribution", "start"),
    [("normal", "drawn"), ("rademacher", "drawn"), ("normal", "unit"), ("normal", "orthonormal")],
)
def test_standard_errors_and_intervals_are_honest(distribution: str, start: str) -> None:
    """Over 120 seeds: the mean squared error is the mean squared standard error, and intervals cover about 95 %."""
    graph, repeats, k = ladder(), 120, 12
    both = torch.tensor(
        [[*range(16), 0, 3], [*range(16), 5, 9]]
    )  # the diagonal as pairs of a node with itself, and two
    known = torch.from_numpy(powers("normalized_adjacency", graph, POWERS)[:, both[0], both[1]].T)
    errors, claimed, covered = [], [], []
    for seed in range(repeats):
        draw = {"num_channels": k, "distribution": distribution, "start": start, "seed": seed, "dtype": torch.float64}
        found = products.pairs(graph, both, num_powers=POWERS, **draw)
        value, error = found.value, found.standard_error
        errors.append((value - known)[:, 1:].square())
        claimed.append(error[:, 1:].square())
        covered.append((((value - known).abs() <= 1.96 * error)[:, 1:]).double())
    ratio = torch.stack(claimed).mean() / torch.stack(errors).mean()
    assert 0.9 < ratio < 1.1
    # Twelve products of normal numbers are skewed: their intervals cover a little less than 95 %.
    assert 0.86 < torch.stack(covered).mean() < 0.98


@pytest.mark.parametrize("kurtosis", [3.0, 1.0])
def test_the_variance_formula_of_the_docs(kurtosis: float) -> None:
    r"""Var = (S^2i)_uu (S^2j)_vv + (S^p)_uv^2 + (kurtosis - 3) sum_w (S^i)_uw^2 (S^j)_vw^2, for one product."""
    graph, k = ladder(), 40_000
    S = torch.from_numpy(dense("normalized_adjacency", graph))
    found = products.diagonal(
        graph,
        num_powers=4,
        num_channels=k,
        start="drawn",
        distribution="normal" if kurtosis == 3 else "rademacher",
        dtype=torch.float64,
    )
    for p in range(1, 5):
        i, j = p // 2, p - p // 2
        Si, Sj = torch.linalg.matrix_power(S, i), torch.linalg.matrix_power(S, j)
        variance = (Si @ Si).diagonal() * (Sj @ Sj).diagonal() + (Si @ Sj).diagonal().square()
        variance = variance + (kurtosis - 3) * (Si.square() * Sj.square()).sum(1)
        assert torch.allclose(k * found.standard_error[:, p].square(), variance, rtol=0.08)


def test_orthonormal_errors_fall_to_zero_as_channels_reach_the_nodes() -> None:
    graph = ladder()
    truth = true_diagonal("normalized_adjacency", [graph], POWERS)
    rms = {}
    for k in (2, 8, 15, 16, 20):
        draws = [products.diagonal(graph, num_powers=POWERS, num_channels=k, seed=seed) for seed in range(20)]
        rms[k] = math.sqrt(float(torch.stack([(one.value - truth).square().mean() for one in draws]).mean()))
    assert rms[2] > 2 * rms[8] > 4 * rms[15]
    assert rms[16] < 1e-6
    assert rms[20] < 1e-6


def test_rotating_the_channels_changes_nothing() -> None:
    """Products sum over channels: any orthogonal mixing of them leaves the estimate as it is."""
    graph, k = ladder(), 6
    r = torch.randn(16, k, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    q = torch.linalg.qr(torch.randn(k, k, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[0]
    encoded = [
        rfp.encode(graph, features=features, num_steps=3, normalization="none", dtype=torch.float64)
        for features in (r, r @ q)
    ]
    one, other = (products.diagonal(t).value for t in encoded)
    assert torch.allclose(one, other, atol=1e-12)
    pairs = torch.tensor([[0, 4], [9, 4]])
    one, other = (products.pairs(t, pairs).value for t in encoded)
    assert torch.allclose(one, other, atol=1e-12)


# Trajectories.


@pytest.mark.parametrize("start", ["drawn", "unit", "orthonormal"])
@pytest.mark.parametrize("operator", ["normalized_adjacency", "random_walk"])
def test_a_trajectory_tells_what_the_stream_tells(operator: str, start: str) -> None:
    graphs = random_graphs(12, seed=3, directed=True)  # no symmetric form: the same products by both ways
    draw = {"num_channels": 5, "num_trajectories": 3, "start": start, "seed": 4, "dtype": torch.float64}
    t = rfp.encode(graphs, operators=["adjacency", operator], num_steps=4, normalization="none", **draw)
    streamed = products.diagonal(graphs, operator=operator, num_powers=4, **draw)
    for which in (operator, 1):
        kept = products.diagonal(t, operator=which)
        assert torch.allclose(kept.value, streamed.value, atol=1e-12)
        assert torch.allclose(kept.standard_error, streamed.standard_error, atol=1e-10, equal_nan=True)
        assert kept.num_samples == 15
    edge_index, _ = some_pairs(graphs)
    kept, streamed = (
        products.pairs(t, edge_index, operator=1),
        products.pairs(graphs, edge_index, operator=operator, num_powers=4, **draw),
    )
    assert torch.allclose(kept.value, streamed.value, atol=1e-12)


def test_steps_before_the_first_normalisation_are_used() -> None:
    graphs = random_graphs(30)
    t = rfp.encode(graphs, num_channels=14, num_steps=9, normalize_every=4, start="orthonormal", dtype=torch.float64)
    found = products.diagonal(t, exact=True)
    assert found.value.size(1) == 7  # steps 0 to 3 come before the QR of step 4
    assert torch.allclose(found.value, true_diagonal("normalized_adjacency", graphs, 6), atol=1e-9)
    assert products.diagonal(t, num_powers=2).value.size(1) == 3


def test_pairs_in_blocks_equal_pairs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = random_graphs(20)
    edge_index, _ = some_pairs(graphs)
    whole = products.pairs(graphs, edge_index, num_powers=3, num_channels=4)
    monkeypatch.setattr(products.channel_means, "PAIR_BYTES", 1)
    blocks = products.pairs(graphs, edge_index, num_powers=3, num_channels=4)
    assert torch.equal(whole.value, blocks.value)
    assert torch.equal(whole.standard_error, blocks.standard_error)
    assert products.pairs(graphs, edge_index[:, :0], num_powers=3).value.shape == (0, 4)


def test_both_orders_of_a_pair_have_one_estimate() -> None:
    """S is symmetric, and so is what is said of it, odd powers included, where the two states differ."""
    graph = rfp.as_graph(nx.karate_club_graph())
    ends = torch.tensor([[0, 5, 33, 2], [1, 16, 0, 30]])
    arguments = {"num_powers": 5, "num_channels": 4, "seed": 3}
    one, other = (products.pairs(graph, pairs, **arguments) for pairs in (ends, ends.flip(0)))
    assert torch.equal(one.value, other.value)
    torch.testing.assert_close(one.standard_error, other.standard_error)
    assert float(one.standard_error[:, 1:].min()) > 0  # an estimate it is


def test_a_trajectory_of_uniform_features_is_scaled_by_their_variance() -> None:
    graph = rfp.as_graph(nx.karate_club_graph())
    arguments = {"num_channels": 8, "distribution": "uniform", "seed": 2}
    t = rfp.encode(graph, num_steps=2, normalization="none", **arguments)
    expected = 3 * t.storage[:, 0, 0, 0].square().mean(1)  # E[r^2] is 1/3
    torch.testing.assert_close(products.diagonal(t, num_powers=0).value[:, 0], expected)
    stream = products.diagonal(graph, num_powers=3, start="drawn", **arguments)
    torch.testing.assert_close(products.diagonal(t, num_powers=3).value, stream.value)


def test_returns_after_one_and_two_steps_are_exact_whatever_is_drawn() -> None:
    graph = nx.karate_club_graph()
    graph.add_edge(3, 3, weight=2.0)
    adjacency = nx.to_numpy_array(graph)
    walk = adjacency / adjacency.sum(1, keepdims=True)
    found = products.return_probabilities(rfp.as_graph(graph), walk_length=3, num_channels=4)
    exact = np.stack([np.diag(walk), np.diag(walk @ walk)], axis=1)
    np.testing.assert_allclose(found.value[:, :2], exact, atol=1e-6)
    assert not found.standard_error[:, :2].any()
    assert float(found.standard_error[:, 2].min()) > 0


def test_interval_and_one_sample() -> None:
    graph = ladder()
    one = products.diagonal(graph, num_powers=1, num_channels=1, start="drawn")
    assert one.standard_error.isinf().all()
    assert products.diagonal(graph, num_powers=1, num_channels=1).standard_error.isinf().all()
    low, high = products.diagonal(graph, num_powers=1, num_channels=9).interval(2.0)
    assert (low <= high).all()
    empty = products.diagonal(rfp.Graph(torch.zeros(2, 0, dtype=torch.long), 0), num_powers=2)
    assert empty.value.shape == (0, 3)


def test_many_trajectories_shrink_the_error() -> None:
    graph = ladder()
    few, many = (products.diagonal(graph, num_powers=2, num_channels=4, num_trajectories=b) for b in (1, 100))
    assert many.num_samples == 400
    assert many.standard_error[:, 2].mean() < few.standard_error[:, 2].mean() / 5


# What is refused, in one line each.


def normalised(**more: Any) -> rfp.Trajectory:
    return rfp.encode(ladder(), **{"num_channels": 4, "num_steps": 6, **more})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: products.diagonal(normalised()),
            r"of 6 steps 0 come before the first normalisation \('qr'\), which mixes",
        ),
        (
            lambda: products.diagonal(normalised(normalize_every=3), num_powers=5),
            r"num_powers=5 cannot be had .* 2 come before .* powers up to 4; encode with normalization=\"none\"",
        ),
        (
            lambda: products.diagonal(normalised(normalization="none"), num_powers=13),
            "num_powers=13 cannot be had from this trajectory: of 6 steps, and S is symmetric, .* up to 12",
        ),
        (
            lambda: products.pairs(normalised(normalization="none"), torch.tensor([[0], [16]])),
            r"edge_index must hold nodes in 0\.\.15, got 16",
        ),
        (lambda: products.pairs(ladder(), torch.tensor([[0], [-1]])), r"nodes in 0\.\.15, got -1"),
        (lambda: products.pairs(ladder(), torch.tensor([0, 1])), r"shape \[2, num_pairs\], got \[2\]"),
        (lambda: products.pairs(ladder(), torch.tensor([[0.0], [1.0]])), "must hold node numbers, got torch.float32"),
        (
            lambda: products.diagonal(ladder(), exact=True, num_channels=15),
            "as many channels as the largest graph has nodes, 16, got num_channels=15",
        ),
        (lambda: products.diagonal(ladder(), exact=True, start="unit"), "needs start=\"orthonormal\", got 'unit'"),
        (
            lambda: products.diagonal(normalised(normalization="none"), exact=True),
            "the trajectory has start='drawn' and num_channels=4",
        ),
        (
            lambda: products.diagonal(
                rfp.Graph(torch.tensor([[0, 1], [1, 0]]), 2), exact=True, distribution=torch.ones_like
            ),
            "2 features do not span a graph of 2 nodes",
        ),
        (lambda: products.diagonal(normalised(normalization="none"), seed=3), "seed is that of the trajectory"),
        (
            lambda: products.diagonal(normalised(normalization="none").extend(torch.tensor([[16], [0]]))),
            "nodes were added to this trajectory",
        ),
        (
            lambda: products.diagonal(normalised(normalization="none", operators=["adjacency", "random_walk"])),
            r"several operators; say which with operator=, one of \['adjacency', 'random_walk'\]",
        ),
        (
            lambda: products.diagonal(normalised(normalization="none"), operator="adjacency"),
            "operator of the trajectory must be one of 'normalized_adjacency', got 'adjacency'",
        ),
        (lambda: products.diagonal(ladder(), num_powers=-1), "num_powers must be an integer of at least 0, got -1"),
        (lambda: products.diagonal(ladder(), num_chanels=3), "an argument must be one of .*, got 'num_chanels'"),
        (
            lambda: products.diagonal(ladder(), start="drawn", distribution=lambda u: u),
            "the variance of a callable distribution is not known",
        ),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", ["extend", "replay", "load"])
def test_a_trajectory_with_new_nodes_is_known_however_it_comes(how: str, tmp_path: Path) -> None:
    t = normalised(normalization="none")
    larger = rfp.Graph(torch.cat([t.graph.edge_index, torch.tensor([[16, 0], [0, 16]])], dim=1), 17)
    grown = t.replay(larger) if how == "replay" else t.extend(torch.tensor([[16], [0]]))
    if how == "load":
        grown.save(tmp_path / "t.npz")
        grown = rfp.new_nodes.load(tmp_path / "t.npz")
    for call in (products.diagonal, lambda t: products.pairs(t, torch.tensor([[0], [1]]))):
        with pytest.raises(ArgumentError, match=r"nodes were added to this trajectory, .*; give its graph"):
            call(grown)
    assert torch.isfinite(products.diagonal(grown.graph, num_channels=4).value).all()


def test_types_by_name() -> None:
    for estimate in (products.diagonal, products.return_probabilities):
        by_name, itself = (estimate(ladder(), dtype=dtype, seed=3) for dtype in ("float64", torch.float64))
        assert by_name.value.dtype == torch.float64
        assert torch.equal(by_name.value, itself.value)


def test_a_trajectory_without_origin() -> None:
    S = rfp.operators.from_matrix(torch.eye(3))
    t = rfp.propagate(S, torch.randn(3, 2), num_steps=1, normalization="none")
    with pytest.raises(ArgumentError, match="does not know its graph and settings"):
        products.diagonal(t)


def test_the_page_has_its_picture() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert "](../images/products-error.png)" in (docs / "concepts" / "products.md").read_text()
    assert (docs / "images" / "products-error.png").stat().st_size > 10_000
