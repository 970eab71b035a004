"""The bound on rounding: by hand, against exact arithmetic, and the amplification against a perturbed decomposition."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import rfp
from rfp.conversion import as_graph
from rfp.graph import Graph
from rfp.operator_norms import norm_of, rounding_norm
from rfp.operators import DenseOperator, from_name
from rfp.rounding import LONG_ROW, UNITS, Rounding, amplification, rounding_unit

_SCRIPT = importlib.util.spec_from_file_location(
    "rounding_units", Path(__file__).parents[1] / "benchmarks" / "rounding_units.py"
)
assert _SCRIPT is not None
assert _SCRIPT.loader is not None
rounding_units = importlib.util.module_from_spec(_SCRIPT)
_SCRIPT.loader.exec_module(rounding_units)


def test_by_hand() -> None:
    norm, lengths = torch.tensor([2.0]), torch.tensor([[[3.0, 1.0, 0.0]]], dtype=torch.float64)
    u = rounding_unit(torch.float32)
    assert u == UNITS * 2.0**-23
    first = Rounding.start(norm, lengths, torch.float32).after(torch.tensor([[[6.0, 1e-9, 0.0]]]).double())
    assert first.noise.flatten().tolist() == [6 * u, 2 * u, 0.0]
    second = first.after(torch.tensor([[[3.0, 2e-9, 0.0]]]).double())  # grows with the column
    torch.testing.assert_close(second.noise.flatten(), torch.tensor([3 * u + 12 * u, 4 * u + 2e-9 * u, 0.0]).double())
    assert second.renewed().after(lengths).noise.flatten().tolist() == [2 * u] * 3


def test_an_unknown_norm_is_the_largest_growth_seen() -> None:
    start = Rounding.start(None, torch.ones(1, 1, 2, dtype=torch.float64), torch.float64)
    u = rounding_unit(torch.float64)
    first = start.after(torch.tensor([[[3.0, 1e-17]]]).double())
    assert first.noise.flatten().tolist() == [3 * u, 3 * u]
    assert first.renewed().after(torch.tensor([[[0.5, 1e-17]]]).double()).noise.flatten().tolist() == [3 * u, 3 * u]


def complete(n: int) -> Graph:
    edges = torch.cartesian_prod(torch.arange(n), torch.arange(n)).T
    return Graph(edges[:, edges[0] != edges[1]], n)


def star(n: int) -> Graph:
    leaves = torch.arange(1, n)
    hub = torch.zeros_like(leaves)
    return Graph(torch.stack([torch.cat([hub, leaves]), torch.cat([leaves, hub])]), n)


@pytest.mark.parametrize("normalization", ["l2", "qr"])
@pytest.mark.parametrize(("graph", "backends"), [
    (complete(450), ["reference", "sparse", "compiled"]), (star(500), ["reference", "sparse", "compiled"]),
    (star(20_000), ["reference", "sparse"]),
])  # fmt: skip
def test_zero_on_paper_is_zero_also_in_long_rows(normalization: str, graph: Graph, backends: list[str]) -> None:
    """Sums of many equal terms are off by more: L D^1/2 1 = 0, with the degrees of A + I."""
    degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes) + 1
    features = degree.double().sqrt()[:, None] * torch.tensor([1.0, 0.3])
    for backend in backends:
        arguments = {"operators": ["normalized_laplacian"], "num_steps": 1, "normalization": normalization}
        states = rfp.encode(graph, features=features.float(), backend=backend, **arguments).states
        assert not states[:, :, 1].any(), backend


def test_the_norm_counts_long_rows_as_often_as_they_are_longer() -> None:
    ptr = torch.tensor([0, 321])
    walk = from_name("random_walk", star(321), torch.float64)  # a row of 320 equal entries, 320 rows of one entry
    # Of length 320^1/2 / 320; g = 321 / 64, as the diagonal counts. The norm of the rest is 320^1/2.
    beyond = (321 / LONG_ROW - 1) / 320**0.5
    assert float(norm_of(walk, ptr)) == pytest.approx(320**0.5)
    assert float(rounding_norm(walk, ptr)) == pytest.approx(320**0.5 + beyond)
    dense = DenseOperator(torch.full((640, 640), 1 / 640, dtype=torch.float64))
    assert float(rounding_norm(dense, torch.tensor([0, 640]))) == pytest.approx(10.0)  # g times the norm, which is 1
    small = from_name("normalized_adjacency", star(60))
    assert float(rounding_norm(small, torch.tensor([0, 60]))) == 1.0
    both = as_graph([star(60), star(321)])
    norms = rounding_norm(from_name("random_walk", both, torch.float64), both.offsets)
    assert norms.tolist() == pytest.approx([59**0.5, 320**0.5 + beyond])


def test_the_scan_finds_the_bound_between_noise_and_products() -> None:
    """A slice of benchmarks/rounding_units.py, which set it."""
    found = rounding_units.scan(12, seed=1)
    noise = max(max(values) for key, values in found.items() if key[0] == "zero on paper")
    least = min(min(values) for key, values in found.items() if key[0] == "genuine")
    assert 0.5 < noise < UNITS < 100 < least


def test_amplification_by_hand() -> None:
    r = torch.tensor([[2.0, 4.0, 6.0], [0.0, 0.5, 1.0], [0.0, 0.0, 3.0]], dtype=torch.float64)
    # z1² = 1/4; a2² = 1 + 16/4 = 5, z2² = 5/.25 = 20; a3² = 1 + 36/4 + 1 * 20 = 30.
    torch.testing.assert_close(amplification(r), torch.tensor([1.0, 5**0.5, 30**0.5], dtype=torch.float64))


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_amplification_is_how_much_noise_the_residuals_carry(scale: float) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((9, 6))
    a[:, 3] = a[:, :3] @ [1.0, -2.0, 0.5] + scale * a[:, 3]  # nearly dependent
    r = np.linalg.qr(a)[1]
    alpha = amplification(torch.from_numpy(r * np.sign(np.diag(r))[:, None])).numpy()
    seen = []
    for _ in range(400):
        noise = 1e-9 * rng.standard_normal(a.shape)
        _, perturbed = np.linalg.qr(a + noise)
        seen.append(np.abs(np.diag(perturbed)) - np.abs(np.diag(r)))
    spread = np.std(seen, axis=0) / 1e-9
    np.testing.assert_array_less(spread, 2 * alpha)
    np.testing.assert_array_less(alpha, 5 * spread)
