"""The draw is a pure function of its coordinates, and has the distribution it says."""

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.stats
import torch

from rfp.conversion import as_graph
from rfp.errors import ArgumentError
from rfp.features import _normal, random_features
from rfp.graph import Graph

NAMES = ("normal", "rademacher", "uniform")
KARATE = as_graph(nx.karate_club_graph())
RING = as_graph(nx.cycle_graph(9))


def scramble(z: int) -> int:
    """SplitMix64's finaliser in plain integers, written again from its definition."""
    mask = 2**64 - 1
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


@pytest.mark.parametrize("name", NAMES)
def test_values_by_hand(name: str) -> None:
    gold, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    key = int(RING.keys) & mask
    seed, b, node, channel = 5, 1, 3, 2
    stream = scramble((scramble(seed) + (b + 1) * gold) & mask)
    word = scramble((scramble((stream + key + (node + 1) * gold) & mask) + (channel // 2 + 1) * gold) & mask)
    high, low = word >> 32, word & 0xFFFFFFFF
    expected = {
        "rademacher": -1.0 if high >> 31 else 1.0,
        "uniform": (2 * (high >> 8) + 1) / 2**24 - 1,
        "normal": math.sqrt(-2 * math.log(((high >> 8) + 0.5) / 2**24)) * math.cos(2 * math.pi * (low >> 8) / 2**24),
    }[name]
    r = random_features(RING, num_channels=4, num_trajectories=2, distribution=name, seed=seed, dtype=torch.float64)
    assert r[b, node, channel].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_pure_function_of_its_coordinates(name: str) -> None:
    draw = {"distribution": name, "seed": 3}
    whole = random_features(KARATE, num_channels=7, num_trajectories=3, **draw)
    assert whole.shape == (3, 34, 7)
    # fewer channels, fewer trajectories, a block of rows: the same values
    assert torch.equal(random_features(KARATE, num_channels=4, **draw)[0], whole[0, :, :4])
    rows = random_features(KARATE, num_channels=7, num_trajectories=3, rows=slice(10, 17), **draw)
    assert torch.equal(rows, whole[:, 10:17])
    # any batch
    batch = as_graph([RING, KARATE, RING])
    both = random_features(batch, num_channels=7, num_trajectories=3, **draw)
    assert torch.equal(both[:, 9:43], whole)
    assert torch.equal(both[:, :9], both[:, 43:])
    # the precision only rounds
    double = random_features(KARATE, num_channels=7, num_trajectories=3, dtype=torch.float64, **draw)
    assert torch.allclose(double.float(), whole, atol=1e-5)


def test_seeds_graphs_trajectories_and_nodes_differ() -> None:
    r = random_features(KARATE, num_channels=8, num_trajectories=2, seed=0)
    assert not torch.equal(r[0], r[1])
    assert not torch.equal(r, random_features(KARATE, num_channels=8, num_trajectories=2, seed=1))
    assert len({tuple(row) for row in r[0].tolist()}) == 34
    keys = torch.tensor([7])
    named = random_features(KARATE, num_channels=8, graph_keys=keys)
    assert torch.equal(named[:, :9], random_features(RING, num_channels=8, graph_keys=keys))
    assert not torch.equal(named[0], r[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": torch.float16}, "dtype must be torch.float32 or torch.float64, got torch.float16"),
        ({"dtype": "float64"}, "dtype must be torch.float32 or torch.float64, got 'float64'"),
        ({"rows": slice(0, 10, 2)}, "rows must be a slice of nodes in a row"),
        ({"rows": torch.arange(3)}, "rows must be a slice of nodes in a row"),
    ],
)
def test_what_would_be_drawn_otherwise_than_asked_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        random_features(KARATE, num_channels=2, **arguments)


def test_never_the_global_generator() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = random_features(KARATE, num_channels=5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(random_features(KARATE, num_channels=5), first)


@pytest.mark.parametrize(
    ("name", "reference"),
    [("normal", scipy.stats.norm()), ("uniform", scipy.stats.uniform(-1, 2))],
)
def test_distribution(name: str, reference) -> None:
    graph = Graph(torch.zeros(2, 0, dtype=torch.long), 20_000)
    r = random_features(graph, num_channels=10, distribution=name, seed=11, dtype=torch.float64)[0].numpy()
    assert scipy.stats.kstest(r.ravel(), reference.cdf).pvalue > 1e-3
    correlation = np.corrcoef(r.T) - np.eye(10)
    assert np.abs(correlation).max() < 4.5 / math.sqrt(20_000)
    neighbours = np.corrcoef(r[:-1].ravel(), r[1:].ravel())[0, 1]
    assert abs(neighbours) < 4.5 / math.sqrt(200_000)


def test_rademacher_is_fair() -> None:
    graph = Graph(torch.zeros(2, 0, dtype=torch.long), 20_000)
    r = random_features(graph, num_channels=10, distribution="rademacher", seed=2)
    assert set(r.unique().tolist()) == {-1.0, 1.0}
    assert abs(r.mean().item()) < 4.5 / math.sqrt(200_000)


def test_a_callable_maps_uniform_values() -> None:
    uniform = random_features(RING, num_channels=3, distribution="uniform")
    assert torch.equal(random_features(RING, num_channels=3, distribution=lambda u: 2 * u + 1), 2 * uniform + 1)
    with pytest.raises(ArgumentError, match="its input's shape"):
        random_features(RING, num_channels=3, distribution=lambda u: u[0])


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="'normal', 'rademacher', 'uniform', got 'gaussian'"):
        random_features(RING, num_channels=3, distribution="gaussian")
    with pytest.raises(ArgumentError, match="at least 1"):
        random_features(RING, num_channels=0)


def test_normal_features_in_float32_and_float64_are_as_close_as_the_documentation_says() -> None:
    """1e-7 on average; farthest apart, 2^-12, at the word that float32 rounds to 1, whose logarithm is 0."""
    graph = Graph(torch.zeros(2, 0, dtype=torch.long), 50_000)
    single = random_features(graph, num_channels=8, seed=3)
    double = random_features(graph, num_channels=8, seed=3, dtype=torch.float64)
    assert float((single.double() - double).abs().mean()) < 1.2e-7
    near_one = torch.arange(2**24 - 2**16, 2**24)
    radii = [
        _normal(near_one, torch.zeros_like(near_one), dtype)[0].double() for dtype in (torch.float32, torch.float64)
    ]
    apart = (radii[0] - radii[1]).abs()
    assert int(apart.argmax()) == len(apart) - 1
    assert float(apart.max()) == pytest.approx(2.0**-12, rel=1e-6)
    assert float(apart.max()) < 2.5e-4


def test_trajectories_may_be_drawn_block_after_block() -> None:
    whole = random_features(KARATE, num_channels=3, num_trajectories=5)
    assert torch.equal(random_features(KARATE, num_channels=3, num_trajectories=2, first_trajectory=3), whole[3:])
