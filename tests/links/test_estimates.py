"""Standard errors of estimated scores, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import networkx as nx
import torch

import rfp
from rfp.links.definitions import score_form
from rfp.links.estimates import Sketch, estimate_pairs
from rfp.settings import Settings


def test_columns_of_zeros_are_no_samples() -> None:
    """A start whose columns depend on each other has zeros among them: value and error are those of the others."""
    y = torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    u, v, signs = torch.tensor([0, 1, 4]), torch.tensor([2, 3, 0]), torch.ones(1, dtype=torch.float64)
    padded = torch.cat([y, torch.zeros(5, 1, 2, dtype=torch.float64)], dim=2)
    mean, variance = Sketch(padded, signs, 5.0, 3, 0.4).pairs(u, v)
    samples = 5.0 * (y[u] * y[v])[:, 0]  # [pairs, 3]
    assert torch.allclose(mean, samples.mean(1))
    assert torch.allclose(variance, samples.var(1) / 3 * 0.4)


def test_the_error_of_single_samples_is_their_spread() -> None:
    simple = rfp.Graph(rfp.as_graph(nx.karate_club_graph()).edge_index, 34)
    pairs, form = torch.tensor([[0, 5, 33], [33, 16, 2]]), score_form("common_neighbors", simple)
    settings = Settings(num_channels=1, start="drawn", normalization="none")
    each = [estimate_pairs(simple, form, pairs, settings, first_trajectory=b) for b in range(5)]
    assert all(bool(error.isinf().all()) for _, error in each)
    values = torch.stack([value for value, _ in each])
    value, error = estimate_pairs(simple, form, pairs, replace(settings, num_trajectories=5))
    assert torch.allclose(value, values.mean(0))
    assert torch.allclose(error, values.std(0) / math.sqrt(5), rtol=1e-6)
