"""The product view against dense powers and a plain search."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfp
from rfp.explorer.server import karate_club
from tests.explorer.conftest import Page

CLUB = karate_club().graph


@pytest.mark.parametrize("operator", ["normalized_adjacency", "random_walk", "adjacency^2"])
def test_exact_values_are_powers(page: Page, operator: str) -> None:
    key = page.encode(num_channels=4, num_steps=5, operators=[operator], normalization="qr")["key"]
    A = CLUB.to_scipy().toarray()
    with_loops = A + np.eye(34)
    S = {
        "normalized_adjacency": with_loops / np.sqrt(np.outer(with_loops.sum(0), with_loops.sum(0))),
        "random_walk": A / A.sum(1, keepdims=True),
        "adjacency^2": A @ A,
    }[operator]
    for u, v in ((0, 0), (0, 33), (5, 2)):
        found = page.json(f"encodings/{key}/products?node={u}&other={v}")
        powers = [np.linalg.matrix_power(S, p)[u, v] for p in range(6)]
        np.testing.assert_allclose(found["exact"], powers, rtol=1e-9)


def test_estimates_cover_the_exact_values_and_become_exact(page: Page) -> None:
    inside = []
    for seed in range(40):  # draws, not nodes: the nodes of one draw err together
        key = page.encode(num_channels=32, num_steps=3, num_trajectories=2, distribution="uniform", seed=seed)["key"]
        found = page.json(f"encodings/{key}/products?node={seed % 34}")
        assert found["samples"] == 64
        inside.append(abs(found["estimate"][3] - found["exact"][3]) <= 2 * found["standard_error"][3])
    assert 34 <= sum(inside) <= 40  # two standard errors hold about 95 %
    whole = page.encode(num_channels=34, num_steps=6, start="orthonormal")["key"]
    found = page.json(f"encodings/{whole}/products?node=0&other=33")
    np.testing.assert_allclose(found["estimate"], found["exact"], atol=1e-9)
    np.testing.assert_allclose(found["standard_error"], 0, atol=1e-9)


def test_nearest_by_trajectory(page: Page) -> None:
    settings = {"num_channels": 3, "num_steps": 4, "num_trajectories": 2, "operators": ["adjacency", "random_walk"]}
    key = page.encode(**settings)["key"]
    flat = rfp.encode(CLUB, **settings).node_first().flatten(1).double()
    distance = torch.cdist(flat[7:8], flat)[0]
    distance[7] = float("inf")
    expected = distance.topk(10, largest=False)
    found = page.json(f"encodings/{key}/nearest?node=7")
    assert [one["node"] for one in found] == expected.indices.tolist()
    np.testing.assert_allclose([one["distance"] for one in found], expected.values, rtol=1e-6)
